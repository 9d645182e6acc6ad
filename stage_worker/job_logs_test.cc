#include "stage_worker/job_logs.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace stagecoach::worker {
namespace {

class JobLogsTest : public ::testing::Test {
 protected:
  // "j1@0:text"; "-" if there is nothing.
  std::string Next() {
    auto chunk = logs_.Next();
    if (!chunk.has_value()) return "-";
    return absl::StrCat(chunk->job_id, "@", chunk->offset, ":", chunk->data);
  }
  JobLogs logs_;
};

TEST_F(JobLogsTest, OnePieceIsUnderWayAtATime) {
  logs_.Append("j1", "one\n");
  logs_.Append("j1", "two\n");
  EXPECT_EQ(Next(), "j1@0:one\ntwo\n");
  logs_.Append("j1", "three\n");
  EXPECT_EQ(Next(), "-");
  logs_.Acknowledge("j1", 8);
  EXPECT_EQ(Next(), "j1@8:three\n");
  logs_.Acknowledge("j1", 14);
  EXPECT_EQ(Next(), "-");
}

TEST_F(JobLogsTest, ANewSessionGoesOnFromWhatWasAcknowledged) {
  logs_.Append("j1", "one\n");
  Next();
  logs_.Acknowledge("j1", 4);
  logs_.Append("j1", "two\n");
  Next();  // lost
  logs_.Restart(false);
  EXPECT_EQ(Next(), "j1@4:two\n");
}

TEST_F(JobLogsTest, ANewCoordinatorGetsEverythingThatIsKept) {
  logs_.Append("j1", "one\n");
  Next();
  logs_.Acknowledge("j1", 4);
  logs_.Restart(true);
  EXPECT_EQ(Next(), "j1@0:one\n");
}

TEST_F(JobLogsTest, RestIsAllOfAJobInPieces) {
  const std::string line(1023, 'x');
  for (int i = 0; i < 200; ++i) logs_.Append("j1", line + "\n");
  logs_.Append("j2", "other\n");
  Next();
  const auto rest = logs_.Rest("j1");
  ASSERT_EQ(rest.size(), 3u);
  int64_t offset = JobLogs::kChunkBytes;
  for (const auto& chunk : rest) {
    EXPECT_EQ(chunk.offset, offset);
    EXPECT_LE(chunk.data.size(), static_cast<size_t>(JobLogs::kChunkBytes));
    offset += static_cast<int64_t>(chunk.data.size());
  }
  EXPECT_EQ(offset, 200 * 1024);
  EXPECT_TRUE(logs_.Rest("j1").empty());
  EXPECT_TRUE(logs_.Rest("unknown").empty());
  logs_.Acknowledge("j1", offset);
  EXPECT_EQ(Next(), "j2@0:other\n");
}

// The coordinator sees from the offset that bytes are missing.
TEST_F(JobLogsTest, WithoutACoordinatorTheOldestBytesGo) {
  const std::string line(1023, 'x');
  for (int i = 0; i < 3000; ++i) logs_.Append("j1", line + "\n");
  auto chunk = logs_.Next();
  ASSERT_TRUE(chunk.has_value());
  EXPECT_GT(chunk->offset, 1900 * 1024);
  EXPECT_LE(chunk->offset, 2000 * 1024);
}

TEST_F(JobLogsTest, KeepsTheLastJobs) {
  for (size_t i = 0; i <= JobLogs::kJobs; ++i) {
    logs_.Append(absl::StrCat("j", i), "line\n");
  }
  EXPECT_EQ(Next(), "j1@0:line\n");
}

}  // namespace
}  // namespace stagecoach::worker

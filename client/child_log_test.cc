#include "client/child_log.h"

#include <stdlib.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/process.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

void Append(const ChildLog& log, const std::string& text) {
  std::ofstream(log.path(), std::ios::app) << text;
}

TEST(ChildLogTest, TailHasTheLastLines) {
  const ChildLog log = *ChildLog::Temporary();
  EXPECT_EQ(log.Tail(3), "");
  Append(log, "one\n");
  EXPECT_EQ(log.Tail(3), "one\n");
  Append(log, "two\n\nfour\n");
  EXPECT_EQ(log.Tail(3), "two\n\nfour\n");
  EXPECT_EQ(log.Tail(4), "one\ntwo\n\nfour\n");
  EXPECT_EQ(log.Tail(9), "one\ntwo\n\nfour\n");
  EXPECT_EQ(log.Tail(0), "");
}

TEST(ChildLogTest, AnUnfinishedLastLineIsALine) {
  const ChildLog log = *ChildLog::Temporary();
  Append(log, "one\ntw");
  EXPECT_EQ(log.Tail(1), "tw\n");
}

TEST(ChildLogTest, TheTailOfALongLogIsBounded) {
  const ChildLog log = *ChildLog::Temporary();
  Append(log, std::string(100000, 'x') + "\nend\n");
  EXPECT_EQ(log.Tail(1), "end\n");
  EXPECT_EQ(log.Tail(2).size(), size_t{16} << 10);
}

// The child opens the path while it is being started, by posix_spawn.
TEST(ChildLogTest, AChildWritesIntoAFileWithoutAName) {
  const ChildLog log = *ChildLog::Temporary();
  SpawnOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", "echo complaint >&2; exit 4"};
  options.stderr_file = log.path();
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<ChildProcess> child = ChildProcess::Spawn(options);
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_EQ(*child->Wait(kPatience), 4);
  }
  EXPECT_EQ(log.Tail(10), "complaint\ncomplaint\n");
}

TEST(ChildLogTest, KeptLogsAreEmptiedFilesInTheFolder) {
  std::string pattern = testing::TempDir() + "/logsXXXXXX";
  const std::string folder = std::string(mkdtemp(pattern.data())) + "/a/b";
  { Append(*ChildLog::Kept(folder, "w0"), "old\n"); }
  ChildLog log = *ChildLog::Kept(folder, "w0");
  EXPECT_EQ(log.path(), folder + "/w0.log");
  Append(log, "new\n");
  const ChildLog moved = std::move(log);
  EXPECT_EQ(moved.Tail(5), "new\n");
}

TEST(ChildLogTest, AFolderThatCannotBeMadeIsTheUsersMistake) {
  EXPECT_EQ(ChildLog::Kept("/proc/nowhere", "w0").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach::client

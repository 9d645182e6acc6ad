#include "client/exit_codes.h"

#include <fstream>
#include <iterator>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using StatusCase = std::tuple<absl::StatusCode, int>;

class StatusExitCodeTest : public testing::TestWithParam<StatusCase> {};

TEST_P(StatusExitCodeTest, IsAsDocumented) {
  const auto [code, exit_code] = GetParam();
  EXPECT_EQ(ExitCodeOf(absl::Status(code, "message")), exit_code);
}

INSTANTIATE_TEST_SUITE_P(
    All, StatusExitCodeTest,
    testing::Values(StatusCase{absl::StatusCode::kOk, 0},
                    StatusCase{absl::StatusCode::kInternal, 1},
                    StatusCase{absl::StatusCode::kUnknown, 1},
                    StatusCase{absl::StatusCode::kDataLoss, 1},
                    StatusCase{absl::StatusCode::kInvalidArgument, 2},
                    StatusCase{absl::StatusCode::kUnavailable, 3},
                    StatusCase{absl::StatusCode::kPermissionDenied, 4},
                    StatusCase{absl::StatusCode::kUnauthenticated, 4},
                    StatusCase{absl::StatusCode::kUnimplemented, 5},
                    StatusCase{absl::StatusCode::kFailedPrecondition, 6},
                    StatusCase{absl::StatusCode::kAlreadyExists, 6},
                    StatusCase{absl::StatusCode::kDeadlineExceeded, 101},
                    StatusCase{absl::StatusCode::kNotFound, 102},
                    StatusCase{absl::StatusCode::kCancelled, 130}));

TEST(ExitCodeTest, VersionSkewIsToldFromOtherPreconditions) {
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError(
                "version skew: coordinator speaks protocol 2, client 1")),
            5);
  // In any other status these words mean nothing.
  EXPECT_EQ(ExitCodeOf(absl::InternalError("version skew")), 1);
}

v1::Job FailedBy(v1::FailureKind kind) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_FAILED);
  job.mutable_cause()->set_kind(kind);
  return job;
}

TEST(ExitCodeTest, FailedJobsAreToldApartByTheirCause) {
  EXPECT_EQ(ExitCodeOf(FailedBy(v1::FAILURE_KIND_UNSPECIFIED)), 100);
  EXPECT_EQ(ExitCodeOf(FailedBy(v1::FAILURE_KIND_INTERNAL)), 100);
  EXPECT_EQ(ExitCodeOf(FailedBy(v1::FAILURE_KIND_INVALID)), 2);
  EXPECT_EQ(ExitCodeOf(FailedBy(v1::FAILURE_KIND_WORKER_LOST)), 105);
  EXPECT_EQ(ExitCodeOf(FailedBy(v1::FAILURE_KIND_OUT_OF_MEMORY)), 104);
}

TEST(ExitCodeTest, JobsThatDidNotFail) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(ExitCodeOf(job), 0);
  job.set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(ExitCodeOf(job), 103);
  job.set_state(v1::JOB_STATE_RUNNING);
  EXPECT_EQ(ExitCodeOf(job), 101);
}

TEST(ExitCodeTest, FinishedStates) {
  EXPECT_TRUE(IsFinished(v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(IsFinished(v1::JOB_STATE_FAILED));
  EXPECT_TRUE(IsFinished(v1::JOB_STATE_CANCELLED));
  EXPECT_FALSE(IsFinished(v1::JOB_STATE_CANCELLING));
  EXPECT_FALSE(IsFinished(v1::JOB_STATE_UNSPECIFIED));
}

TEST(ExitCodeMeaningsTest, AreThoseOfTheManual) {
  std::ifstream file("docs/cli.md");
  const std::string manual(std::istreambuf_iterator<char>(file), {});
  int last = -1;
  for (const ExitCodeMeaning& entry : ExitCodeMeanings()) {
    EXPECT_GT(entry.exit_code, last);
    last = entry.exit_code;
    EXPECT_THAT(manual, testing::HasSubstr(absl::StrCat(
                            "| ", last, " | ", entry.meaning, " |\n")));
  }
  EXPECT_EQ(last, kExitInterrupted);
}

}  // namespace
}  // namespace stagecoach::client

#include "coordinator/job_state.h"

#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

using S = JobState;

class JobStateEdgeTest
    : public ::testing::TestWithParam<std::pair<JobState, JobState>> {};

TEST_P(JobStateEdgeTest, IsInTheDiagram) {
  EXPECT_TRUE(CanFollow(GetParam().first, GetParam().second));
}

const std::pair<S, S> kEdges[] = {
    {S::kQueued, S::kPlanning},       {S::kPlanning, S::kQueued},
    {S::kPlanning, S::kFailed},       {S::kPlanning, S::kCancelled},
    {S::kQueued, S::kCancelled},      {S::kQueued, S::kPlacing},
    {S::kPlacing, S::kRunning},       {S::kPlacing, S::kFailing},
    {S::kPlacing, S::kCancelling},    {S::kRunning, S::kSucceeded},
    {S::kRunning, S::kFailing},       {S::kRunning, S::kCancelling},
    {S::kFailing, S::kFailed},        {S::kCancelling, S::kCancelled},
    {S::kPlacing, S::kRecovering},    {S::kRunning, S::kRecovering},
    {S::kRecovering, S::kPlacing},    {S::kRecovering, S::kFailing},
    {S::kRecovering, S::kCancelling},
};

INSTANTIATE_TEST_SUITE_P(Edges, JobStateEdgeTest, ::testing::ValuesIn(kEdges),
                         [](const auto& edge) {
                           return std::string(JobStateName(edge.param.first)) +
                                  "_" + JobStateName(edge.param.second);
                         });

TEST(JobStateTest, HasNoOtherEdges) {
  const std::set<std::pair<S, S>> edges(std::begin(kEdges), std::end(kEdges));
  for (S from : kAllJobStates) {
    for (S to : kAllJobStates) {
      EXPECT_EQ(CanFollow(from, to), edges.count({from, to}) > 0)
          << JobStateName(from) << " to " << JobStateName(to);
    }
  }
}

TEST(JobStateTest, NothingFollowsAnOutcome) {
  for (S from : kAllJobStates) {
    bool has_successor = false;
    for (S to : kAllJobStates) has_successor |= CanFollow(from, to);
    EXPECT_EQ(has_successor, !IsFinished(from)) << JobStateName(from);
  }
}

}  // namespace
}  // namespace stagecoach::coordinator

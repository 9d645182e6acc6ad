// Watching jobs, and asking workers for their memory.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/controller_fixture.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

class ControllerQueriesTest : public ControllerTest {
 protected:
  using Stats = absl::StatusOr<v1::GetMemoryStatsResponse>;

  // Empty until the reply has come.
  std::shared_ptr<std::optional<Stats>> Ask(const std::string& job_id) {
    auto request = Versioned<v1::GetMemoryStatsRequest>();
    request.set_job_id(job_id);
    auto result = std::make_shared<std::optional<Stats>>();
    controller_->AskMemory(
        MemoryQueryKind::kStats, request,
        [result](Stats reply) { *result = std::move(reply); });
    RunAll();
    return result;
  }
};

TEST_F(ControllerQueriesTest, WatcherSeesEveryChangeAndTheEnd) {
  JoinMany(2);
  Submit(TinySpec(2));
  auto watcher = Watch("job-1");
  Serve();
  ASSERT_EQ(watcher->ended, absl::OkStatus());
  int64_t revision = 0;
  std::vector<int64_t> steps;
  for (const v1::Job& event : watcher->events) {
    EXPECT_GT(event.revision(), revision);
    revision = event.revision();
    for (const v1::StepResult& step : event.steps()) {
      steps.push_back(step.step());
    }
    const bool last = &event == &watcher->events.back();
    EXPECT_EQ(event.stages_size() > 0, last);
    EXPECT_EQ(event.parameters_size() > 0, last);
  }
  EXPECT_EQ(steps, std::vector<int64_t>({0, 1}));
  EXPECT_TRUE(watcher->events.front().has_spec());
  EXPECT_EQ(watcher->events.front().state(), v1::JOB_STATE_PLACING);
  EXPECT_EQ(watcher->events.back().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(watcher->events.back().has_spec());
}

TEST_F(ControllerQueriesTest, WatchResumesFromARevision) {
  JoinMany(1);
  Submit(TinySpec(1, 3));
  auto first = Watch("job-1");
  Serve("begin:2");
  ASSERT_FALSE(first->events.empty());
  const v1::Job& seen = first->events.back();
  auto second = Watch("job-1", seen.revision(), 1);
  EXPECT_TRUE(second->events.empty());  // nothing is new
  Serve();
  ASSERT_FALSE(second->events.empty());
  ASSERT_EQ(second->events.front().steps_size(), 1);
  EXPECT_EQ(second->events.front().steps(0).step(), 2);
  EXPECT_EQ(second->ended, absl::OkStatus());
}

TEST_F(ControllerQueriesTest, WatchFromTheStartHasAllStepsWhateverItSays) {
  JoinMany(1);
  Submit(TinySpec(1, 3));
  Serve();
  auto watcher = Watch("job-1", 0, 0);
  ASSERT_EQ(watcher->events.size(), 1u);
  EXPECT_EQ(watcher->events[0].steps_size(), 3);
  EXPECT_EQ(watcher->ended, absl::OkStatus());
}

TEST_F(ControllerQueriesTest, LastEventComesAgainToWhoMayHaveMissedIt) {
  JoinMany(1);
  Submit(TinySpec(1));
  Serve();
  auto watcher = Watch("job-1", Get("job-1")->revision(), 1);
  ASSERT_EQ(watcher->events.size(), 1u);
  EXPECT_EQ(watcher->events[0].steps_size(), 0);
  EXPECT_EQ(watcher->events[0].stages_size(), 1);
  EXPECT_EQ(watcher->ended, absl::OkStatus());
}

TEST_F(ControllerQueriesTest, LongHistoriesComeInPieces) {
  JoinMany(1);
  constexpr int64_t kSteps = 25'000;
  Submit(TinySpec(1, kSteps, 1));
  Serve();
  auto watcher = Watch("job-1");
  ASSERT_EQ(watcher->events.size(), 3u);
  int64_t next = 0;
  for (const v1::Job& event : watcher->events) {
    EXPECT_LT(event.ByteSizeLong(), size_t{4 * 1024 * 1024});
    const bool last = &event == &watcher->events.back();
    EXPECT_EQ(event.state() == v1::JOB_STATE_SUCCEEDED, last);
    for (const v1::StepResult& step : event.steps()) {
      ASSERT_EQ(step.step(), next++);
    }
  }
  EXPECT_EQ(next, kSteps);
  const auto job = Get("job-1");
  EXPECT_EQ(job->steps_size(), 20'000);
  EXPECT_EQ(job->steps(0).step(), 5'000);
  EXPECT_LT(job->ByteSizeLong(), size_t{4 * 1024 * 1024});
}

TEST_F(ControllerQueriesTest, SlowWatcherIsForgottenOthersAreNot) {
  JoinMany(1);
  Submit(TinySpec(1));
  auto slow = Watch("job-1");
  slow->limit = 1;
  auto quick = Watch("job-1");
  Serve();
  EXPECT_EQ(slow->events.size(), 1u);
  EXPECT_FALSE(slow->ended.has_value());
  EXPECT_EQ(quick->ended, absl::OkStatus());
}

TEST_F(ControllerQueriesTest, UnwatchedMeansNoMoreEvents) {
  JoinMany(1);
  Submit(TinySpec(1));
  auto watcher = Watch("job-1");
  const size_t count = watcher->events.size();
  controller_->Unwatch(watcher);
  Serve();
  EXPECT_EQ(watcher->events.size(), count);
  EXPECT_FALSE(watcher->ended.has_value());
}

TEST_F(ControllerQueriesTest, WatchOfAnUnknownJobEndsAtOnce) {
  EXPECT_EQ(Watch("job-9")->ended->code(), absl::StatusCode::kNotFound);
  Submit(TinySpec(1));
  EXPECT_FALSE(Watch("latest")->ended.has_value());
  v1::WatchJobRequest request;
  request.set_job_id("job-1");
  auto watcher = std::make_shared<FakeWatcher>();
  controller_->Watch(request, watcher);
  RunAll();
  EXPECT_EQ(watcher->ended->code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ControllerQueriesTest, StopEndsWatches) {
  Submit(TinySpec(1));
  auto watcher = Watch("job-1");
  controller_->Stop(absl::UnavailableError("going down"));
  RunAll();
  EXPECT_EQ(watcher->ended->code(), absl::StatusCode::kUnavailable);
}

TEST_F(ControllerQueriesTest, WatcherOfAFailureSeesItsCauseLast) {
  JoinMany(2);
  Submit(TinySpec(2));
  auto watcher = Watch("job-1");
  Serve("begin");
  Disconnect(worker(1));
  worker(0).answered = worker(0).received.size() - 1;
  Serve();
  ASSERT_EQ(watcher->ended, absl::OkStatus());
  const v1::Job& last = watcher->events.back();
  EXPECT_EQ(last.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(last.cause().worker(), "w1");
  EXPECT_EQ(last.workers(0).measured_peak_bytes(), 1000);
  for (const v1::Job& event : watcher->events) {
    EXPECT_EQ(event.has_cause(), &event == &last);
  }
}

TEST_F(ControllerQueriesTest, ListShowsJobsWithoutTheirBulk) {
  JoinMany(1);
  Submit(TinySpec(1));
  Serve();
  Submit(TinySpec(1));
  v1::ListJobsResponse response;
  controller_->ListJobs(Versioned<v1::ListJobsRequest>(),
                        [&](auto reply) { response = *reply; });
  RunAll();
  ASSERT_EQ(response.jobs_size(), 2);
  EXPECT_EQ(response.jobs(0).id(), "job-1");
  EXPECT_EQ(response.jobs(0).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(response.jobs(0).steps_size(), 0);
  EXPECT_EQ(response.jobs(0).stages_size(), 0);
  EXPECT_EQ(response.jobs(0).parameters_size(), 0);
}

// ---- memory -----------------------------------------------------------------

TEST_F(ControllerQueriesTest, MemoryIsAskedOfTheWorkersWhileTheJobRuns) {
  JoinMany(3);
  Submit(TinySpec(2));
  Serve("begin");
  auto stats = Ask("job-1");
  EXPECT_FALSE(stats->has_value());
  EXPECT_FALSE(worker(2).received.back().has_memory_query());
  for (size_t i : {0, 1}) {
    Say(worker(i), *AnswerTo(worker(i), worker(i).received.back()));
  }
  ASSERT_TRUE(stats->has_value());
  ASSERT_TRUE((*stats)->ok());
  const v1::GetMemoryStatsResponse& response = ***stats;
  EXPECT_EQ(response.job_id(), "job-1");
  ASSERT_EQ(response.workers_size(), 2);
  EXPECT_EQ(response.workers(1).worker(), "w1");
  EXPECT_EQ(response.silent_workers_size(), 0);
}

TEST_F(ControllerQueriesTest, SilentWorkersAreNamedAfterASecond) {
  JoinMany(2);
  Submit(TinySpec(2));
  Serve("begin");
  auto stats = Ask("");
  Say(worker(1), *AnswerTo(worker(1), worker(1).received.back()));
  Pass(absl::Seconds(0.9), AllBut({}));
  EXPECT_FALSE(stats->has_value());
  Pass(absl::Seconds(0.1), AllBut({}));
  ASSERT_TRUE(stats->has_value());
  const v1::GetMemoryStatsResponse& response = ***stats;
  ASSERT_EQ(response.workers_size(), 1);
  EXPECT_EQ(response.workers(0).worker(), "w1");
  ASSERT_EQ(response.silent_workers_size(), 1);
  EXPECT_EQ(response.silent_workers(0), "w0");
  // Its late answer changes nothing.
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
}

TEST_F(ControllerQueriesTest, ALostWorkerIsNotWaitedFor) {
  JoinMany(2);
  Submit(TinySpec(2));
  Serve("begin");
  auto stats = Ask("job-1");
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  Disconnect(worker(1));
  ASSERT_TRUE(stats->has_value());
  EXPECT_EQ((***stats).silent_workers(0), "w1");
}

TEST_F(ControllerQueriesTest, AfterTheEndTheLastFiguresAreGiven) {
  JoinMany(2);
  Submit(TinySpec(2));
  Serve();
  auto stats = Ask("");
  ASSERT_TRUE(stats->has_value());
  const v1::GetMemoryStatsResponse& response = ***stats;
  EXPECT_EQ(response.job_id(), "job-1");
  ASSERT_EQ(response.workers_size(), 2);
  EXPECT_EQ(response.workers(0).allocated_bytes().peak(), 1000);
}

TEST_F(ControllerQueriesTest, WithoutANameTheRunningJobIsMeant) {
  JoinMany(1);
  Submit(TinySpec(1));
  Submit(TinySpec(1));
  Serve("begin");
  auto stats = Ask("");
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  ASSERT_TRUE(stats->has_value());
  EXPECT_EQ((***stats).job_id(), "job-1");
}

TEST_F(ControllerQueriesTest, MemoryOfNoJobIsNotFound) {
  auto stats = Ask("");
  ASSERT_TRUE(stats->has_value());
  EXPECT_EQ((**stats).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((**Ask("job-9")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ControllerQueriesTest, StopAnswersWhatIsPending) {
  JoinMany(1);
  Submit(TinySpec(1));
  auto stats = Ask("job-1");
  controller_->Stop(absl::UnavailableError("going down"));
  RunAll();
  ASSERT_TRUE(stats->has_value());
  EXPECT_EQ((**stats).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace stagecoach::coordinator

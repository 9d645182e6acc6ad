// Workers that die, stop, fail or talk nonsense.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/controller_fixture.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

// Four workers in the middle of a step of job-1.
class ControllerFailureTest : public ControllerTest {
 protected:
  void Run(const v1::JobSpec& spec = TinySpec(4, 3, 4)) {
    JoinMany(4);
    Submit(spec);
    Serve("begin:1");
    Beat(worker(2), "2F3", 2, 3, 1);
    ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  }
  void ExpectFailed(const std::string& culprit, int stage,
                    v1::FailureKind kind = v1::FAILURE_KIND_WORKER_LOST) {
    const auto job = Get("job-1");
    ASSERT_EQ(job->state(), v1::JOB_STATE_FAILED) << job->DebugString();
    EXPECT_EQ(job->cause().worker(), culprit);
    EXPECT_EQ(job->cause().stage(), stage);
    EXPECT_EQ(job->cause().kind(), kind);
    std::vector<std::string> victims;
    for (const char* name : {"w0", "w1", "w2", "w3"}) {
      if (name != culprit) victims.push_back(name);
    }
    EXPECT_EQ(
        std::vector<std::string>(job->victims().begin(), job->victims().end()),
        victims);
    EXPECT_EQ(job->steps_size(), 1);
  }
  // As if each had begun to answer the step: only Abort is answered now.
  void ServeAborts() {
    for (const auto& worker : workers_) {
      while (worker->answered < worker->received.size() &&
             !worker->received[worker->answered].has_abort()) {
        ++worker->answered;
      }
    }
    Serve();
  }
};

TEST_F(ControllerFailureTest, AKilledWorkerEndsTheJobAtOnce) {
  Run();
  Disconnect(worker(2));
  for (size_t i : {0, 1, 3}) {
    EXPECT_EQ(worker(i).received.back().abort().job_id(), "job-1");
  }
  ServeAborts();
  ExpectFailed("w2", 2);
  const auto job = Get("job-1");
  EXPECT_EQ(job->cause().action(), "2F3");
  EXPECT_EQ(job->cause().microbatch(), 3);
  EXPECT_EQ(job->cause().step(), 1);
  EXPECT_EQ(job->reason(),
            "stage 2 (worker w2), step 1, 2F3, microbatch 3: the worker was "
            "lost: its session ended; the process is gone, or its connection "
            "broke");
  // The survivors' last figures are there, and they are free.
  EXPECT_EQ(job->workers(0).measured_peak_bytes(), 1000);
  EXPECT_TRUE(controller_->state().FindWorker("w3")->idle());
  EXPECT_TRUE(controller_->state().FindWorker("w2")->dead);
}

TEST_F(ControllerFailureTest, OutcomeIsPublishedOnceTheSurvivorsLetGo) {
  Run();
  Disconnect(worker(2));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  EXPECT_TRUE(absl::StrContains(Get("job-1")->reason(), "worker w2"));
  Pass(absl::Seconds(1.9), AllBut({2}));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  // One that does not answer holds the outcome up for 2 s at most.
  Pass(absl::Seconds(0.1), AllBut({2}));
  ExpectFailed("w2", 2);
  EXPECT_EQ(controller_->state().FindWorker("w1")->job_id, "job-1");
  // It may still let go, or it is dead after 5 s.
  Say(worker(1), *AnswerTo(worker(1), worker(1).received.back()));
  EXPECT_TRUE(controller_->state().FindWorker("w1")->idle());
  EXPECT_EQ(Get("job-1")->workers(1).measured_peak_bytes(), 1000);
  Pass(absl::Seconds(3), AllBut({2}));
  EXPECT_TRUE(controller_->state().FindWorker("w0")->dead);
  EXPECT_TRUE(controller_->state().FindWorker("w3")->dead);
  EXPECT_TRUE(controller_->state().FindWorker("w1")->idle());
}

TEST_F(ControllerFailureTest, TheVictimsReportsComeFirst) {
  Run();
  Fail(worker(1), v1::FAILURE_KIND_WORKER_LOST, "edge 1->2 ended", "w2");
  Fail(worker(3), v1::FAILURE_KIND_WORKER_LOST, "edge 2->3 ended", "w2");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  EXPECT_FALSE(worker(0).received.back().has_abort());
  Pass(absl::Milliseconds(100), AllBut({2}));
  Disconnect(worker(2));
  ServeAborts();
  ExpectFailed("w2", 2);
  EXPECT_TRUE(
      absl::StrContains(Get("job-1")->cause().message(), "its session ended"));
}

TEST_F(ControllerFailureTest, AStoppedWorkerEndsTheJobWithinTenSeconds) {
  Run();
  const absl::Time stopped = clock_.Now();
  Pass(absl::Seconds(1.9), AllBut({2}));
  EXPECT_FALSE(controller_->state().FindWorker("w2")->suspect);
  Pass(absl::Seconds(0.1), AllBut({2}));
  EXPECT_TRUE(controller_->state().FindWorker("w2")->suspect);
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(3.9), AllBut({2}));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(0.1), AllBut({2}));
  ServeAborts();
  ExpectFailed("w2", 2);
  EXPECT_LE(clock_.Now() - stopped, absl::Seconds(10));
  EXPECT_TRUE(
      absl::StrContains(Get("job-1")->cause().message(), "no heartbeat for 6s"))
      << Get("job-1")->cause().message();
  EXPECT_EQ(Get("job-1")->cause().action(), "2F3");
  ASSERT_TRUE(worker(2).closed.has_value());
  EXPECT_EQ(worker(2).closed->code(), absl::StatusCode::kAborted);
}

// Peers that give up on a stopped worker do not become the cause, and the
// slowest path still ends within 10 s.
TEST_F(ControllerFailureTest, PeersOfAStoppedWorkerAreItsVictims) {
  Run();
  const absl::Time stopped = clock_.Now();
  Pass(absl::Seconds(5), AllBut({2}));
  Fail(worker(1), v1::FAILURE_KIND_WORKER_LOST, "no grant for 3 s", "w2");
  Fail(worker(3), v1::FAILURE_KIND_INTERNAL, "a call timed out");
  Pass(absl::Seconds(0.9), AllBut({2}));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  while (StateOf("job-1") != v1::JOB_STATE_FAILED) {
    ASSERT_LE(clock_.Now() - stopped, absl::Seconds(10));
    Pass(absl::Milliseconds(100), AllBut({2}));
  }
  ExpectFailed("w2", 2);
  EXPECT_LE(clock_.Now() - stopped, absl::Seconds(9));
}

TEST_F(ControllerFailureTest, ABlamedWorkerThatLivesIsBlamedAfterTheGrace) {
  Run();
  Fail(worker(1), v1::FAILURE_KIND_WORKER_LOST, "edge 1->2 ended", "w2");
  for (int i = 0; i < 9; ++i) {
    Pass(absl::Milliseconds(100), AllBut({2}));
    Beat(worker(2), "2F3", 2, 3, 1);
  }
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  Pass(absl::Milliseconds(100), AllBut({2}));
  // Everybody is told, the blamed and the one who failed included.
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(worker(i).received.back().has_abort());
  }
  ServeAborts();
  ExpectFailed("w2", 2);
  EXPECT_EQ(Get("job-1")->cause().message(),
            "edge lost, reported by w1: edge 1->2 ended");
  EXPECT_EQ(Get("job-1")->cause().action(), "2F3");
  EXPECT_TRUE(controller_->state().FindWorker("w2")->idle());
}

TEST_F(ControllerFailureTest, OutOfMemoryIsTheWorkersOwn) {
  Run();
  v1::WorkerMessage message;
  v1::WorkerFailed* failed = message.mutable_failed();
  failed->set_kind(v1::FAILURE_KIND_OUT_OF_MEMORY);
  failed->set_message("8 GiB are used up");
  failed->mutable_position()->set_stage(3);
  failed->mutable_position()->set_action("3B0");
  failed->mutable_position()->set_step(1);
  Say(worker(3), message);
  Fail(worker(2), v1::FAILURE_KIND_WORKER_LOST, "edge ended", "w3");
  ServeAborts();
  ExpectFailed("w3", 3, v1::FAILURE_KIND_OUT_OF_MEMORY);
  EXPECT_EQ(Get("job-1")->cause().action(), "3B0");
  EXPECT_EQ(Get("job-1")->reason(),
            "stage 3 (worker w3), step 1, 3B0, microbatch 0: 8 GiB are used "
            "up");
}

TEST_F(ControllerFailureTest, WithoutAPositionTheLowestStageIsNamed) {
  JoinMany(2);
  v1::JobSpec spec = TinySpec(2);
  spec.mutable_pipeline()->set_schedule("interleaved");
  spec.mutable_pipeline()->set_stages_per_worker(2);
  spec.mutable_pipeline()->clear_split();
  for (int stage = 0; stage < 4; ++stage) {
    spec.mutable_pipeline()->add_split(2);
  }
  Submit(spec);
  Disconnect(worker(1));
  ServeAborts();
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job->cause().stage(), 1);
  EXPECT_EQ(job->cause().step(), -1);
  EXPECT_EQ(job->cause().microbatch(), -1);
  EXPECT_EQ(job->cause().action(), "");
}

class FailureInPhaseTest : public ControllerTest,
                           public ::testing::WithParamInterface<const char*> {};

TEST_P(FailureInPhaseTest, ALossEndsTheJob) {
  JoinMany(3);
  Submit(TinySpec(3));
  Serve(GetParam());
  Disconnect(worker(1));
  for (size_t i : {0, 2}) worker(i).answered = worker(i).received.size() - 1;
  Serve();
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job->cause().worker(), "w1");
  Join("w1");
  Submit(TinySpec(3));
  Serve();
  EXPECT_EQ(StateOf("job-2"), v1::JOB_STATE_SUCCEEDED);
}

INSTANTIATE_TEST_SUITE_P(Phases, FailureInPhaseTest,
                         ::testing::Values("assign", "connect", "begin:0",
                                           "begin:1", "commit:1", "finish"),
                         [](const auto& phase) {
                           std::string name(phase.param);
                           for (char& c : name) c = c == ':' ? '_' : c;
                           return name;
                         });

TEST_F(ControllerFailureTest, AWorkerThatHasFinishedMayDie) {
  JoinMany(2);
  Submit(TinySpec(2));
  Serve("finish");
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  worker(0).answered = worker(0).received.size();
  Disconnect(worker(0));
  Serve();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get("job-1")->workers(0).measured_peak_bytes(), 1000);
}

TEST_F(ControllerFailureTest, AllWorkersMayDieAtOnce) {
  Run();
  for (size_t i : {1, 0, 2, 3}) Disconnect(worker(i));
  ExpectFailed("w1", 1);
}

TEST_F(ControllerFailureTest, BrokenProtocolEndsTheJob) {
  Run();
  v1::WorkerMessage message;
  message.mutable_prepared()->set_step(77);
  Say(worker(3), message);
  Pass(absl::Milliseconds(300), AllBut({}));
  ServeAborts();
  ExpectFailed("w3", 3, v1::FAILURE_KIND_INTERNAL);
  EXPECT_TRUE(absl::StrContains(Get("job-1")->cause().message(),
                                "sent Prepared of step 77"));
}

TEST_F(ControllerFailureTest, AWorkerThatForgotItsJobIsNoticed) {
  Run();
  const auto beat_without_job = [&] {
    v1::WorkerMessage message;
    message.mutable_heartbeat();
    worker(1).epoch = 0;
    Say(worker(1), message);
    worker(1).epoch = 1;
  };
  beat_without_job();  // one that crossed Assign
  Pass(absl::Seconds(5), AllBut({1}));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  beat_without_job();
  Pass(absl::Milliseconds(300), AllBut({}));
  ServeAborts();
  ExpectFailed("w1", 1, v1::FAILURE_KIND_INTERNAL);
}

TEST_F(ControllerFailureTest, FailureWhileCancellingIsACancelledJob) {
  Run();
  Cancel("job-1");
  Fail(worker(1), v1::FAILURE_KIND_INTERNAL, "oops");
  Disconnect(worker(2));
  ServeAborts();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_CANCELLED);
}

TEST_F(ControllerFailureTest, CancelDuringTheGraceWins) {
  Run();
  Fail(worker(1), v1::FAILURE_KIND_WORKER_LOST, "edge ended", "w2");
  Cancel("job-1");
  Pass(absl::Seconds(1.5), AllBut({}));
  ServeAborts();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_CANCELLED);
}

TEST_F(ControllerFailureTest, CancellingAFailingJobKeepsItsFailure) {
  Run();
  Disconnect(worker(2));
  Cancel("job-1");
  ServeAborts();
  ExpectFailed("w2", 2);
}

TEST_F(ControllerFailureTest, OtherJobsAreNotTouched) {
  JoinMany(4);
  Submit(TinySpec(2));
  Submit(TinySpec(2));
  Serve("begin:1");
  Disconnect(worker(0));
  EXPECT_FALSE(worker(2).received.back().has_abort());
  worker(1).answered = worker(1).received.size() - 1;
  Serve();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_FAILED);
  EXPECT_EQ(StateOf("job-2"), v1::JOB_STATE_SUCCEEDED);
}

}  // namespace
}  // namespace stagecoach::coordinator

// Coordinators that die and go on: no step is lost or done twice, no command
// forgotten, and no state changes because somebody could not be reached.
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/resuming_fixture.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

class TakeoverTest : public ResumingTest {
 protected:
  void Start(int workers, int64_t steps) {
    for (int i = 0; i < workers; ++i) StartProcess(absl::StrCat("w", i));
    Submit(TinySpec(workers, steps, 2));
  }
  // Deals with messages until every worker has applied so many steps.
  void ServeUntilApplied(size_t steps) {
    for (int i = 0; i < 1000; ++i) {
      bool reached = true;
      for (const auto& process : processes_) {
        if (process->applied.size() >= steps) continue;
        reached = false;
        Serve(*process);
      }
      if (reached) return;
    }
    FAIL() << "no progress";
  }
  void ExpectWholeHistory(const std::string& job_id, int64_t steps) {
    const auto job = Get(job_id);
    ASSERT_EQ(job->state(), v1::JOB_STATE_SUCCEEDED) << job->DebugString();
    ASSERT_EQ(job->steps_size(), steps);
    for (int i = 0; i < steps; ++i) {
      EXPECT_EQ(job->steps(i).step(), i);
      EXPECT_EQ(job->steps(i).loss(), job->steps(0).loss());
    }
    for (const auto& process : processes_) {
      ASSERT_EQ(process->applied.size(), static_cast<size_t>(steps));
      for (size_t i = 0; i < process->applied.size(); ++i) {
        const v1::StepCommit& mine = process->applied[i];
        EXPECT_EQ(mine.step(), static_cast<int64_t>(i));
        EXPECT_EQ(mine.SerializeAsString(),
                  processes_[0]->applied[i].SerializeAsString());
      }
    }
  }
};

TEST_F(TakeoverTest, ARunningJobGoesOn) {
  Start(2, 6);
  ServeUntilApplied(3);
  Crash();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  ServeAll();
  ExpectWholeHistory("job-1", 6);
  EXPECT_EQ(Get("job-1")->epoch(), 1);
  EXPECT_EQ(Get("job-1")->parameters_size(), 2);
}

// At every moment of a job's life, again and again.
TEST_F(TakeoverTest, CrashesAfterEveryFewMessages) {
  // With fewer turns in each life than three, one of the two workers would
  // never hear more than its welcome.
  for (int gap = 3; gap <= 7; ++gap) {
    SCOPED_TRACE(absl::StrCat("every ", gap, " turns"));
    processes_.clear();
    crashing_ = CrashingJournal();
    Crash();
    Start(2, 5);
    int served = 0;
    for (int round = 0; round < 400; ++round) {
      for (const auto& process : processes_) {
        if (process->link == nullptr) Open(*process);
        Serve(*process);
        Serve(*process);
        if (++served % gap == 0) Crash();
      }
      if (StateOf("job-1") == v1::JOB_STATE_SUCCEEDED) break;
    }
    ExpectWholeHistory("job-1", 5);
    if (HasFailure()) return;
  }
}

// No checkpoint is left out, written twice or completed twice.
TEST_F(TakeoverTest, CheckpointsGoOnAtEveryMoment) {
  for (int gap = 3; gap <= 7; ++gap) {
    SCOPED_TRACE(absl::StrCat("every ", gap, " turns"));
    processes_.clear();
    crashing_ = CrashingJournal();
    Crash();
    for (const char* name : {"w0", "w1"}) StartProcess(name);
    v1::JobSpec spec = TinySpec(2, 5, 2);
    spec.mutable_checkpoint()->set_directory("/nonexistent/checkpoints");
    spec.mutable_checkpoint()->set_every_steps(2);
    spec.mutable_checkpoint()->set_keep(2);
    Submit(spec);
    int served = 0;
    for (int round = 0; round < 400; ++round) {
      for (const auto& process : processes_) {
        if (process->link == nullptr) Open(*process);
        Serve(*process);
        Serve(*process);
        if (++served % gap == 0) Crash();
        // A session alone may break, too.
        if (served % (gap + 4) == 0) Break(*process);
      }
      if (StateOf("job-1") == v1::JOB_STATE_SUCCEEDED) break;
    }
    ExpectWholeHistory("job-1", 5);
    EXPECT_EQ(process(0).sealed, std::vector<int64_t>({2, 4, 5}));
    EXPECT_TRUE(process(1).sealed.empty());
    EXPECT_EQ(Get("job-1")->checkpoint().step(), 5);
    if (HasFailure()) return;
  }
}

TEST_F(TakeoverTest, ACheckpointThatSomebodyAskedForIsMade) {
  for (const char* name : {"w0", "w1"}) StartProcess(name);
  v1::JobSpec spec = TinySpec(2, 6, 2);
  spec.mutable_checkpoint()->set_directory("/nonexistent/checkpoints");
  spec.mutable_checkpoint()->set_every_steps(100);
  Submit(spec);
  ServeUntilApplied(2);
  auto request = Versioned<v1::CheckpointJobRequest>();
  request.set_job_id("job-1");
  int64_t step = 0;
  controller_->Checkpoint(
      request, [&step](auto reply) { step = reply.ok() ? reply->step() : -1; });
  RunAll();
  ASSERT_GT(step, 0);
  Crash();
  ServeAll();
  EXPECT_EQ(process(0).sealed, std::vector<int64_t>({step, 6}));
  ExpectWholeHistory("job-1", 6);
}

TEST_F(TakeoverTest, OnlyOneWorkerMayKnowTheOutcome) {
  Start(2, 3);
  ServeUntilApplied(1);
  // Both are prepared for step 1; only w1 hears of its commit.
  while (process(0).state != v1::PLACEMENT_STATE_PREPARED) Serve(process(0));
  while (process(1).applied.size() < 2) ASSERT_TRUE(Serve(process(1)));
  ASSERT_EQ(process(0).applied.size(), 1u);
  Crash();
  ServeAll();
  ExpectWholeHistory("job-1", 3);
}

TEST_F(TakeoverTest, ACancelSurvives) {
  Start(2, 6);
  ServeUntilApplied(2);
  EXPECT_EQ(Cancel("job-1").state(), v1::JOB_STATE_CANCELLING);
  Crash();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_CANCELLING);
  ServeAll();
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job->reason(), "the test said so");
  EXPECT_EQ(job->workers(0).measured_peak_bytes(), 1000);
  Crash();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_CANCELLED);
}

TEST_F(TakeoverTest, SubmittingAgainAfterACrashIsTheSameJob) {
  const v1::JobSpec spec = TinySpec(1);
  EXPECT_EQ(Submit(spec, "request"), "job-1");
  Crash();
  EXPECT_EQ(Submit(spec, "request"), "job-1");
  EXPECT_EQ(Submit(spec, "another"), "job-2");
}

TEST_F(TakeoverTest, QueuedJobsArePlannedAgainAndRun) {
  Submit(TinySpec(1));
  Submit(TinySpec(1));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_QUEUED);
  Crash();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_QUEUED);
  StartProcess("w0");
  ServeAll();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(StateOf("job-2"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(TakeoverTest, AWorkerThatDoesNotComeBackEndsTheJob) {
  Start(2, 6);
  ServeUntilApplied(2);
  Crash();
  Open(process(0));
  while (Serve(process(0))) {
  }
  for (int i = 0; i < 149; ++i) {
    BeatAll();
    Pass(absl::Milliseconds(100));
  }
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  BeatAll();
  Pass(absl::Milliseconds(100));
  while (Serve(process(0))) {
  }
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job->cause().worker(), "w1");
  EXPECT_TRUE(absl::StrContains(job->cause().message(), "did not come back"))
      << job->cause().message();
  EXPECT_TRUE(controller_->state().FindWorker("w0")->idle());
}

TEST_F(TakeoverTest, AReplacedProcessIsALostWorker) {
  Start(2, 6);
  ServeUntilApplied(2);
  Crash();
  WorkerProcess& fresh = StartProcess("w1");
  while (Serve(fresh)) {
  }
  Open(process(0));
  while (Serve(process(0))) {
  }
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("job-1")->cause().worker(), "w1");
  // The old one cannot come back under its name.
  Open(process(1));
  EXPECT_EQ(process(1).link->closed->code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(TakeoverTest, APlacementThatTheJournalDoesNotKnowIsDropped) {
  Start(1, 6);
  ServeUntilApplied(2);
  crashing_ = CrashingJournal();  // another data directory
  Crash();
  Open(process(0));
  ASSERT_TRUE(process(0).link->closed.has_value());
  EXPECT_EQ(process(0).link->closed->code(), absl::StatusCode::kAborted);
  Serve(process(0));
  Submit(TinySpec(1));
  ServeAll();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(TakeoverTest, AChangedScheduleEndsTheJobAndSaysSo) {
  Start(2, 6);
  ServeUntilApplied(2);
  options_.planner = [](const job::JobSpec& spec,
                        const job::ModelProfile* profile) {
    job::JobSpec other = spec;
    other.training.microbatches += 1;
    return job::PlanJob(other, profile);
  };
  Crash();
  ServeAll();
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_TRUE(absl::StrContains(job->reason(), "schedule")) << job->reason();
}

// The costs that a worker measured are in the journal, and the plan is the same
// again.
TEST_F(TakeoverTest, AMeasuredPlanIsMadeAgain) {
  for (int turns = 0; turns < 12; ++turns) {
    SCOPED_TRACE(absl::StrCat("after ", turns, " turns"));
    processes_.clear();
    crashing_ = CrashingJournal();
    Crash();
    v1::JobSpec spec = TinySpec(2, 3, 2);
    spec.mutable_pipeline()->clear_split();
    for (int i = 0; i < 2; ++i) StartProcess(absl::StrCat("w", i));
    Submit(spec);
    for (int i = 0; i < turns; ++i) {
      for (const auto& process : processes_) Serve(*process);
    }
    Crash();
    ServeAll();
    ExpectWholeHistory("job-1", 3);
    // The head costs as much as four layers.
    EXPECT_GT(Get("job-1")->stages(0).layer_end(), 4);
    if (HasFailure()) return;
  }
}

TEST_F(TakeoverTest, AnotherScheduleIsTakenThoughTheCoordinatorDies) {
  for (int turns = 0; turns < 14; ++turns) {
    SCOPED_TRACE(absl::StrCat("after ", turns, " turns"));
    processes_.clear();
    crashing_ = CrashingJournal();
    Crash();
    Start(2, 8);
    ServeUntilApplied(2);
    const absl::Status status = Reschedule("job-1", "gpipe");
    ASSERT_TRUE(status.ok()) << status;
    for (int i = 0; i < turns; ++i) Serve(process(i % 3 == 0 ? 0u : 1u));
    Crash();
    ServeAll();
    ExpectWholeHistory("job-1", 8);
    EXPECT_EQ(Get("job-1")->schedule(), "gpipe");
    for (const auto& process : processes_) {
      EXPECT_EQ(process->answers.schedule_id(),
                processes_[0]->answers.schedule_id());
      EXPECT_NE(process->answers.schedule_id(), process->assign.schedule_id());
    }
    if (HasFailure()) return;
  }
}

// ---- sessions that break while the coordinator lives ------------------------

TEST_F(TakeoverTest, ABrokenSessionChangesNothing) {
  Start(2, 6);
  ServeUntilApplied(2);
  for (int i = 0; i < 5; ++i) {
    Break(process(1));
    EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
    EXPECT_TRUE(controller_->state().FindWorker("w1")->suspect);
    Open(process(1));
    for (int k = 0; k < 3; ++k) Serve(process(1));
    Serve(process(0));
    EXPECT_FALSE(controller_->state().FindWorker("w1")->suspect);
  }
  ServeAll();
  ExpectWholeHistory("job-1", 6);
}

TEST_F(TakeoverTest, AHalfOpenSessionIsReplaced) {
  Start(1, 6);
  ServeUntilApplied(2);
  const auto old = process(0).link;
  Open(process(0));  // the coordinator has not noticed the end of the first
  EXPECT_EQ(old->closed->code(), absl::StatusCode::kUnavailable);
  Disconnect(*old);
  ServeAll();
  ExpectWholeHistory("job-1", 6);
}

TEST_F(TakeoverTest, AWorkerThatStaysAwayIsLost) {
  Start(2, 6);
  ServeUntilApplied(2);
  Break(process(1));
  for (int i = 0; i < 59; ++i) {
    BeatAll();
    Pass(absl::Milliseconds(100));
  }
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  BeatAll();
  Pass(absl::Milliseconds(100));
  while (Serve(process(0))) {
  }
  EXPECT_EQ(Get("job-1")->cause().worker(), "w1");
  EXPECT_TRUE(controller_->state().FindWorker("w1")->dead);
  // What it holds is of no use any more.
  Open(process(1));
  EXPECT_EQ(process(1).link->closed->code(), absl::StatusCode::kAborted);
}

TEST_F(TakeoverTest, PeersThatLostItTooSettleIt) {
  Start(2, 6);
  ServeUntilApplied(2);
  Break(process(1));
  v1::WorkerMessage message;
  message.mutable_failed()->set_kind(v1::FAILURE_KIND_WORKER_LOST);
  message.mutable_failed()->set_message("edge 0->1 ended");
  message.mutable_failed()->set_blamed_worker("w1");
  message.mutable_fence()->set_term(options_.term.value());
  message.mutable_fence()->set_epoch(1);
  message.mutable_fence()->set_incarnation(process(0).incarnation);
  SayUnfenced(*process(0).link, message);
  while (Serve(process(0))) {
  }
  EXPECT_EQ(Get("job-1")->cause().worker(), "w1");
  EXPECT_TRUE(absl::StrContains(Get("job-1")->reason(), "its session ended"));
}

TEST_F(TakeoverTest, AWorkerThatSaysGoodbyeIsLostAtOnce) {
  StartProcess("w0");
  v1::WorkerMessage message;
  message.mutable_leaving()->set_reason("SIGTERM");
  message.mutable_fence()->set_term(options_.term.value());
  message.mutable_fence()->set_incarnation(process(0).incarnation);
  SayUnfenced(*process(0).link, message);
  EXPECT_TRUE(controller_->state().FindWorker("w0")->dead);
  EXPECT_TRUE(process(0).link->closed.has_value());
}

// ---- a disk that refuses ----------------------------------------------------

TEST_F(TakeoverTest, ARefusedRequestChangesNothing) {
  auto request = Versioned<v1::SubmitJobRequest>();
  *request.mutable_spec() = TinySpec(1);
  crashing_.FailAt(1);
  EXPECT_EQ(TrySubmit(request).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(controller_->state().job_order().empty());
  EXPECT_EQ(Submit(TinySpec(1)), "job-1");
  crashing_.FailAt(1);
  EXPECT_EQ(TryCancel("job-1").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Cancel("job-1").state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(TakeoverTest, AJobWaitsUntilItsPlanningCanBeRecorded) {
  crashing_.FailAt(2);  // Submitted is written, Planning is not
  EXPECT_EQ(Submit(TinySpec(1)), "job-1");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_QUEUED);
  Pass(absl::Milliseconds(100));
  StartProcess("w0");
  ServeAll();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(TakeoverTest, AWorkerThatCannotBeRecordedTriesAgain) {
  crashing_.FailAt(1);
  StartProcess("w0");
  EXPECT_EQ(process(0).link->closed->code(), absl::StatusCode::kUnavailable);
  Open(process(0));
  EXPECT_FALSE(process(0).link->closed.has_value());
}

// Whatever write fails: the job comes to its end, in this life or the next.
TEST_F(TakeoverTest, AnyWriteMayFail) {
  int stops = 0;
  for (int n = 1; n <= 25; ++n) {
    SCOPED_TRACE(absl::StrCat("write ", n));
    processes_.clear();
    crashing_ = CrashingJournal();
    absl::Status failure;
    options_.on_failure = [&](const absl::Status& status) { failure = status; };
    Crash();
    crashing_.FailAt(n);
    auto request = Versioned<v1::SubmitJobRequest>();
    request.set_request_id("the one");
    *request.mutable_spec() = TinySpec(2, 3, 2);
    for (int i = 0; i < 2; ++i) StartProcess(absl::StrCat("w", i));
    for (int round = 0; round < 100; ++round) {
      (void)TrySubmit(request);
      for (const auto& process : processes_) {
        if (process->link == nullptr) Open(*process);
        for (int i = 0; i < 4; ++i) Serve(*process);
      }
      BeatAll();
      Pass(absl::Milliseconds(100));
      if (failure.ok()) continue;
      ++stops;
      failure = absl::OkStatus();
      Crash();  // its process ends, and is started again
    }
    ServeAll();
    ExpectWholeHistory("job-1", 3);
    if (HasFailure()) return;
  }
  EXPECT_GT(stops, 3);
}

// ---- all of it, at random ---------------------------------------------------

class RandomTakeoverTest : public TakeoverTest {
 protected:
  int Draw(int bound) {
    return static_cast<int>(random_() % static_cast<uint32_t>(bound));
  }
  void DoSomething() {
    WorkerProcess& any =
        process(static_cast<size_t>(Draw(static_cast<int>(processes_.size()))));
    switch (Draw(20)) {
      case 0:
        ++crashes_;
        return Crash();
      case 1:
        return Break(any);
      case 2:
        any.mute = true;  // what it says from now on is lost
        return;
      case 3:
        BeatAll();
        return Pass(absl::Milliseconds(100));
      case 4:
        if (Draw(3) == 0) {
          Reschedule("job-1", Draw(2) == 0 ? "gpipe" : "1f1b").IgnoreError();
        }
        return;
      default:
        if (any.link == nullptr) Open(any);
        if (any.mute && Draw(4) == 0) Break(any);
        Serve(any);
    }
  }

  std::mt19937 random_;
  int crashes_ = 0;
};

TEST_F(RandomTakeoverTest, EveryStepOnceWhateverBreaks) {
  const uint32_t first_seed = std::random_device()();
  for (uint32_t seed = first_seed; seed != first_seed + 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    random_.seed(seed);
    processes_.clear();
    crashing_ = CrashingJournal();
    Crash();
    const int workers = 1 + Draw(3);
    Start(workers, 8);
    const bool cancelled = Draw(5) == 0;
    const int cancel_at = Draw(200);
    for (int i = 0; i < 400; ++i) {
      DoSomething();
      if (cancelled && i == cancel_at) (void)TryCancel("job-1");
    }
    for (const auto& process : processes_) Break(*process);
    ServeAll();
    if (StateOf("job-1") == v1::JOB_STATE_CANCELLED) {
      EXPECT_TRUE(cancelled);
    } else {
      ExpectWholeHistory("job-1", 8);
    }
    for (const auto& [name, worker] : controller_->state().workers()) {
      EXPECT_TRUE(worker.idle()) << name;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(crashes_, 100);
}

}  // namespace
}  // namespace stagecoach::coordinator

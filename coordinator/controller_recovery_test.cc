// Jobs that survive the loss of a worker.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/controller_fixture.h"
#include "coordinator/resuming_fixture.h"
#include "coordinator/scripted_worker.h"
#include "gtest/gtest.h"
#include "job/spec_proto.h"
#include "stage_worker/checkpoint/folders.h"

namespace stagecoach::coordinator {
namespace {

v1::JobSpec SurvivingSpec(int64_t workers, int64_t steps,
                          int64_t max_failures = 3) {
  v1::JobSpec spec = TinySpec(workers, steps);
  spec.mutable_recovery()->set_max_failures(max_failures);
  return spec;
}

class ControllerRecoveryTest : public ControllerTest {
 protected:
  // Two workers in the middle of a step of job-1.
  void Run(const v1::JobSpec& spec, const std::string& until = "begin:2") {
    JoinMany(2);
    Submit(spec);
    Serve(until);
    ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  }
  // What was under way is not answered any more, only what follows.
  void Skip() {
    for (const auto& worker : workers_) {
      while (worker->answered < worker->received.size() &&
             !worker->received[worker->answered].has_abort()) {
        ++worker->answered;
      }
    }
  }
  // The worker's process dies and another one takes its name.
  void Replace(size_t index) {
    const std::string name = worker(index).name;
    Disconnect(worker(index));
    Skip();
    Serve("assign");
    Join(name);
  }
  void ExpectSucceeded(int steps, int recoveries) {
    const auto job = Get("job-1");
    ASSERT_EQ(job->state(), v1::JOB_STATE_SUCCEEDED) << job->DebugString();
    ASSERT_EQ(job->steps_size(), steps);
    for (int i = 0; i < steps; ++i) EXPECT_EQ(job->steps(i).step(), i);
    EXPECT_EQ(job->recoveries_size(), recoveries);
    EXPECT_FALSE(job->has_cause());
  }
  std::vector<std::string> Kinds() {
    std::vector<std::string> kinds;
    for (const auto& entry : controller_->state().FindJob("job-1")->history) {
      kinds.emplace_back(entry.kind);
    }
    return kinds;
  }
};

TEST_F(ControllerRecoveryTest, ARestartedWorkerTakesThePlaceOfTheLostOne) {
  Run(SurvivingSpec(2, 4));
  Beat(worker(1), "1F1", 1, 1, 2);
  Disconnect(worker(1));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  EXPECT_TRUE(absl::StrContains(Get("job-1")->reason(),
                                "stage 1 (worker w1), step 2, 1F1"));
  EXPECT_TRUE(
      absl::StrContains(Get("job-1")->reason(), "(failure 1 of at most 3)"));
  EXPECT_TRUE(worker(0).received.back().has_abort());
  Skip();
  Serve();
  // The survivor is free, and the job waits for a second one.
  EXPECT_TRUE(controller_->state().FindWorker("w0")->idle());
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(Get("job-1")->reason(), "waiting for 2 idle workers, 1 registered");
  EXPECT_EQ(Get("job-1")->steps_size(), 0);
  clock_.Advance(absl::Seconds(3));
  Join("w1");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_PLACING);
  EXPECT_EQ(Get("job-1")->epoch(), 2);
  Serve();
  ExpectSucceeded(4, 1);
  const v1::JobRecovery recovery = Get("job-1")->recoveries(0);
  EXPECT_EQ(recovery.cause().worker(), "w1");
  EXPECT_EQ(recovery.cause().action(), "1F1");
  EXPECT_EQ(recovery.victims(0), "w0");
  EXPECT_EQ(recovery.steps_before(), 2);
  EXPECT_EQ(recovery.step(), 0);
  EXPECT_EQ(recovery.steps_redone(), 2);
  EXPECT_EQ(recovery.seconds_lost(), 3);
  // From the first placement on.
  EXPECT_EQ(Get("job-1")->total_seconds(), 3);
}

TEST_F(ControllerRecoveryTest, EveryChangeIsAnEvent) {
  Run(SurvivingSpec(2, 3));
  Replace(0);
  Serve();
  ExpectSucceeded(3, 1);
  EXPECT_EQ(Kinds(),
            (std::vector<std::string>{
                "submitted", "planning", "planned", "placed", "running", "step",
                "step", "recovering", "worker_released", "rewound", "waiting",
                "placed", "running", "step", "step", "step", "worker_released",
                "worker_released", "succeeded"}));
}

TEST_F(ControllerRecoveryTest, ASpareIsTakenAtOnce) {
  JoinMany(3);
  Submit(SurvivingSpec(2, 3));
  Serve("begin:1");
  Disconnect(worker(0));
  Skip();
  Serve();
  ExpectSucceeded(3, 1);
  EXPECT_EQ(Get("job-1")->workers(0).worker(), "w1");
  EXPECT_EQ(Get("job-1")->workers(1).worker(), "w2");
}

TEST_F(ControllerRecoveryTest, AQueuedJobDoesNotGetWhatARecoveringOneNeeds) {
  Run(SurvivingSpec(2, 3));
  Submit(SurvivingSpec(1, 3));
  Disconnect(worker(1));
  Skip();
  Serve();
  EXPECT_EQ(StateOf("job-2"), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get("job-2")->reason(), "waiting behind job-1");
  Join("w1");
  Serve();
  ExpectSucceeded(3, 1);
  EXPECT_EQ(StateOf("job-2"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerRecoveryTest, NobodyComes) {
  options_.recovery_wait = absl::Seconds(20);
  controller_ = std::make_unique<Controller>(options_, &clock_, &executor_,
                                             &planning_, &journal_);
  Run(SurvivingSpec(2, 4));
  Disconnect(worker(1));
  Skip();
  Serve();
  Pass(absl::Seconds(19.5), AllBut({1}));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  Pass(absl::Seconds(1), AllBut({1}));
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job->cause().worker(), "w1");
  EXPECT_EQ(job->cause().kind(), v1::FAILURE_KIND_WORKER_LOST);
  EXPECT_EQ(job->victims(0), "w0");
  EXPECT_TRUE(absl::EndsWith(job->reason(),
                             "no worker took the place of the lost one within "
                             "20s; start one, or keep a spare"))
      << job->reason();
}

TEST_F(ControllerRecoveryTest, FailuresAreCounted) {
  Run(SurvivingSpec(2, 9, 2), "begin:1");
  for (int64_t step = 2; step < 4; ++step) {
    Replace(workers_.size() - 1);
    Serve(absl::StrCat("begin:", step));
    ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING) << step;
  }
  Disconnect(*workers_.back());
  Skip();
  Serve();
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job->cause().worker(), "w1");
  EXPECT_EQ(job->recoveries_size(), 2);
  EXPECT_TRUE(absl::StrContains(job->reason(),
                                "; recovery.max_failures = 2 is used up"))
      << job->reason();
}

TEST_F(ControllerRecoveryTest, TheSameStepAgainAndAgainIsNoProgress) {
  v1::JobSpec spec = SurvivingSpec(2, 9, 50);
  spec.mutable_recovery()->set_no_progress(3);
  Run(spec, "begin:2");
  // Further back is no progress either.
  Replace(workers_.size() - 1);
  Serve("begin:1");
  Replace(workers_.size() - 1);
  Serve("begin:2");
  Disconnect(*workers_.back());
  Skip();
  Serve();
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_TRUE(absl::StrContains(
      job->reason(),
      "no progress: it failed 3 times in a row before step 2 was committed "
      "(recovery.no_progress = 3)"))
      << job->reason();
}

TEST_F(ControllerRecoveryTest, TheUsersOwnFaultsAreNotSurvived) {
  for (const v1::FailureKind kind :
       {v1::FAILURE_KIND_OUT_OF_MEMORY, v1::FAILURE_KIND_INVALID,
        v1::FAILURE_KIND_INTERNAL}) {
    SCOPED_TRACE(v1::FailureKind_Name(kind));
    workers_.clear();
    journal_ = MemoryJournal();
    controller_ = std::make_unique<Controller>(options_, &clock_, &executor_,
                                               &planning_, &journal_);
    Run(SurvivingSpec(2, 4));
    Fail(worker(0), kind, "it is like that");
    Pass(absl::Milliseconds(500), AllBut({}));
    Skip();
    Serve();
    const auto job = Get("job-1");
    EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
    EXPECT_EQ(job->cause().kind(), kind);
    EXPECT_EQ(job->recoveries_size(), 0);
  }
}

TEST_F(ControllerRecoveryTest, ALostEdgeTakesTheSameWorkersAgain) {
  Run(SurvivingSpec(2, 4));
  Fail(worker(0), v1::FAILURE_KIND_WORKER_LOST, "edge 0->1 ended", "w1");
  Pass(absl::Seconds(1.1), AllBut({}));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  Skip();
  Serve();
  ExpectSucceeded(4, 1);
  EXPECT_TRUE(absl::StrContains(Get("job-1")->recoveries(0).cause().message(),
                                "edge lost, reported by w0"));
}

TEST_F(ControllerRecoveryTest, ASurvivorThatDoesNotLetGoIsLostToo) {
  Run(SurvivingSpec(2, 4));
  Disconnect(worker(1));
  Pass(absl::Seconds(5.2), AllBut({1}));
  EXPECT_TRUE(controller_->state().FindWorker("w0")->dead);
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  Join("w2");
  Join("w3");
  Serve();
  ExpectSucceeded(4, 1);
}

TEST_F(ControllerRecoveryTest, AStoppedWorkerComesBackAsASpare) {
  Run(SurvivingSpec(2, 4));
  FakeWorker& stopped = worker(1);
  const int64_t old_epoch = stopped.epoch;
  Pass(absl::Seconds(6.2), AllBut({1}));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  Skip();
  Serve();
  ASSERT_TRUE(stopped.closed.has_value());
  // What it said in its old session counts for nothing.
  const int64_t before = controller_->refused().unregistered;
  v1::WorkerMessage late;
  late.mutable_prepared()->set_step(2);
  Say(stopped, late);
  EXPECT_EQ(controller_->refused().unregistered, before + 1);
  // With its old epoch it is told to let go of it.
  auto again = Connect();
  again->name = "w1";
  again->incarnation = stopped.incarnation;
  v1::WorkerMessage registration;
  registration.mutable_fence()->set_incarnation(stopped.incarnation);
  v1::Register* held = registration.mutable_register_();
  held->set_worker("w1");
  *held->mutable_version() = Versioned<v1::GetJobRequest>().version();
  held->set_torch_version("2.11");
  held->set_holds_job_id("job-1");
  held->set_holds_epoch(old_epoch);
  SayUnfenced(*again, registration);
  ASSERT_TRUE(again->closed.has_value());
  EXPECT_EQ(again->closed->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  // Then it is as good as any other.
  auto free = Connect();
  free->name = "w1";
  free->incarnation = stopped.incarnation;
  held->clear_holds_job_id();
  held->clear_holds_epoch();
  SayUnfenced(*free, registration);
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_PLACING);
  Serve("begin:1");
  // And a message of the old placement is refused and counted.
  const int64_t stale = controller_->refused().stale_epoch;
  free->epoch = old_epoch;
  Say(*free, late);
  EXPECT_EQ(controller_->refused().stale_epoch, stale + 1);
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  free->epoch = old_epoch + 1;
  Serve();
  ExpectSucceeded(4, 1);
}

TEST_F(ControllerRecoveryTest, CancelledWhileTheOthersLetGo) {
  Run(SurvivingSpec(2, 4));
  Disconnect(worker(1));
  EXPECT_EQ(Cancel("job-1").state(), v1::JOB_STATE_CANCELLING);
  Skip();
  Serve();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_CANCELLED);
  EXPECT_TRUE(controller_->state().FindWorker("w0")->idle());
}

TEST_F(ControllerRecoveryTest, CancelledWhileItWaits) {
  Run(SurvivingSpec(2, 4));
  Disconnect(worker(1));
  Skip();
  Serve();
  EXPECT_EQ(Cancel("job-1").state(), v1::JOB_STATE_CANCELLED);
  Join("w1");
  EXPECT_TRUE(controller_->state().FindWorker("w0")->idle());
  EXPECT_TRUE(controller_->state().FindWorker("w1")->idle());
}

TEST_F(ControllerRecoveryTest, AScheduleThatWaitsIsNotForgotten) {
  v1::JobSpec spec = SurvivingSpec(2, 6);
  Run(spec, "commit:1");
  ASSERT_EQ(Reschedule("job-1", "gpipe"), absl::OkStatus());
  Replace(1);
  Serve();
  ExpectSucceeded(6, 1);
  EXPECT_EQ(Get("job-1")->schedule(), "gpipe");
}

TEST_F(ControllerRecoveryTest, WatchersSeeTheStepsThatAreDoneAgain) {
  Run(SurvivingSpec(2, 3));
  auto watcher = Watch("job-1");
  Replace(1);
  Serve();
  ExpectSucceeded(3, 1);
  std::vector<int64_t> steps;
  bool recovering = false;
  for (const v1::Job& event : watcher->events) {
    recovering |= event.state() == v1::JOB_STATE_RECOVERING;
    for (const auto& step : event.steps()) steps.push_back(step.step());
  }
  EXPECT_TRUE(recovering);
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 1, 0, 1, 2}));
}

class RecoveryInPhaseTest : public ControllerRecoveryTest,
                            public ::testing::WithParamInterface<const char*> {
};

TEST_P(RecoveryInPhaseTest, TheJobGoesOn) {
  JoinMany(2);
  Submit(SurvivingSpec(2, 2));
  Serve(GetParam());
  Replace(1);
  Serve();
  ExpectSucceeded(2, 1);
}

INSTANTIATE_TEST_SUITE_P(Phases, RecoveryInPhaseTest,
                         ::testing::Values("assign", "connect", "begin:0",
                                           "begin:1", "commit:1", "finish"),
                         [](const auto& phase) {
                           std::string name(phase.param);
                           for (char& c : name) c = c == ':' ? '_' : c;
                           return name;
                         });

// ---- with checkpoints -------------------------------------------------------

class RecoveryWithCheckpointsTest : public ControllerRecoveryTest {
 protected:
  RecoveryWithCheckpointsTest() {
    directory_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
    spec_ = SurvivingSpec(2, 9);
    spec_.mutable_checkpoint()->set_directory(directory_);
    spec_.mutable_checkpoint()->set_every_steps(100);
  }
  // As a worker would complete it, without tensors.
  std::string Store(int64_t step) {
    const job::JobSpec spec = job::FromProto(spec_).value();
    const std::string partial = checkpoint::PartialFolderName(step, "job-1", 1);
    std::filesystem::create_directories(absl::StrCat(directory_, "/", partial));
    const auto path = checkpoint::SealCheckpoint(
        directory_, partial, spec, checkpoint::NewManifest("job-1", spec, step),
        0);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.ok() ? *path : "";
  }

  std::string directory_;
  v1::JobSpec spec_;
};

TEST_F(RecoveryWithCheckpointsTest, GoesOnFromTheNewestThatItHasReached) {
  Run(spec_, "begin:4");
  Store(2);
  const std::string newest = Store(3);
  Store(7);  // of a life whose outcomes were lost
  Replace(1);
  EXPECT_EQ(Get("job-1")->recoveries(0).step(), 3);
  EXPECT_EQ(Get("job-1")->steps_size(), 3);
  EXPECT_EQ(Get("job-1")->checkpoint().path(), newest);
  EXPECT_EQ(workers_.back()->assign.checkpoint(), newest);
  Serve("write");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Get("job-1")->steps_size(), 9);
  EXPECT_TRUE(absl::StrContains(Received(worker(0)), "begin:3"));
  EXPECT_EQ(Get("job-1")->recoveries(0).steps_redone(), 1);
}

TEST_F(RecoveryWithCheckpointsTest, ADamagedOneIsPassedOver) {
  Run(spec_, "begin:4");
  Store(2);
  std::filesystem::resize_file(Store(4) + "/MANIFEST.json", 20);
  Replace(1);
  EXPECT_EQ(Get("job-1")->recoveries(0).step(), 2);
}

TEST_F(RecoveryWithCheckpointsTest, WithoutASoundOneItBeginsWithStep0) {
  Run(spec_, "begin:4");
  std::filesystem::resize_file(Store(4) + "/MANIFEST.json", 20);
  Replace(1);
  EXPECT_EQ(Get("job-1")->recoveries(0).step(), 0);
  EXPECT_EQ(workers_.back()->assign.checkpoint(), "");
}

TEST_F(RecoveryWithCheckpointsTest, NeverGoesBackBeforeItsOwnBeginning) {
  Store(2);
  const std::string own = Store(4);
  auto request = Versioned<v1::SubmitJobRequest>();
  *request.mutable_spec() = spec_;
  request.set_resume(true);
  JoinMany(2);
  ASSERT_TRUE(TrySubmit(request).ok());
  Serve("begin:6");
  ASSERT_EQ(Get("job-1")->first_step(), 4);
  std::filesystem::remove_all(own);
  Disconnect(worker(1));
  Skip();
  Serve();
  const auto job = Get("job-1");
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_TRUE(absl::StrContains(job->reason(), "has none from step 4 on"))
      << job->reason();
  EXPECT_EQ(job->steps_size(), 2);
}

// ---- coordinators that die meanwhile ----------------------------------------

class RecoveryTakeoverTest : public ResumingTest {
 protected:
  RecoveryTakeoverTest() { options_.recovery_wait = absl::Minutes(10); }
  // The second worker's process dies, another one takes its name.
  void Replace() {
    Break(process(1));
    processes_.pop_back();
    StartProcess("w1");
  }
};

// At every moment of a recovery.
TEST_F(RecoveryTakeoverTest, CrashesAfterEveryFewMessages) {
  for (int gap = 1; gap <= 9; ++gap) {
    SCOPED_TRACE(absl::StrCat("every ", gap, " turns"));
    processes_.clear();
    crashing_ = CrashingJournal();
    Crash();
    for (const char* name : {"w0", "w1"}) StartProcess(name);
    Submit(SurvivingSpec(2, 5));
    while (process(1).applied.size() < 3) {
      Serve(process(0));
      Serve(process(1));
    }
    Replace();
    ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
    int served = 0;
    for (int round = 0; round < 400; ++round) {
      for (const auto& process : processes_) {
        if (process->link == nullptr) Open(*process);
        Serve(*process);
        Serve(*process);
        Serve(*process);
        if (++served % (gap + 2) == 0) Crash();
      }
      if (StateOf("job-1") == v1::JOB_STATE_SUCCEEDED) break;
    }
    const auto job = Get("job-1");
    ASSERT_EQ(job->state(), v1::JOB_STATE_SUCCEEDED) << job->DebugString();
    EXPECT_EQ(job->recoveries_size(), 1);
    ASSERT_EQ(job->steps_size(), 5);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(job->steps(i).step(), i);
    for (const auto& process : processes_) {
      ASSERT_EQ(process->applied.size(), 5u);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(process->applied[i].step(), static_cast<int64_t>(i));
      }
    }
  }
}

TEST_F(RecoveryTakeoverTest, CoordinatorAndWorkerMayDieTogether) {
  for (const char* name : {"w0", "w1"}) StartProcess(name);
  Submit(SurvivingSpec(2, 5));
  while (process(1).applied.size() < 3) {
    Serve(process(0));
    Serve(process(1));
  }
  processes_.pop_back();
  Crash();
  ServeAll();
  for (int i = 0; i < 170; ++i) {
    BeatAll();
    Pass(absl::Milliseconds(100));
  }
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  StartProcess("w1");
  ServeAll();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get("job-1")->recoveries_size(), 1);
}

// ---- copies in the neighbours' memory ----

v1::WorkerMessage ReleasedWith(
    const std::string& job_id,
    const std::vector<std::pair<int32_t, int64_t>>& stages_and_steps) {
  v1::WorkerMessage message;
  v1::KeptStates* kept = message.mutable_released()->mutable_kept_states();
  kept->set_job_id(job_id);
  for (const auto& [stage, step] : stages_and_steps) {
    kept->add_states()->set_stage(stage);
    kept->mutable_states(kept->states_size() - 1)->set_step(step);
  }
  return message;
}

class CopiesTest : public ControllerRecoveryTest {
 protected:
  // Three workers, in step 2; each has copied what it began with.
  void RunWithCopies() {
    v1::JobSpec spec = SurvivingSpec(3, 5);
    spec.mutable_recovery()->set_neighbour_copy(true);
    JoinMany(3);
    Submit(spec);
    ServeCopying("begin:2");
    ASSERT_EQ(Get("job-1")->steps_size(), 2);
  }
  // As Serve; workers say that what each step begins with is copied.
  void ServeCopying(const std::string& until = "") {
    for (int64_t step = 0; step < 5; ++step) {
      Serve(until);
      if (controller_->state().FindJob("job-1")->state != JobState::kRunning) {
        return;
      }
      const int64_t next =
          controller_->state().FindJob("job-1")->steps_committed();
      if (until == absl::StrCat("begin:", next)) return;
      for (const auto& worker : workers_) {
        if (worker->closed.has_value()) continue;
        v1::WorkerMessage message;
        message.mutable_state_copied()->set_step(next);
        Say(*worker, message);
      }
    }
    Serve(until);
  }
  // The next thing that w0 and w2 hear of is the end of their placement.
  void LoseTheSecond() {
    Disconnect(worker(1));
    Skip();
    ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
    for (const size_t index : {0u, 2u}) {
      ASSERT_TRUE(worker(index).received.back().abort().keep_states());
    }
  }
  void LetGo(size_t index,
             const std::vector<std::pair<int32_t, int64_t>>& kept) {
    ++worker(index).answered;
    Say(worker(index), ReleasedWith("job-1", kept));
  }
};

TEST_F(CopiesTest, AJobGoesOnWithTheNewestCopiesOfAllStages) {
  RunWithCopies();
  LoseTheSecond();
  LetGo(0, {{0, 1}, {0, 2}, {2, 1}});
  LetGo(2, {{2, 1}, {2, 2}, {1, 1}});
  RunAll();
  EXPECT_EQ(Get("job-1")->steps_size(), 1);
  EXPECT_EQ(Get("job-1")->recoveries(0).step(), 1);
  EXPECT_EQ(Get("job-1")->recoveries(0).steps_redone(), 1);
  Join("w1");
  Serve("connect");
  const v1::RestoreStates& restore = worker(3).assign.restore();
  EXPECT_EQ(restore.step(), 1);
  ASSERT_EQ(restore.sources_size(), 3);
  EXPECT_EQ(restore.sources(0).keeper().worker(), "w0");
  EXPECT_EQ(restore.sources(1).keeper().worker(), "w2");
  EXPECT_EQ(restore.sources(1).keeper().peer_address(), "peer of w2");
  EXPECT_EQ(restore.sources(1).keeper().incarnation(), worker(2).incarnation);
  ServeCopying();
  ExpectSucceeded(5, 1);
}

TEST_F(CopiesTest, AKeeperThatIsLostTooCostsMore) {
  RunWithCopies();
  LoseTheSecond();
  LetGo(0, {{0, 2}, {2, 2}});
  LetGo(2, {{2, 2}, {1, 2}});
  RunAll();
  EXPECT_EQ(Get("job-1")->steps_size(), 2);
  Disconnect(worker(2));
  RunAll();
  // Back to step 0: there is no checkpoint.
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(Get("job-1")->steps_size(), 0);
  EXPECT_EQ(Get("job-1")->recoveries(0).step(), 0);
  Join("w1");
  Join("w2");
  Serve("connect");
  EXPECT_FALSE(worker(4).assign.has_restore());
  ServeCopying();
  ExpectSucceeded(5, 1);
}

TEST_F(CopiesTest, WhatIsNotNeededAnyMoreIsDropped) {
  RunWithCopies();
  LoseTheSecond();
  LetGo(0, {{0, 2}, {2, 2}});
  LetGo(2, {{2, 2}, {1, 2}});
  RunAll();
  Cancel("job-1");
  for (const size_t index : {0u, 2u}) {
    EXPECT_EQ(worker(index).received.back().drop_states().job_id(), "job-1");
  }
  // Nor are those of a job that is not known.
  auto stranger = Connect();
  v1::WorkerMessage message = ScriptedRegistration("w9", 900, "2.11");
  *message.mutable_register_()->mutable_kept_states() =
      ReleasedWith("job-7", {{0, 1}}).released().kept_states();
  SayUnfenced(*stranger, message);
  RunAll();
  EXPECT_EQ(stranger->received.back().drop_states().job_id(), "job-7");
}

// ---- workers that are told to end ----

v1::WorkerMessage Draining() {
  v1::WorkerMessage message;
  message.mutable_draining()->set_reason("it was told to stop");
  return message;
}

TEST_F(CopiesTest, AWorkerThatDrainsCostsNoStepAndNoFailure) {
  JoinMany(3);
  Submit(SurvivingSpec(2, 4, /*max_failures=*/0));
  Serve("begin:1");
  Say(worker(1), Draining());
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING) << "the step goes on";
  Serve("abort");
  ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(Get("job-1")->steps_size(), 2);
  Skip();
  LetGo(0, {{0, 2}, {1, 2}});
  LetGo(1, {{1, 2}, {0, 2}});
  RunAll();
  // At once: there is a spare.
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_PLACING);
  const v1::RestoreStates& restore = worker(2).assign.restore();
  EXPECT_EQ(restore.step(), 2);
  ASSERT_EQ(restore.sources_size(), 2);
  EXPECT_EQ(restore.sources(1).keeper().worker(), "w0") << "w1 is about to go";
  v1::WorkerMessage leaving;
  leaving.mutable_leaving()->set_reason("drained");
  Say(worker(1), leaving);
  Serve();
  ExpectSucceeded(4, 1);
  EXPECT_EQ(Get("job-1")->recoveries(0).steps_redone(), 0);
  EXPECT_EQ(Get("job-1")->recoveries(0).cause().worker(), "w1");
}

TEST_F(CopiesTest, ADrainingWorkerGetsNoJob) {
  JoinMany(2);
  Say(worker(1), Draining());
  Submit(SurvivingSpec(2, 3));
  Serve();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_QUEUED);
  Join("w2");
  Serve();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Received(worker(1)), "welcome");
}

}  // namespace
}  // namespace stagecoach::coordinator

#include "coordinator/cluster_state.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/journal.h"
#include "coordinator/random_events.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

class ClusterStateTest : public ::testing::Test {
 protected:
  absl::Status Apply(EventBody body) {
    Event event;
    event.at = now_;
    event.body = std::move(body);
    now_ += absl::Seconds(1);
    const std::string before = state_.DebugString();
    const absl::Status status = state_.Apply(event);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(state_.DebugString(), before)
          << "refused, but changed: " << status;
    }
    return status;
  }
  void MustApply(EventBody body) {
    const absl::Status status = Apply(std::move(body));
    EXPECT_TRUE(status.ok()) << status;
  }
  void MustRefuse(EventBody body) { EXPECT_FALSE(Apply(std::move(body)).ok()); }

  static WorkerRegistered Registered(const std::string& name,
                                     uint64_t incarnation = 1) {
    WorkerRegistered event;
    event.worker = name;
    event.incarnation = Incarnation(incarnation);
    return event;
  }
  static JobPlanned Planned(const std::string& job) {
    JobPlanned event;
    event.job_id = job;
    event.schedule = "1f1b";
    event.stages.resize(2);
    event.stages[1].worker = 1;
    return event;
  }
  static JobPlaced Placed(const std::string& job, int64_t epoch,
                          const std::vector<std::string>& workers) {
    JobPlaced event;
    event.job_id = job;
    event.epoch = Epoch(epoch);
    event.workers = workers;
    return event;
  }
  static JobRunning Running(const std::string& job, size_t workers = 2) {
    JobRunning event;
    event.job_id = job;
    event.transport = "shm";
    event.receive_pool_bytes.assign(workers, 7);
    return event;
  }
  static StepCommitted Step(const std::string& job, int64_t step) {
    StepCommitted event;
    event.job_id = job;
    event.result.step = step;
    event.busy_nanoseconds = {1, 2};
    return event;
  }
  void ToRunning() {
    MustApply(Registered("w0"));
    MustApply(Registered("w1"));
    MustApply(JobSubmitted{"job-1", "r1", TinySpec(2)});
    MustApply(JobPlanning{"job-1"});
    MustApply(Planned("job-1"));
    MustApply(Placed("job-1", 1, {"w0", "w1"}));
    MustApply(Running("job-1"));
  }

  absl::Time now_ = absl::UnixEpoch();
  ClusterState state_;
};

TEST_F(ClusterStateTest, AJobGoesFromSubmissionToSuccess) {
  ToRunning();
  const JobRecord* job = state_.FindJob("job-1");
  EXPECT_EQ(job->state, JobState::kRunning);
  EXPECT_EQ(state_.FindWorker("w0")->job_id, "job-1");
  MustApply(Step("job-1", 0));
  MustApply(Step("job-1", 1));
  EXPECT_EQ(job->workers[1].busy_nanoseconds, 4);
  v1::WorkerMemory memory;
  memory.set_step(5);
  WorkerReleased released{"w1", "job-1", memory, true, {}, {}};
  released.parameters.resize(3);
  MustApply(released);
  EXPECT_EQ(job->workers[1].parameters.size(), 3u);
  MustApply(WorkerReleased{"w0", "job-1", {}, false, {}, {}});
  EXPECT_TRUE(state_.FindWorker("w1")->idle());
  EXPECT_EQ(job->workers[1].memory->worker(), "w1");
  EXPECT_FALSE(job->workers[0].memory.has_value());
  MustApply(JobSucceeded{"job-1", {}, "abc", 1.5});
  EXPECT_EQ(job->state, JobState::kSucceeded);
  EXPECT_EQ(job->parameters_sha256, "abc");
  EXPECT_EQ(job->evaluation_loss, 1.5);
  EXPECT_TRUE(job->workers[1].finished);
  EXPECT_TRUE(job->workers[1].parameters.empty());
  EXPECT_EQ(job->finished - job->placed, absl::Seconds(6));
}

TEST_F(ClusterStateTest, EachChangeOfAJobRaisesItsRevision) {
  ToRunning();
  const JobRecord* job = state_.FindJob("job-1");
  int64_t revision = job->revision;
  const std::vector<EventBody> events = {
      Step("job-1", 0), JobCancelRequested{"job-1", "enough"},
      WorkerReleased{"w0", "job-1", {}, false, {}, {}},
      JobCancelled{"job-1", "enough"}};
  for (const EventBody& event : events) {
    MustApply(event);
    EXPECT_GT(job->revision, revision);
    revision = job->revision;
  }
  EXPECT_EQ(job->reason, "enough");
}

TEST_F(ClusterStateTest, QueueHoldsWhatWaitsInTheOrderOfSubmission) {
  for (const char* job : {"job-1", "job-2", "job-3"}) {
    MustApply(JobSubmitted{job, "", TinySpec(1)});
    MustApply(JobPlanning{job});
  }
  MustApply(Planned("job-2"));
  EXPECT_EQ(state_.queue(),
            std::vector<std::string>({"job-1", "job-2", "job-3"}));
  MustApply(JobRefused{"job-1", "no"});
  MustApply(JobCancelled{"job-3", "no"});
  EXPECT_EQ(state_.queue(), std::vector<std::string>({"job-2"}));
  EXPECT_EQ(state_.FindJob("job-1")->cause->kind, FailureKind::kInvalid);
  EXPECT_EQ(state_.job_order().size(), 3u);
}

// With the first placement, for good; and never where it was said.
TEST_F(ClusterStateTest, AutoKernelsAreChosenByTheWorkersDevice) {
  struct Case {
    std::string asked;
    std::string device;
    std::string torch;
    std::string chosen;
  };
  int64_t epoch = 0;
  for (const Case& c : std::vector<Case>{{"auto", "cpu", "2.11", "onednn"},
                                         {"auto", "cuda:0", "2.11", "aten"},
                                         {"aten", "cpu", "2.11", "aten"},
                                         {"auto", "cpu", "", "auto"}}) {
    const std::string job = absl::StrCat("job-", ++epoch);
    WorkerRegistered worker = Registered(absl::StrCat("of ", job));
    worker.device = c.device;
    worker.torch_version = c.torch;
    MustApply(worker);
    v1::JobSpec spec = TinySpec(1);
    spec.mutable_training()->set_kernels(c.asked);
    MustApply(JobSubmitted{job, job, spec});
    MustApply(JobPlanning{job});
    MustApply(Planned(job));
    EXPECT_EQ(state_.FindJob(job)->spec.training().kernels(), c.asked);
    MustApply(Placed(job, epoch, {worker.worker}));
    EXPECT_EQ(state_.FindJob(job)->spec.training().kernels(), c.chosen);
  }
}

TEST_F(ClusterStateTest, WorkersComeGoAndComeBack) {
  MustApply(Registered("w0", 1));
  MustRefuse(Registered("w0", 2));
  MustApply(WorkerSuspected{"w0", "misses heartbeats"});
  EXPECT_FALSE(state_.FindWorker("w0")->idle());
  MustApply(WorkerAnswered{"w0"});
  EXPECT_TRUE(state_.FindWorker("w0")->idle());
  MustApply(WorkerLost{"w0", "gone"});
  EXPECT_EQ(state_.FindWorker("w0")->reason, "gone");
  MustRefuse(WorkerLost{"w0", "gone"});
  MustRefuse(WorkerSuspected{"w0", ""});
  MustApply(Registered("w0", 2));
  EXPECT_EQ(state_.FindWorker("w0")->incarnation, Incarnation(2));
  EXPECT_TRUE(state_.FindWorker("w0")->idle());
}

TEST_F(ClusterStateTest, ALostWorkerHoldsNothing) {
  ToRunning();
  MustApply(WorkerLost{"w1", "gone"});
  EXPECT_EQ(state_.FindWorker("w1")->job_id, "");
  MustRefuse(WorkerReleased{"w1", "job-1", {}, false, {}, {}});
  // As a new incarnation it has no part in the old placement.
  MustApply(Registered("w1", 2));
  MustRefuse(WorkerReleased{"w1", "job-1", {}, false, {}, {}});
}

TEST_F(ClusterStateTest, RefusesWhatCannotHaveHappened) {
  MustRefuse(JobPlanning{"job-1"});
  MustRefuse(WorkerLost{"w0", ""});
  MustRefuse(Placed("job-1", 1, {}));
  MustApply(JobSubmitted{"job-1", "r1", TinySpec(2)});
  MustRefuse(JobSubmitted{"job-1", "", TinySpec(2)});
  MustRefuse(JobSubmitted{"job-2", "r1", TinySpec(2)});
  MustRefuse(JobSubmitted{"", "", TinySpec(2)});
  MustApply(Registered("w0"));
  MustApply(Registered("w1"));
  MustRefuse(Placed("job-1", 1, {"w0", "w1"}));  // not planned
  MustRefuse(JobFailed{"job-1"});
  MustApply(JobPlanning{"job-1"});
  MustRefuse(JobFailed{"job-1"});
  MustRefuse(JobWaiting{"job-1", "why"});
  MustApply(Planned("job-1"));
  MustApply(JobWaiting{"job-1", "why"});
  MustRefuse(Placed("job-1", 0, {"w0", "w1"}));
  MustRefuse(Placed("job-1", 1, {"w0", "w0"}));
  MustRefuse(Placed("job-1", 1, {"w0", "w7"}));
  MustApply(WorkerSuspected{"w1", ""});
  MustRefuse(Placed("job-1", 1, {"w0", "w1"}));
  MustApply(WorkerAnswered{"w1"});
  MustApply(Placed("job-1", 1, {"w0", "w1"}));
  MustRefuse(Running("job-1", 3));
  MustRefuse(Step("job-1", 0));
  MustApply(Running("job-1"));
  MustRefuse(Step("job-1", 1));
  MustApply(Step("job-1", 0));
  MustRefuse(Step("job-1", 0));
  MustRefuse(JobCancelled{"job-1", ""});
  MustRefuse(WorkerReleased{"w0", "job-9", {}, false, {}, {}});
}

TEST_F(ClusterStateTest, EpochsGrowOverAllJobs) {
  ToRunning();
  MustApply(Registered("w2"));
  MustApply(Registered("w3"));
  MustApply(JobSubmitted{"job-2", "", TinySpec(2)});
  MustApply(JobPlanning{"job-2"});
  MustApply(Planned("job-2"));
  MustRefuse(Placed("job-2", 1, {"w2", "w3"}));
  MustApply(Placed("job-2", 2, {"w2", "w3"}));
  EXPECT_EQ(state_.last_epoch(), Epoch(2));
}

TEST_F(ClusterStateTest, TermsGrow) {
  MustApply(CoordinatorStarted{Term(3)});
  MustRefuse(CoordinatorStarted{Term(3)});
  MustApply(CoordinatorStarted{Term(7)});
  EXPECT_EQ(state_.last_term(), Term(7));
}

TEST_F(ClusterStateTest, ForgetsFinishedJobsThatNobodyHolds) {
  ToRunning();
  MustRefuse(JobForgotten{"job-1"});
  MustApply(JobCancelRequested{"job-1", ""});
  MustApply(WorkerReleased{"w0", "job-1", {}, false, {}, {}});
  MustApply(JobCancelled{"job-1", ""});
  MustRefuse(JobForgotten{"job-1"});  // w1 still holds it
  MustApply(WorkerLost{"w1", "gone"});
  MustApply(JobForgotten{"job-1"});
  EXPECT_EQ(state_.FindJob("job-1"), nullptr);
  EXPECT_EQ(state_.FindRequest("r1"), nullptr);
  EXPECT_TRUE(state_.job_order().empty());
  // Its number is not given again.
  EXPECT_EQ(state_.jobs_submitted(), 1);
}

TEST_F(ClusterStateTest, AnUnplacedJobMayBePlannedAgain) {
  MustApply(JobSubmitted{"job-1", "", TinySpec(2)});
  MustApply(JobPlanning{"job-1"});
  MustApply(Planned("job-1"));
  MustApply(JobPlanning{"job-1"});
  EXPECT_FALSE(state_.FindJob("job-1")->planned);
  EXPECT_EQ(state_.queue(), std::vector<std::string>({"job-1"}));
  MustApply(Planned("job-1"));
  EXPECT_TRUE(state_.FindJob("job-1")->planned);
}

TEST_F(ClusterStateTest, AFailureKeepsItsCauseAndReason) {
  ToRunning();
  JobFailing failing;
  failing.job_id = "job-1";
  failing.cause.worker = "w1";
  failing.victims = {"w0"};
  failing.reason = "because";
  MustApply(failing);
  MustRefuse(JobSucceeded{"job-1", {}, "", {}});
  MustApply(JobFailed{"job-1"});
  const JobRecord* job = state_.FindJob("job-1");
  EXPECT_EQ(job->state, JobState::kFailed);
  EXPECT_EQ(job->reason, "because");
  EXPECT_EQ(job->cause->worker, "w1");
  EXPECT_EQ(job->victims, std::vector<std::string>({"w0"}));
}

TEST_F(ClusterStateTest, RemembersTheNewestCheckpointAndTheLastFailure) {
  MustRefuse(CheckpointStored{"job-1", 1, "/c/1"});
  ToRunning();
  MustApply(CheckpointStored{"job-1", 1, "/c/1"});
  MustApply(CheckpointFailed{"job-1", 2, "disk full"});
  const JobRecord* job = state_.FindJob("job-1");
  EXPECT_EQ(job->checkpoint_step, 1);
  EXPECT_EQ(job->checkpoint_path, "/c/1");
  EXPECT_EQ(job->checkpoint_error, "checkpoint of step 2: disk full");
  EXPECT_EQ(job->failed_checkpoint_step, 2);
  MustApply(CheckpointStored{"job-1", 3, "/c/3"});
  EXPECT_EQ(job->checkpoint_path, "/c/3");
  EXPECT_EQ(job->checkpoint_error, "");
}

TEST_F(ClusterStateTest, AResumedJobCountsItsStepsFromItsCheckpoint) {
  MustApply(JobSubmitted{"job-1", "", TinySpec(2), /*resume=*/true});
  MustApply(JobPlanning{"job-1"});
  JobPlanned planned;
  planned.job_id = "job-1";
  planned.stages.resize(2);
  planned.first_step = 25;
  planned.checkpoint = "/c/25";
  MustApply(planned);
  MustApply(Registered("w0"));
  MustApply(Registered("w1"));
  MustApply(Placed("job-1", 1, {"w0", "w1"}));
  MustApply(Running("job-1"));
  MustRefuse(Step("job-1", 0));
  MustApply(Step("job-1", 25));
  MustApply(Step("job-1", 26));
  EXPECT_EQ(state_.FindJob("job-1")->steps.size(), 2u);
  EXPECT_EQ(state_.FindJob("job-1")->checkpoint_path, "/c/25");
}

TEST_F(ClusterStateTest, KnowsWhoHasWhichStage) {
  ToRunning();
  const JobRecord* job = state_.FindJob("job-1");
  EXPECT_EQ(job->IndexOf("w1"), 1);
  EXPECT_EQ(job->IndexOf("w9"), -1);
  EXPECT_EQ(job->LowestStageOf(1), 1);
  EXPECT_EQ(job->LowestStageOf(2), -1);
}

// ---- replay -----------------------------------------------------------------

TEST(ClusterStateReplayTest, TheSameEventsGiveTheSameState) {
  std::set<size_t> kinds;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomEvents source(seed);
    ClusterState state;
    MemoryJournal journal;
    for (int i = 0; i < 600; ++i) {
      const Event event = source.Next(state);
      const std::string before = i % 7 == 0 ? state.DebugString() : "";
      if (state.Apply(event).ok()) {
        ASSERT_TRUE(journal.Append(event).ok());
        kinds.insert(event.body.index());
      } else if (i % 7 == 0) {
        ASSERT_EQ(state.DebugString(), before) << "event " << i;
      }
    }
    ClusterState replayed;
    for (const Event& event : journal.events()) {
      ASSERT_TRUE(replayed.Apply(event).ok());
    }
    ASSERT_EQ(replayed.DebugString(), state.DebugString());
    const auto restored = ClusterState::FromSnapshot(state.ToSnapshot());
    ASSERT_TRUE(restored.ok()) << restored.status();
    ASSERT_EQ(restored->DebugString(), state.DebugString());
  }
  // The sequences are not trivial.
  EXPECT_EQ(kinds.size(), std::variant_size_v<EventBody>);
}

TEST(ClusterStateReplayTest, ASnapshotHasThousandsOfStepsInPieces) {
  ClusterState state;
  const auto apply = [&](EventBody body) {
    Event event;
    event.body = std::move(body);
    ASSERT_TRUE(state.Apply(event).ok());
  };
  WorkerRegistered worker;
  worker.worker = "w0";
  apply(worker);
  for (const char* id : {"job-1", "job-2"}) {
    apply(JobSubmitted{id, "", TinySpec(1)});
    apply(JobPlanning{id});
    JobPlanned planned;
    planned.job_id = id;
    apply(planned);
  }
  apply(JobPlaced{"job-1", Epoch(1), {"w0"}});
  apply(JobRunning{"job-1", "none", {}, {1}});
  for (int64_t step = 0; step < 2500; ++step) {
    StepCommitted event;
    event.job_id = "job-1";
    event.result.step = step;
    event.busy_nanoseconds = {1};
    apply(event);
  }
  auto parts = state.ToSnapshot();
  // Itself, two jobs, three pieces of steps and of history, and one.
  EXPECT_EQ(parts.size(), 10u);
  EXPECT_EQ(ClusterState::FromSnapshot(parts)->DebugString(),
            state.DebugString());
  std::swap(parts[2], parts[9]);
  EXPECT_EQ(ClusterState::FromSnapshot(parts).status().code(),
            absl::StatusCode::kDataLoss);
  parts.pop_back();
  EXPECT_EQ(ClusterState::FromSnapshot(parts).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ClusterStateReplayTest, DumpsTellStatesApart) {
  ClusterState one;
  ClusterState two;
  Event event;
  event.body = JobSubmitted{"job-1", "", TinySpec(1)};
  ASSERT_TRUE(one.Apply(event).ok());
  EXPECT_NE(one.DebugString(), two.DebugString());
  event.body = JobSubmitted{"job-1", "", TinySpec(2)};
  ASSERT_TRUE(two.Apply(event).ok());
  EXPECT_NE(one.DebugString(), two.DebugString());
}

TEST_F(ClusterStateTest, DeadWorkersAreForgottenInTheEnd) {
  ToRunning();
  MustApply(WorkerLost{"w1", "gone"});
  for (int i = 0; i < 1200; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    MustApply(Registered(name));
    MustApply(WorkerLost{name, "gone"});
  }
  MustApply(Registered("live"));
  // With the live ones, of which w0 is one.
  EXPECT_EQ(state_.workers().size(), 1002u);
  EXPECT_EQ(state_.FindWorker("worker-0"), nullptr);
  EXPECT_NE(state_.FindWorker("worker-1199"), nullptr);
  EXPECT_NE(state_.FindWorker("w1"), nullptr) << "job-1 had it";
}

// With copies that are lost before they are used.
TEST_F(ClusterStateTest, AJobGoesBackFurtherWhenItsCopiesAreLost) {
  ToRunning();
  for (const int64_t step : {0, 1, 2}) MustApply(Step("job-1", step));
  MustApply(CheckpointStored{"job-1", 2, "/c/2"});
  MustApply(JobRecovering{"job-1", FailureCause(), {}, "lost"});
  for (const char* name : {"w0", "w1"}) MustApply(WorkerLost{name, "gone"});
  MustApply(JobRewound{"job-1", 3, ""});
  const JobRecord* job = state_.FindJob("job-1");
  EXPECT_TRUE(job->BeginsWithCopies());
  EXPECT_EQ(job->recoveries[0].steps_redone(), 0);
  // The checkpoint is as it was.
  EXPECT_EQ(job->checkpoint_step, 2);
  EXPECT_EQ(job->checkpoint_path, "/c/2");
  MustRefuse(JobRewound{"job-1", 4, "/c/4"});
  MustApply(JobRewound{"job-1", 2, "/c/2"});
  EXPECT_FALSE(job->BeginsWithCopies());
  EXPECT_EQ(job->recoveries[0].steps_redone(), 1);
  EXPECT_EQ(job->steps_committed(), 2);
  MustRefuse(JobRewound{"job-1", 0, ""});
}

}  // namespace
}  // namespace stagecoach::coordinator

// The life of a job with workers that do as they are told.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "coordinator/controller_fixture.h"
#include "gtest/gtest.h"
#include "job/parse.h"
#include "job/plan.h"

namespace stagecoach::coordinator {
namespace {

class ControllerJobsTest : public ControllerTest {};

TEST_F(ControllerJobsTest, RunsAJobToSuccess) {
  JoinMany(2);
  const std::string job_id = Submit(TinySpec(2));
  Serve();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(Received(worker(i)),
              "welcome assign connect begin:0 commit:0 begin:1 commit:1 "
              "finish");
  }
  const auto job = Get(job_id);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job->reason(), "");
  EXPECT_EQ(job->transport(), "shm");
  EXPECT_EQ(job->schedule(), "1f1b");
  EXPECT_EQ(job->epoch(), 1);
  ASSERT_EQ(job->steps_size(), 2);
  // 2 microbatches of 8 over 2 x 2 x 4 target tokens
  EXPECT_EQ(job->steps(1).loss(), 1.0);
  EXPECT_EQ(job->steps(1).grad_norm(), std::sqrt(8.0));
  ASSERT_EQ(job->workers_size(), 2);
  EXPECT_EQ(job->workers(0).worker(), "w0");
  EXPECT_EQ(job->workers(0).measured_peak_bytes(), 1000);
  EXPECT_EQ(job->workers(1).receive_pool_bytes(), 50);
  ASSERT_EQ(job->stages_size(), 2);
  EXPECT_EQ(job->stages(0).output_bytes(), 2 * 4 * 8 * 4);
  EXPECT_EQ(job->stages(1).output_bytes(), 0);
  ASSERT_EQ(job->parameters_size(), 2);
  EXPECT_EQ(job->parameters(0).name(), "parameter of w0");
  EXPECT_EQ(job->parameters_sha256().size(), 64u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(controller_->state().FindWorker(worker(i).name)->idle());
  }
}

v1::JobSpec AutomaticSpec(int64_t workers, const std::string& schedule) {
  job::JobSpec spec = TinyJob(workers);
  spec.pipeline.split.clear();
  spec.pipeline.schedule = schedule;
  v1::JobSpec proto;
  job::ToProto(spec, &proto);
  return proto;
}

TEST_F(ControllerJobsTest, AnAutomaticSplitIsDecidedByWhatAWorkerMeasures) {
  JoinMany(2);
  const std::string job_id = Submit(AutomaticSpec(2, "1f1b"));
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_PLACING);
  EXPECT_EQ(Get(job_id)->stages(0).layer_end(), 4);  // even, for now
  Serve();
  EXPECT_EQ(Received(worker(0)),
            "welcome profile assign connect begin:0 commit:0 begin:1 commit:1 "
            "finish");
  const auto job = Get(job_id);
  EXPECT_EQ(job->state(), v1::JOB_STATE_SUCCEEDED);
  // The head costs as much as four layers: six layers against two and a head.
  EXPECT_EQ(job->stages(0).layer_end(), 6);
  EXPECT_EQ(job->stages(1).layer_end(), 8);
  EXPECT_EQ(worker(1).assign.stages(0).layer_begin(), 6);
}

TEST_F(ControllerJobsTest, AnAutomaticScheduleIsNamedOnceItIsChosen) {
  JoinMany(2);
  const std::string job_id = Submit(AutomaticSpec(2, "auto"));
  EXPECT_EQ(Get(job_id)->schedule(), "auto");
  Serve("assign");
  const std::string chosen = Get(job_id)->schedule();
  EXPECT_EQ(chosen, worker(0).received.back().assign().schedule().kind());
  Serve();
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerJobsTest, AJobMayBeCancelledWhileItIsPlannedAgain) {
  JoinMany(2);
  const std::string job_id = Submit(AutomaticSpec(2, "1f1b"));
  Say(worker(1), *AnswerTo(worker(1), worker(1).received.back()));
  ++worker(1).answered;
  // The plan is being made when the user cancels.
  v1::WorkerMessage profiled = *AnswerTo(worker(0), worker(0).received.back());
  ++worker(0).answered;
  profiled.mutable_fence()->set_term(options_.term.value());
  profiled.mutable_fence()->set_epoch(worker(0).epoch);
  profiled.mutable_fence()->set_incarnation(worker(0).incarnation);
  controller_->OnMessage(workers_[0], profiled);
  executor_.RunAll();
  EXPECT_EQ(Cancel(job_id).state(), v1::JOB_STATE_CANCELLING);
  Serve();
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Received(worker(0)), "welcome profile abort");
}

TEST_F(ControllerJobsTest, AProfileThatMakesNoSenseFailsTheJob) {
  JoinMany(2);
  const std::string job_id = Submit(AutomaticSpec(2, "1f1b"));
  Say(worker(1), *AnswerTo(worker(1), worker(1).received.back()));
  ++worker(1).answered;
  v1::WorkerMessage profiled;
  profiled.mutable_profiled()->mutable_profile()->add_layers();
  ++worker(0).answered;
  Say(worker(0), profiled);
  Serve();
  const auto job = Get(job_id);
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_TRUE(absl::StrContains(job->cause().message(),
                                "a profile of 1 layers, but the model has 8"))
      << job->cause().message();
}

TEST_F(ControllerJobsTest, ARunningJobTakesAnotherScheduleBetweenTwoSteps) {
  JoinMany(2);
  const std::string job_id = Submit(TinySpec(2));
  Serve("begin");
  EXPECT_TRUE(Reschedule(job_id, "zb-h1").ok());
  EXPECT_EQ(Get(job_id)->schedule(), "1f1b") << "not before the boundary";
  Serve();
  EXPECT_EQ(Received(worker(1)),
            "welcome assign connect begin:0 commit:0 reschedule connect "
            "begin:1 commit:1 finish");
  const auto job = Get(job_id);
  EXPECT_EQ(job->state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job->schedule(), "zb-h1");
  EXPECT_EQ(job->steps_size(), 2);
}

TEST_F(ControllerJobsTest, AScheduleThatCannotBeTakenIsRefused) {
  JoinMany(2);
  const std::string job_id = Submit(TinySpec(2));
  EXPECT_TRUE(absl::IsFailedPrecondition(Reschedule(job_id, "gpipe")))
      << "not running yet";
  Serve("begin");
  EXPECT_TRUE(absl::IsInvalidArgument(Reschedule(job_id, "1f2b")));
  EXPECT_TRUE(absl::IsInvalidArgument(Reschedule(job_id, "auto")));
  EXPECT_TRUE(absl::IsInvalidArgument(Reschedule(job_id, "zbv")));
  EXPECT_TRUE(absl::IsNotFound(Reschedule("job-7", "gpipe")));
  Serve();
  EXPECT_EQ(Received(worker(0)),
            "welcome assign connect begin:0 commit:0 begin:1 commit:1 finish");
  EXPECT_TRUE(absl::IsFailedPrecondition(Reschedule(job_id, "gpipe")));
}

TEST_F(ControllerJobsTest, StagesStayOnTheirWorkersWhateverTheSchedule) {
  JoinMany(2);
  v1::JobSpec spec = TinySpec(2);
  spec.mutable_pipeline()->set_schedule("interleaved");
  spec.mutable_pipeline()->set_stages_per_worker(2);
  spec.mutable_pipeline()->clear_split();
  for (int stage = 0; stage < 4; ++stage) {
    spec.mutable_pipeline()->add_split(2);
  }
  const std::string job_id = Submit(spec);
  Serve("begin");
  const absl::Status refused = Reschedule(job_id, "zbv");
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_TRUE(absl::StrContains(refused.message(), "on other workers"))
      << refused;
  EXPECT_TRUE(Reschedule(job_id, "looped-bfs").ok());
  Serve();
  EXPECT_EQ(Get(job_id)->schedule(), "looped-bfs");
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerJobsTest, CommitCarriesTheJobsRateAndClipping) {
  JoinMany(1);
  Submit(TinySpec(1, 3));
  Serve();
  int64_t step = 0;
  for (const auto& message : worker(0).received) {
    if (!message.has_step_commit()) continue;
    EXPECT_EQ(message.step_commit().learning_rate(),
              job::LearningRateAt(TinyJob(1, 3).training, step++));
    EXPECT_EQ(message.step_commit().clip_factor(),
              job::ClipFactor(1.0, std::sqrt(4.0)));
  }
  EXPECT_EQ(step, 3);
}

TEST_F(ControllerJobsTest, EveryMessageIsFencedForItsReceiver) {
  JoinMany(2);
  Submit(TinySpec(2));
  Serve();
  Submit(TinySpec(2));
  Serve();
  for (size_t i = 0; i < 2; ++i) {
    int64_t epoch = 0;
    for (const auto& message : worker(i).received) {
      epoch += message.has_assign();
      EXPECT_EQ(message.fence().term(), 1);
      EXPECT_EQ(message.fence().epoch(), epoch);
      EXPECT_EQ(message.fence().incarnation(), worker(i).incarnation);
    }
    EXPECT_EQ(epoch, 2);
  }
}

TEST_F(ControllerJobsTest, StepWithAnInfiniteGradientIsSkipped) {
  JoinMany(1);
  const std::string job_id = Submit(TinySpec(1));
  Serve("begin");
  v1::WorkerMessage message;
  v1::Prepared* prepared = message.mutable_prepared();
  prepared->set_all_finite(false);
  for (int i = 0; i < 2; ++i) prepared->add_losses()->set_microbatch(i);
  ++worker(0).answered;
  Say(worker(0), message);
  Serve();
  EXPECT_EQ(Received(worker(0)),
            "welcome assign connect begin:0 skip:0 begin:1 commit:1 finish");
  const auto job = Get(job_id);
  ASSERT_EQ(job->steps_size(), 2);
  EXPECT_TRUE(job->steps(0).skipped());
  EXPECT_FALSE(job->steps(1).skipped());
  EXPECT_EQ(job->state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerJobsTest, StepIsVisibleOnceCommittedNotBefore) {
  JoinMany(2);
  const std::string job_id = Submit(TinySpec(2));
  Serve("begin");
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  EXPECT_EQ(Get(job_id)->steps_size(), 0);
  clock_.Advance(absl::Milliseconds(250));
  Say(worker(1), *AnswerTo(worker(1), worker(1).received.back()));
  const auto job = Get(job_id);
  ASSERT_EQ(job->steps_size(), 1);
  EXPECT_DOUBLE_EQ(job->steps(0).seconds(), 0.25);
  EXPECT_DOUBLE_EQ(job->steps(0).tokens_per_second(), 16 / 0.25);
}

TEST_F(ControllerJobsTest, WaitsForWorkersAndSaysSo) {
  JoinMany(2);
  const std::string job_id = Submit(TinySpec(4));
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get(job_id)->reason(), "waiting for 4 idle workers, 2 registered");
  Join("w2");
  EXPECT_EQ(Get(job_id)->reason(), "waiting for 4 idle workers, 3 registered");
  Join("w3");
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_PLACING);
  Serve();
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerJobsTest, IndexFollowsTheNamesNotTheArrival) {
  for (const char* name : {"w10", "w2", "w1"}) Join(name);
  const std::string job_id = Submit(TinySpec(3));
  Serve();
  const auto job = Get(job_id);
  ASSERT_EQ(job->workers_size(), 3);
  EXPECT_EQ(job->workers(0).worker(), "w1");
  EXPECT_EQ(job->workers(1).worker(), "w2");
  EXPECT_EQ(job->workers(2).worker(), "w10");
}

TEST_F(ControllerJobsTest, WorkersOfOtherLibtorchAreNotMixed) {
  Join("w0", "2.10");
  Join("w1", "2.11");
  const std::string job_id = Submit(TinySpec(2));
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_QUEUED);
  EXPECT_TRUE(absl::StrContains(Get(job_id)->reason(), "1 with 2.10"))
      << Get(job_id)->reason();
  Join("w2", "2.11");
  EXPECT_EQ(Received(worker(0)), "welcome");
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_PLACING);
}

TEST_F(ControllerJobsTest, JobsRunOneAfterTheOtherOnTheSameWorkers) {
  JoinMany(2);
  const std::string first = Submit(TinySpec(2));
  const std::string second = Submit(TinySpec(2));
  EXPECT_EQ(Get(second)->reason(),
            "waiting for 2 idle workers, 2 registered, 0 idle");
  Serve("finish");
  EXPECT_EQ(StateOf(first), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(StateOf(second), v1::JOB_STATE_QUEUED);
  Serve();
  EXPECT_EQ(StateOf(first), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(StateOf(second), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Received(worker(1)),
            "welcome assign connect begin:0 commit:0 begin:1 commit:1 finish "
            "assign connect begin:0 commit:0 begin:1 commit:1 finish");
}

TEST_F(ControllerJobsTest, QueueIsServedInOrderEvenIfALaterJobWouldFit) {
  JoinMany(3);
  const std::string large = Submit(TinySpec(4));
  const std::string small = Submit(TinySpec(1));
  EXPECT_EQ(StateOf(small), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get(small)->reason(), "waiting behind " + large);
  Cancel(large);
  EXPECT_EQ(StateOf(small), v1::JOB_STATE_PLACING);
}

TEST_F(ControllerJobsTest, JobsOnOtherWorkersRunAtTheSameTime) {
  JoinMany(4);
  const std::string one = Submit(TinySpec(2));
  const std::string two = Submit(TinySpec(2));
  Serve("finish");
  EXPECT_EQ(StateOf(one), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(StateOf(two), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Get(two)->workers(0).worker(), "w2");
  Serve();
  EXPECT_EQ(StateOf(one), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(StateOf(two), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerJobsTest, AWorkerThatFinishedFirstCanTakeTheNextJob) {
  JoinMany(2);
  const std::string one = Submit(TinySpec(2));
  const std::string two = Submit(TinySpec(1));
  Serve("finish");
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  EXPECT_EQ(StateOf(one), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(StateOf(two), v1::JOB_STATE_PLACING);
  ++worker(0).answered;
  Serve();
  EXPECT_EQ(StateOf(one), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(StateOf(two), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerJobsTest, ASpecThatIsRefusedFailsTheJobWithWhatIsWrong) {
  v1::JobSpec spec = TinySpec(2);
  spec.mutable_pipeline()->add_split(3);
  spec.mutable_pipeline()->add_split(3);
  const std::string job_id = Submit(spec);
  const auto job = Get(job_id);
  EXPECT_EQ(job->state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job->cause().kind(), v1::FAILURE_KIND_INVALID);
  EXPECT_EQ(job->cause().stage(), -1);
  EXPECT_EQ(job->cause().message(),
            std::string(job::Validate(*job::FromProto(spec)).message()));
  EXPECT_EQ(job->reason(), job->cause().message());
}

TEST_F(ControllerJobsTest, RefusedJobDoesNotHoldUpTheNext) {
  JoinMany(1);
  v1::JobSpec spec = TinySpec(1);
  spec.mutable_training()->set_steps(0);
  const std::string bad = Submit(spec);
  const std::string good = Submit(TinySpec(1));
  Serve();
  EXPECT_EQ(StateOf(bad), v1::JOB_STATE_FAILED);
  EXPECT_EQ(StateOf(good), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerJobsTest, SubmittingAgainGivesTheSameJob) {
  const std::string one = Submit(TinySpec(2), "request");
  EXPECT_EQ(Submit(TinySpec(2), "request"), one);
  auto request = Versioned<v1::SubmitJobRequest>();
  request.set_request_id("request");
  *request.mutable_spec() = TinySpec(3);
  EXPECT_EQ(TrySubmit(request).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_NE(Submit(TinySpec(2), "another"), one);
  EXPECT_NE(Submit(TinySpec(2), ""), Submit(TinySpec(2), ""));
}

TEST_F(ControllerJobsTest, UnknownWordsOfASpecAreRefusedAtOnce) {
  auto request = Versioned<v1::SubmitJobRequest>();
  *request.mutable_spec() = TinySpec(2);
  request.mutable_spec()->mutable_pipeline()->set_release("someday");
  EXPECT_EQ(TrySubmit(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Get("latest").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ControllerJobsTest, AnotherProtocolIsAVersionSkew) {
  v1::SubmitJobRequest request;
  request.mutable_version()->set_version("9.9.9");
  request.mutable_version()->set_protocol(99);
  *request.mutable_spec() = TinySpec(2);
  const absl::Status status = TrySubmit(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(status.message(), "9.9.9")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "protocol 99")) << status;
  EXPECT_TRUE(absl::StrContains(
      status.message(), absl::StrCat("protocol ", kProtocolVersion, ")")))
      << status;
}

TEST_F(ControllerJobsTest, LatestIsTheJobSubmittedLast) {
  Submit(TinySpec(2));
  const std::string second = Submit(TinySpec(2));
  EXPECT_EQ(Get("latest")->id(), second);
  EXPECT_EQ(Get("job-77").status().code(), absl::StatusCode::kNotFound);
}

// ---- cancelling -------------------------------------------------------------

TEST_F(ControllerJobsTest, CancelsAQueuedJobAtOnce) {
  const std::string job_id = Submit(TinySpec(2));
  const v1::Job job = Cancel(job_id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job.reason(), "the test said so");
  JoinMany(2);
  EXPECT_EQ(Received(worker(0)), "welcome");
}

TEST_F(ControllerJobsTest, CancelsAJobThatIsBeingPlanned) {
  JoinMany(2);
  auto request = Versioned<v1::SubmitJobRequest>();
  *request.mutable_spec() = TinySpec(2);
  controller_->Submit(request, [](auto) {});
  executor_.RunAll();  // but not the planning
  auto cancel = Versioned<v1::CancelJobRequest>();
  cancel.set_job_id("job-1");
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  controller_->Cancel(cancel,
                      [&](auto reply) { state = reply->job().state(); });
  executor_.RunAll();
  EXPECT_EQ(state, v1::JOB_STATE_CANCELLED);
  RunAll();  // the plan comes too late
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Received(worker(0)), "welcome");
}

class CancelInPhaseTest : public ControllerTest,
                          public ::testing::WithParamInterface<const char*> {};

// The workers have not answered the message that is the parameter.
TEST_P(CancelInPhaseTest, WorkersLetGoFirst) {
  JoinMany(2);
  const std::string job_id = Submit(TinySpec(2));
  Serve(GetParam());
  EXPECT_EQ(Cancel(job_id).state(), v1::JOB_STATE_CANCELLING);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(worker(i).received.back().abort().job_id(), job_id);
    worker(i).answered = worker(i).received.size() - 1;
  }
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_CANCELLING);
  Say(worker(1), *AnswerTo(worker(1), worker(1).received.back()));
  const auto job = Get(job_id);
  EXPECT_EQ(job->state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job->reason(), "the test said so");
  EXPECT_EQ(job->workers(0).measured_peak_bytes(), 1000);
  // They are free for the next.
  worker(0).answered = worker(0).received.size();
  worker(1).answered = worker(1).received.size();
  const std::string next = Submit(TinySpec(2));
  Serve();
  EXPECT_EQ(StateOf(next), v1::JOB_STATE_SUCCEEDED);
}

INSTANTIATE_TEST_SUITE_P(Phases, CancelInPhaseTest,
                         ::testing::Values("assign", "connect", "begin:0",
                                           "begin:1", "commit:1", "finish"),
                         [](const auto& phase) {
                           std::string name(phase.param);
                           for (char& c : name) c = c == ':' ? '_' : c;
                           return name;
                         });

TEST_F(ControllerJobsTest, ASilentWorkerDoesNotHoldUpACancel) {
  JoinMany(2);
  const std::string job_id = Submit(TinySpec(2));
  Serve("begin");
  Cancel(job_id);
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  Pass(absl::Seconds(4.9), AllBut({}));
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_CANCELLING);
  Pass(absl::Seconds(0.1), AllBut({}));
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_CANCELLED);
  ASSERT_TRUE(worker(1).closed.has_value());
  EXPECT_TRUE(absl::StrContains(worker(1).closed->message(),
                                "did not let go of job-1 within 5s"))
      << *worker(1).closed;
  EXPECT_TRUE(controller_->state().FindWorker("w1")->dead);
  EXPECT_TRUE(controller_->state().FindWorker("w0")->idle());
}

TEST_F(ControllerJobsTest, AWorkerThatDiesWhileCancellingHasLetGo) {
  JoinMany(2);
  const std::string job_id = Submit(TinySpec(2));
  Serve("begin");
  Cancel(job_id);
  Disconnect(worker(1));
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  EXPECT_EQ(StateOf(job_id), v1::JOB_STATE_CANCELLED);
}

TEST_F(ControllerJobsTest, CancellingAFinishedJobChangesNothing) {
  JoinMany(1);
  const std::string job_id = Submit(TinySpec(1));
  Serve();
  const int64_t revision = Get(job_id)->revision();
  EXPECT_EQ(Cancel(job_id).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get(job_id)->revision(), revision);
  EXPECT_EQ(TryCancel("job-9").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ControllerJobsTest, CancellingTwiceIsOnce) {
  JoinMany(1);
  const std::string job_id = Submit(TinySpec(1));
  Serve("begin");
  Cancel(job_id);
  EXPECT_EQ(Cancel(job_id).state(), v1::JOB_STATE_CANCELLING);
  EXPECT_EQ(Received(worker(0)), "welcome assign connect begin:0 abort");
}

// ---- the journal ------------------------------------------------------------

TEST_F(ControllerJobsTest, JournalRebuildsTheState) {
  JoinMany(3);
  Submit(TinySpec(2));
  Submit(TinySpec(2));
  Serve("begin:1");
  Disconnect(worker(1));
  Serve();
  ClusterState replayed;
  for (const Event& event : journal_.events()) {
    ASSERT_TRUE(replayed.Apply(event).ok());
  }
  EXPECT_EQ(replayed.DebugString(), controller_->state().DebugString());
  EXPECT_EQ(controller_->state().FindJob("job-1")->state, JobState::kFailed);
  EXPECT_EQ(controller_->state().FindJob("job-2")->state, JobState::kSucceeded);
}

// Accepts a given number of events.
class FullJournal : public Journal {
 public:
  explicit FullJournal(int room) : room_(room) {}
  absl::Status Append(const Event&) override {
    if (room_-- > 0) return absl::OkStatus();
    return absl::ResourceExhaustedError("the disk is full");
  }
  void AppendLater(const Event&) override {}
  absl::Status Flush() override { return absl::OkStatus(); }
  size_t unwritten() const override { return 0; }
  absl::Status Compact(const ClusterState&) override {
    return absl::OkStatus();
  }

 private:
  int room_;
};

TEST_F(ControllerJobsTest, NothingHappensThatTheJournalDidNotTake) {
  // The event that is refused, and what comes of it: a request is refused, a
  // job waits, or everything stops.
  enum Outcome { kRefused, kWaits, kStopped, kDone };
  const Outcome outcomes[] = {
      kRefused,  // worker registered
      kRefused,  // job submitted
      kWaits,    // its planning
      kStopped,  // planned
      kWaits,    // placed
      kStopped,  // running
      kStopped,  // worker released
      kStopped,  // succeeded
      kDone,
  };
  int room = 0;
  for (const Outcome outcome : outcomes) {
    SCOPED_TRACE(room);
    FullJournal journal(room);
    workers_.clear();
    controller_ = std::make_unique<Controller>(options_, &clock_, &executor_,
                                               &planning_, &journal);
    JoinMany(1);
    EXPECT_EQ(worker(0).closed.has_value(), room == 0);
    auto request = Versioned<v1::SubmitJobRequest>();
    *request.mutable_spec() = TinySpec(1);
    const absl::Status submitted = TrySubmit(request).status();
    EXPECT_EQ(submitted.code(), outcome == kRefused
                                    ? absl::StatusCode::kResourceExhausted
                                    : absl::StatusCode::kOk);
    Serve();
    const absl::StatusOr<v1::Job> job = Get("job-1");
    switch (outcome) {
      case kRefused:
        EXPECT_EQ(job.status().code(), absl::StatusCode::kNotFound);
        break;
      case kWaits:
        EXPECT_EQ(job->state(), v1::JOB_STATE_QUEUED);
        EXPECT_FALSE(worker(0).closed.has_value());
        break;
      case kStopped:
        EXPECT_EQ(job.status().code(), absl::StatusCode::kUnavailable);
        EXPECT_TRUE(
            absl::StrContains(job.status().message(), "the disk is full"));
        EXPECT_EQ(worker(0).closed->code(), absl::StatusCode::kUnavailable);
        break;
      case kDone:
        EXPECT_EQ(job->state(), v1::JOB_STATE_SUCCEEDED);
        break;
    }
    ++room;
  }
  controller_ = nullptr;
}

TEST_F(ControllerJobsTest, OldFinishedJobsAreForgotten) {
  options_.keep_jobs = 2;
  controller_ = std::make_unique<Controller>(options_, &clock_, &executor_,
                                             &planning_, &journal_);
  JoinMany(1);
  for (int i = 0; i < 4; ++i) Submit(TinySpec(1));
  Serve("begin");
  Pass(absl::Milliseconds(100), AllBut({}));
  EXPECT_EQ(controller_->state().job_order().size(), 4u);
  Serve();
  Pass(absl::Milliseconds(100), AllBut({}));
  EXPECT_EQ(Get("job-2").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StateOf("job-3"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Submit(TinySpec(1)), "job-5");
}

}  // namespace
}  // namespace stagecoach::coordinator

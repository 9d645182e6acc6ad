#include "coordinator/job_run.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

using Phase = JobRun::Phase;

// Two workers, two microbatches, two steps.
class JobRunTest : public ::testing::Test {
 protected:
  JobRunTest() { Make(TinyJob(2)); }

  void Make(const job::JobSpec& spec) {
    auto planned = PlanForWorkers(spec, nullptr, job::PlanJob);
    EXPECT_TRUE(planned.ok()) << planned.status();
    v1::JobSpec proto;
    job::ToProto(spec, &proto);
    std::vector<JobRun::Member> members(2);
    members[0] = {"a", Incarnation(10), "127.0.0.1:1"};
    members[1] = {"b", Incarnation(11), "127.0.0.1:2"};
    run_ = std::make_unique<JobRun>(
        "job-1", Epoch(1), std::move(proto),
        std::make_shared<const PlannedJob>(*std::move(planned)),
        std::move(members));
  }

  JobRun::Output Say(int worker, const v1::WorkerMessage& message) {
    now_ += absl::Milliseconds(10);
    return run_->OnMessage(worker, message, now_);
  }
  static v1::WorkerMessage Assigned(int64_t pool = 0) {
    v1::WorkerMessage message;
    message.mutable_assigned()->set_receive_pool_bytes(pool);
    return message;
  }
  static v1::WorkerMessage Connected(const std::vector<std::string>& edges) {
    v1::WorkerMessage message;
    message.mutable_connected();
    for (const std::string& edge : edges) {
      message.mutable_connected()->add_edges(edge);
    }
    return message;
  }
  static v1::WorkerMessage Prepared(int64_t step, bool last_stage) {
    v1::WorkerMessage message;
    v1::Prepared* prepared = message.mutable_prepared();
    prepared->set_step(step);
    prepared->set_all_finite(true);
    for (int i = 0; last_stage && i < 2; ++i) {
      prepared->add_losses()->set_microbatch(i);
      prepared->mutable_losses(i)->set_loss_sum(8);
    }
    return message;
  }
  static v1::WorkerMessage Applied(int64_t step) {
    v1::WorkerMessage message;
    message.mutable_applied()->set_step(step);
    return message;
  }
  static v1::WorkerMessage Finished(const std::vector<std::string>& names) {
    v1::WorkerMessage message;
    v1::Finished* finished = message.mutable_finished();
    finished->mutable_memory()->set_step(-1);
    for (const std::string& name : names) {
      v1::ParameterDigest* digest = finished->add_parameters();
      digest->set_name(name);
      digest->set_dtype("float32");
      digest->add_shape(2);
      digest->add_shape(3);
      digest->set_sha256("hash of " + name);
    }
    return message;
  }
  static v1::WorkerMessage Released() {
    v1::WorkerMessage message;
    message.mutable_released();
    return message;
  }

  void ToStepping() {
    run_->Start();
    Say(0, Assigned());
    Say(1, Assigned());
    Say(0, Connected({"0->1 activation: shm"}));
    Say(1, Connected({"1->0 gradient: shm"}));
    ASSERT_EQ(run_->phase(), Phase::kStepping);
  }
  void Step(int64_t step) {
    EXPECT_TRUE(Say(0, Prepared(step, false)).status.ok());
    EXPECT_TRUE(Say(1, Prepared(step, true)).status.ok());
    EXPECT_TRUE(Say(0, Applied(step)).status.ok());
  }

  static std::string KindOf(const v1::CoordinatorMessage& message) {
    switch (message.message_case()) {
      case v1::CoordinatorMessage::kAssign:
        return "assign";
      case v1::CoordinatorMessage::kConnect:
        return "connect";
      case v1::CoordinatorMessage::kProfile:
        return "profile";
      case v1::CoordinatorMessage::kReschedule:
        return "reschedule";
      case v1::CoordinatorMessage::kStepBegin:
        return message.step_begin().has_outcome() ? "commit+begin" : "begin";
      case v1::CoordinatorMessage::kStepCommit:
        return "commit";
      case v1::CoordinatorMessage::kWriteCheckpoint:
        return "write";
      case v1::CoordinatorMessage::kSealCheckpoint:
        return message.seal_checkpoint().discard() ? "discard" : "seal";
      case v1::CoordinatorMessage::kCopyState:
        return "copy";
      case v1::CoordinatorMessage::kFinish:
        return "finish";
      case v1::CoordinatorMessage::kAbort:
        return "abort";
      default:
        return "other";
    }
  }
  // Of the step that the output begins.
  static double LossScale(const JobRun::Output& output) {
    for (const auto& [worker, message] : output.messages) {
      if (message.has_step_begin()) return message.step_begin().loss_scale();
    }
    return 0;
  }
  static std::string Kinds(const JobRun::Output& output) {
    return absl::StrJoin(
        output.messages, " ", [](std::string* out, const auto& entry) {
          absl::StrAppend(out, entry.first, ":", KindOf(entry.second));
        });
  }
  static void ExpectBroken(const JobRun::Output& output, int culprit,
                           const std::string& words) {
    EXPECT_EQ(output.status.code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(absl::StrContains(output.status.message(), words))
        << output.status;
    EXPECT_EQ(output.culprit, culprit);
  }

  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<JobRun> run_;
};

// The same job, but its split is chosen by what a worker measures.
class ProvisionalRunTest : public JobRunTest {
 protected:
  ProvisionalRunTest() {
    job_.pipeline.split.clear();
    auto planned = PlanForWorkers(job_, nullptr, job::PlanJob);
    EXPECT_TRUE(planned.ok()) << planned.status();
    EXPECT_TRUE(planned->plan.provisional);
    const std::vector<JobRun::Member> members = run_->members();
    run_ = std::make_unique<JobRun>(
        "job-1", Epoch(1), TinySpec(2),
        std::make_shared<const PlannedJob>(*std::move(planned)), members);
  }
  static v1::WorkerMessage Profiled(bool measured) {
    v1::WorkerMessage message;
    message.mutable_profiled();
    if (measured) {
      message.mutable_profiled()->mutable_profile()->set_copy_seconds(0.25);
    }
    return message;
  }
  std::shared_ptr<const PlannedJob> Replanned() {
    job::JobSpec spec = job_;
    spec.pipeline.split = {7, 1};
    auto planned = PlanForWorkers(spec, nullptr, job::PlanJob);
    EXPECT_TRUE(planned.ok()) << planned.status();
    return std::make_shared<const PlannedJob>(*std::move(planned));
  }

  job::JobSpec job_ = TinyJob(2);
};

TEST_F(ProvisionalRunTest, OneMeasuresThenAllAreAssignedTheNewPlan) {
  const JobRun::Output started = run_->Start();
  EXPECT_EQ(run_->phase(), Phase::kProfiling);
  ASSERT_EQ(started.messages.size(), size_t{2});
  EXPECT_TRUE(started.messages[0].second.profile().measure());
  EXPECT_FALSE(started.messages[1].second.profile().measure());
  EXPECT_FALSE(Say(1, Profiled(false)).profile.has_value());
  const JobRun::Output measured = Say(0, Profiled(true));
  ASSERT_TRUE(measured.status.ok()) << measured.status;
  ASSERT_TRUE(measured.profile.has_value());
  EXPECT_EQ(measured.profile->copy_seconds(), 0.25);
  EXPECT_TRUE(measured.messages.empty());
  const JobRun::Output assigned = run_->Assign(Replanned());
  EXPECT_EQ(Kinds(assigned), "0:assign 1:assign");
  EXPECT_EQ(assigned.messages[1].second.assign().stages(0).layer_begin(), 7);
  EXPECT_EQ(run_->phase(), Phase::kAssigning);
}

TEST_F(ProvisionalRunTest, AProfileFromTheWrongWorkerBreaksTheProtocol) {
  run_->Start();
  ExpectBroken(Say(1, Profiled(true)), 1, "though it was not to");
  ExpectBroken(Say(0, Profiled(false)), 0, "was to measure");
}

TEST_F(ProvisionalRunTest, APlanThatComesTooLateChangesNothing) {
  run_->Start();
  Say(1, Profiled(false));
  Say(0, Profiled(true));
  EXPECT_EQ(Kinds(run_->Release("cancelled", false)), "0:abort 1:abort");
  EXPECT_TRUE(run_->Assign(Replanned()).messages.empty());
  EXPECT_EQ(run_->phase(), Phase::kReleasing);
}

std::shared_ptr<const PlannedJob> Gpipe() {
  job::JobSpec spec = TinyJob(2);
  spec.pipeline.schedule = "gpipe";
  auto planned = PlanForWorkers(spec, nullptr, job::PlanJob);
  EXPECT_TRUE(planned.ok()) << planned.status();
  return std::make_shared<const PlannedJob>(*std::move(planned));
}

TEST_F(JobRunTest, AnotherScheduleIsTakenOnceTheStepIsAppliedEverywhere) {
  ToStepping();
  run_->Reschedule(Gpipe());
  Say(0, Prepared(0, false));
  EXPECT_EQ(Kinds(Say(1, Prepared(0, true))), "0:commit 1:commit");
  EXPECT_EQ(Kinds(Say(0, Applied(0))), "");
  const JobRun::Output changed = Say(1, Applied(0));
  ASSERT_EQ(Kinds(changed), "0:reschedule 1:reschedule");
  EXPECT_EQ(changed.messages[0].second.reschedule().schedule().kind(), "gpipe");
  Say(0, Assigned(5));
  EXPECT_EQ(Kinds(Say(1, Assigned(6))), "0:connect 1:connect");
  Say(0, Connected({"0->1 activation: shm"}));
  const JobRun::Output connected = Say(1, Connected({"1->0 gradient: shm"}));
  EXPECT_EQ(Kinds(connected), "0:begin 1:begin");
  EXPECT_EQ(connected.messages[0].second.step_begin().step(), 1);
  ASSERT_EQ(connected.events.size(), size_t{1});
  const auto& event = std::get<JobRescheduled>(connected.events[0]);
  EXPECT_EQ(event.schedule, "gpipe");
  EXPECT_EQ(event.transport, "shm");
  EXPECT_EQ(event.receive_pool_bytes, (std::vector<int64_t>{5, 6}));
  Step(1);
  EXPECT_EQ(Kinds(Say(1, Applied(1))), "0:finish 1:finish");
}

TEST_F(JobRunTest, AScheduleThatComesInTheLastStepIsNotTaken) {
  ToStepping();
  Step(0);
  Say(1, Applied(0));
  run_->Reschedule(Gpipe());
  Step(1);
  EXPECT_EQ(Kinds(Say(1, Applied(1))), "0:finish 1:finish");
}

TEST_F(JobRunTest, EvaluationsComeBeforeStepsAndAfterTheLast) {
  job::JobSpec spec = TinyJob(2);
  spec.evaluation.path = "/held-out.txt";
  spec.evaluation.every_steps = 2;
  spec.evaluation.microbatches = 1;
  auto planned = PlanForWorkers(spec, nullptr, job::PlanJob);
  ASSERT_TRUE(planned.ok()) << planned.status();
  const std::vector<JobRun::Member> members = run_->members();
  run_ = std::make_unique<JobRun>(
      "job-1", Epoch(1), TinySpec(2),
      std::make_shared<const PlannedJob>(*std::move(planned)), members);
  const JobRun::Output started = run_->Start();
  EXPECT_EQ(started.messages[0].second.assign().evaluation().kind(),
            "forward-only");
  Say(0, Assigned());
  Say(1, Assigned());
  Say(0, Connected({}));
  JobRun::Output output = Say(1, Connected({}));
  EXPECT_TRUE(output.messages[0].second.step_begin().evaluate());
  v1::WorkerMessage evaluated = Prepared(0, true);
  evaluated.mutable_prepared()->add_evaluation_losses()->set_loss_sum(24);
  Say(0, Prepared(0, false));
  output = Say(1, evaluated);
  ASSERT_TRUE(output.status.ok()) << output.status;
  // 2 samples of 4 tokens.
  EXPECT_EQ(std::get<StepCommitted>(output.events[0]).result.evaluation_loss,
            3.0);
  EXPECT_FALSE(output.messages.back().second.step_begin().evaluate());
  Say(0, Applied(0));
  Say(1, Applied(0));
  Step(1);
  output = Say(1, Applied(1));
  EXPECT_TRUE(output.messages[0].second.finish().evaluate());
  Say(0, Finished({"a"}));
  v1::WorkerMessage last = Finished({"b"});
  last.mutable_finished()->add_evaluation_losses()->set_loss_sum(16);
  output = Say(1, last);
  ASSERT_TRUE(output.status.ok()) << output.status;
  EXPECT_EQ(std::get<JobSucceeded>(output.events.back()).evaluation_loss, 2.0);
}

TEST_F(JobRunTest, AssignTellsEachWorkerItsPart) {
  const JobRun::Output output = run_->Start();
  EXPECT_EQ(Kinds(output), "0:assign 1:assign");
  const v1::Assign& assign = output.messages[1].second.assign();
  EXPECT_EQ(assign.job_id(), "job-1");
  EXPECT_EQ(assign.worker_index(), 1);
  ASSERT_EQ(assign.stages_size(), 1);
  EXPECT_EQ(assign.stages(0).stage(), 1);
  EXPECT_EQ(assign.stages(0).layer_begin(), 4);
  EXPECT_EQ(assign.stages(0).layer_end(), 8);
  ASSERT_EQ(assign.peers_size(), 2);
  EXPECT_EQ(assign.peers(0).worker(), "a");
  EXPECT_EQ(assign.peers(0).incarnation(), 10u);
  EXPECT_EQ(assign.peers(0).peer_address(), "127.0.0.1:1");
  EXPECT_EQ(assign.slot_bytes(), 2 * 4 * 8 * 4);
  EXPECT_EQ(assign.schedule_id(), run_->planned().schedule_id);
  EXPECT_EQ(assign.schedule().workers(), 2);
  EXPECT_EQ(assign.spec().name(), "tiny");
}

TEST_F(JobRunTest, WaitsForAllBeforeItConnectsAndBegins) {
  run_->Start();
  EXPECT_EQ(Kinds(Say(1, Assigned(200))), "");
  EXPECT_EQ(Kinds(Say(0, Assigned(100))), "0:connect 1:connect");
  EXPECT_EQ(Kinds(Say(0, Connected({"0->1 activation: shm"}))), "");
  const JobRun::Output output = Say(1, Connected({"1->0 gradient: shm"}));
  EXPECT_EQ(Kinds(output), "0:begin 1:begin");
  ASSERT_EQ(output.events.size(), 1u);
  const auto& running = std::get<JobRunning>(output.events[0]);
  EXPECT_EQ(running.transport, "shm");
  EXPECT_EQ(running.receive_pool_bytes, std::vector<int64_t>({100, 200}));
  const v1::StepBegin& begin = output.messages[0].second.step_begin();
  EXPECT_EQ(begin.step(), 0);
  EXPECT_EQ(begin.target_tokens(), 2 * 2 * 4);
}

TEST_F(JobRunTest, TransportNamesEveryPathTaken) {
  run_->Start();
  Say(0, Assigned());
  Say(1, Assigned());
  Say(0, Connected({"gradient 1->0: tcp (shm: the peer runs elsewhere)"}));
  const JobRun::Output output =
      Say(1, Connected({"activation 0->1: shm (same host)"}));
  const auto running = std::get<JobRunning>(output.events[0]);
  EXPECT_EQ(running.transport, "shm+tcp");
  EXPECT_EQ(running.edges,
            (std::vector<std::string>{
                "activation 0->1: shm (same host)",
                "gradient 1->0: tcp (shm: the peer runs elsewhere)"}));
}

TEST_F(JobRunTest, CommitAndTheNextBeginGoBackToBack) {
  ToStepping();
  EXPECT_EQ(Kinds(Say(1, Prepared(0, true))), "");
  const JobRun::Output output = Say(0, Prepared(0, false));
  EXPECT_EQ(Kinds(output), "0:commit+begin 1:commit+begin");
  ASSERT_EQ(output.events.size(), 1u);
  const StepRecord& result = std::get<StepCommitted>(output.events[0]).result;
  EXPECT_EQ(result.step, 0);
  EXPECT_EQ(result.loss, 1.0);
  EXPECT_DOUBLE_EQ(result.seconds, 0.02);
  EXPECT_DOUBLE_EQ(result.tokens_per_second, 16 / 0.02);
  const v1::StepBegin& begin = output.messages[0].second.step_begin();
  EXPECT_EQ(begin.outcome().step(), 0);
  EXPECT_EQ(begin.step(), 1);
}

TEST_F(JobRunTest, FinishesOnlyWhenTheLastStepIsAppliedEverywhere) {
  ToStepping();
  Step(0);
  Say(1, Applied(0));
  Say(0, Prepared(1, false));
  EXPECT_EQ(Kinds(Say(1, Prepared(1, true))), "0:commit 1:commit");
  EXPECT_EQ(Kinds(Say(0, Applied(1))), "");
  EXPECT_EQ(Kinds(Say(1, Applied(1))), "0:finish 1:finish");
}

TEST_F(JobRunTest, SucceedsWithParametersInTheOrderOfTheirNames) {
  ToStepping();
  for (int64_t step : {0, 1}) {
    Step(step);
    Say(1, Applied(step));
  }
  JobRun::Output output = Say(1, Finished({"z", "m"}));
  ASSERT_EQ(output.events.size(), 1u);
  EXPECT_EQ(std::get<WorkerReleased>(output.events[0]).worker, "b");
  EXPECT_EQ(run_->holding(), std::set<int>({0}));
  output = Say(0, Finished({"a"}));
  ASSERT_EQ(output.events.size(), 2u);
  const auto& succeeded = std::get<JobSucceeded>(output.events[1]);
  ASSERT_EQ(succeeded.parameters.size(), 3u);
  EXPECT_EQ(succeeded.parameters[0].name(), "a");
  EXPECT_EQ(succeeded.parameters[2].name(), "z");
  Sha256 hash;
  for (const char* name : {"a", "m", "z"}) {
    hash.Update(absl::StrCat(name, std::string(1, '\0'), "float32",
                             std::string(1, '\0'), "2,3", std::string(1, '\0'),
                             "hash of ", name, "\n"));
  }
  EXPECT_EQ(succeeded.parameters_sha256, hash.FinishHex());
}

TEST_F(JobRunTest, AParameterOfTwoWorkersIsAnErrorAfterBothLetGo) {
  ToStepping();
  for (int64_t step : {0, 1}) {
    Step(step);
    Say(1, Applied(step));
  }
  Say(0, Finished({"wte"}));
  const JobRun::Output output = Say(1, Finished({"wte"}));
  ExpectBroken(output, 1, "parameter wte");
  ASSERT_EQ(output.events.size(), 1u);
  EXPECT_EQ(std::get<WorkerReleased>(output.events[0]).worker, "b");
  EXPECT_TRUE(run_->holding().empty());
}

// Two workers, five steps, a checkpoint after every second and after the last.
class JobRunCheckpointTest : public JobRunTest {
 protected:
  void Begin(int64_t first_step) {
    job::JobSpec spec = TinyJob(2, /*steps=*/5);
    spec.checkpoint.directory = "/checkpoints";
    spec.checkpoint.every_steps = 2;
    auto planned = PlanForWorkers(spec, /*profile=*/nullptr, job::PlanJob);
    ASSERT_TRUE(planned.ok()) << planned.status();
    planned->first_step = first_step;
    if (first_step > 0) planned->checkpoint = "/checkpoints/step";
    std::vector<JobRun::Member> members(2);
    members[0].name = "a";
    members[1].name = "b";
    run_ = std::make_unique<JobRun>(
        "job-1", Epoch(1), TinySpec(2),
        std::make_shared<const PlannedJob>(*std::move(planned)),
        std::move(members));
  }
  // Prepares and applies a step; what followed its commit.
  std::string Run(int64_t step) {
    Say(0, Prepared(step, false));
    const JobRun::Output output = Say(1, Prepared(step, true));
    EXPECT_TRUE(output.status.ok()) << output.status;
    for (int worker : {0, 1}) {
      const JobRun::Output applied = Say(worker, Applied(step));
      EXPECT_TRUE(applied.status.ok()) << applied.status;
      EXPECT_EQ(Kinds(applied), "");
    }
    const std::string kinds = Kinds(output);
    if (kinds == "0:commit+begin 1:commit+begin") return " 0:begin 1:begin";
    EXPECT_TRUE(absl::StartsWith(kinds, "0:commit 1:commit")) << kinds;
    return std::string(absl::StripPrefix(kinds, "0:commit 1:commit"));
  }
  static v1::WorkerMessage Written(int64_t step, const std::string& file,
                                   const std::string& error = "") {
    v1::WorkerMessage message;
    v1::CheckpointWritten* written = message.mutable_checkpoint_written();
    written->set_step(step);
    if (!file.empty()) written->add_files()->set_name(file);
    written->set_error(error);
    return message;
  }
  static v1::WorkerMessage Sealed(int64_t step, const std::string& error = "") {
    v1::WorkerMessage message;
    v1::CheckpointSealed* sealed = message.mutable_checkpoint_sealed();
    sealed->set_step(step);
    if (error.empty()) sealed->set_path("/checkpoints/step");
    sealed->set_error(error);
    return message;
  }
  void Store(int64_t step) {
    EXPECT_EQ(Kinds(Say(1, Written(step, "one"))), "");
    EXPECT_EQ(Kinds(Say(0, Written(step, "zero"))), "0:seal");
  }
};

TEST_F(JobRunCheckpointTest,
       WritesBehindTheNextStepAndSealsWhenAllHaveWritten) {
  Begin(0);
  ToStepping();
  EXPECT_EQ(Run(0), " 0:begin 1:begin");
  EXPECT_EQ(Run(1), " 0:write 1:write 0:begin 1:begin");
  // Step 2 is computed meanwhile.
  EXPECT_EQ(Kinds(Say(0, Prepared(2, false))), "");
  EXPECT_EQ(Kinds(Say(1, Written(2, "one"))), "");
  const JobRun::Output seal = Say(0, Written(2, "zero"));
  EXPECT_EQ(Kinds(seal), "0:seal");
  const v1::SealCheckpoint& message = seal.messages[0].second.seal_checkpoint();
  EXPECT_EQ(message.step(), 2);
  ASSERT_EQ(message.files_size(), 2);
  EXPECT_EQ(message.files(0).name(), "one");
  const JobRun::Output stored = Say(0, Sealed(2));
  EXPECT_EQ(Kinds(stored), "");
  ASSERT_EQ(stored.events.size(), 1u);
  const auto& event = std::get<CheckpointStored>(stored.events[0]);
  EXPECT_EQ(event.step, 2);
  EXPECT_EQ(event.path, "/checkpoints/step");
  EXPECT_EQ(Kinds(Say(1, Prepared(2, true))), "0:commit+begin 1:commit+begin");
}

// Steps 0 and 1 are at stake, and step 2 would be the third.
TEST_F(JobRunCheckpointTest, NoMoreThanEveryStepsAreAtStake) {
  Begin(0);
  ToStepping();
  Run(0);
  Run(1);
  EXPECT_EQ(Kinds(Say(0, Prepared(2, false))), "");
  EXPECT_EQ(Kinds(Say(1, Prepared(2, true))), "") << "checkpoint 2 is written";
  Store(2);
  const JobRun::Output output = Say(0, Sealed(2));
  EXPECT_EQ(Kinds(output), "0:commit+begin 1:commit+begin");
  ASSERT_EQ(output.events.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<CheckpointStored>(output.events[0]));
  EXPECT_EQ(std::get<StepCommitted>(output.events[1]).result.step, 2);
  for (int worker : {0, 1}) EXPECT_EQ(Kinds(Say(worker, Applied(2))), "");
  EXPECT_EQ(Run(3), " 0:write 1:write 0:begin 1:begin");
  Say(0, Prepared(4, false));
  EXPECT_EQ(Kinds(Say(1, Prepared(4, true))), "");
  Store(4);
  EXPECT_EQ(Kinds(Say(0, Sealed(4))), "0:commit 1:commit 0:write 1:write");
  for (int worker : {0, 1}) EXPECT_EQ(Kinds(Say(worker, Applied(4))), "");
  Store(5);
  EXPECT_EQ(Kinds(Say(0, Sealed(5))), "0:finish 1:finish");
}

TEST_F(JobRunCheckpointTest, OneThatWasAskedForPutsFewerStepsAtStake) {
  Begin(0);
  ToStepping();
  EXPECT_EQ(*run_->RequestCheckpoint(), 1);
  EXPECT_EQ(Run(0), " 0:write 1:write 0:begin 1:begin");
  Store(1);
  EXPECT_EQ(Kinds(Say(0, Sealed(1))), "");
  EXPECT_EQ(Run(1), " 0:write 1:write 0:begin 1:begin");
  // Steps 1 and 2.
  EXPECT_EQ(Run(2), " 0:begin 1:begin");
  Say(0, Prepared(3, false));
  EXPECT_EQ(Kinds(Say(1, Prepared(3, true))), "");
}

TEST_F(JobRunCheckpointTest, AFailedOneIsDiscardedAndTheJobGoesOn) {
  Begin(0);
  ToStepping();
  Run(0);
  Run(1);
  Say(0, Written(2, "", "disk full"));
  EXPECT_EQ(Kinds(Say(1, Written(2, "one"))), "0:discard");
  JobRun::Output output = Say(0, Sealed(2));
  EXPECT_TRUE(output.status.ok()) << output.status;
  ASSERT_EQ(output.events.size(), 1u);
  EXPECT_EQ(std::get<CheckpointFailed>(output.events[0]).message,
            "worker a: disk full");
  Run(2);
  EXPECT_EQ(Run(3), " 0:write 1:write 0:begin 1:begin");
  Store(4);
  output = Say(0, Sealed(4, "no space"));
  EXPECT_EQ(std::get<CheckpointFailed>(output.events[0]).message,
            "worker a: no space");
}

TEST_F(JobRunCheckpointTest, WithoutItsLastCheckpointAJobFails) {
  Begin(4);
  ToStepping();
  EXPECT_EQ(Run(4), " 0:write 1:write");
  Say(0, Written(5, "zero"));
  Say(1, Written(5, "", "disk full"));
  const JobRun::Output output = Say(0, Sealed(5));
  EXPECT_TRUE(absl::IsResourceExhausted(output.status)) << output.status;
  EXPECT_EQ(output.culprit, 1);
  EXPECT_EQ(Kinds(output), "");
}

TEST_F(JobRunCheckpointTest, AResumedJobBeginsWithItsStep) {
  Begin(2);
  EXPECT_EQ(run_->Start().messages[0].second.assign().checkpoint(),
            "/checkpoints/step");
  Say(0, Assigned());
  Say(1, Assigned());
  Say(0, Connected({}));
  const JobRun::Output output = Say(1, Connected({}));
  EXPECT_EQ(output.messages[0].second.step_begin().step(), 2);
  EXPECT_EQ(Run(2), " 0:begin 1:begin");
}

TEST_F(JobRunCheckpointTest, AJobResumedAtItsEndOnlyFinishes) {
  Begin(5);
  run_->Start();
  Say(0, Assigned());
  Say(1, Assigned());
  Say(0, Connected({}));
  EXPECT_EQ(Kinds(Say(1, Connected({}))), "0:finish 1:finish");
}

TEST_F(JobRunCheckpointTest, OneMayBeAskedFor) {
  Begin(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(run_->RequestCheckpoint().status()));
  ToStepping();
  EXPECT_EQ(*run_->RequestCheckpoint(), 1);
  EXPECT_EQ(Run(0), " 0:write 1:write 0:begin 1:begin");
  EXPECT_EQ(Run(1), "") << "due by itself, and one is under way";
  EXPECT_EQ(*run_->RequestCheckpoint(), 2);
  Store(1);
  EXPECT_EQ(Kinds(Say(0, Sealed(1))), "0:write 1:write 0:begin 1:begin");
}

TEST_F(JobRunCheckpointTest, AnotherScheduleComesBehindTheCopyOfItsBoundary) {
  Begin(0);
  ToStepping();
  Run(0);
  run_->Reschedule(std::make_shared<const PlannedJob>(run_->planned()));
  Say(0, Prepared(1, false));
  EXPECT_EQ(Kinds(Say(1, Prepared(1, true))),
            "0:commit 1:commit 0:write 1:write");
  EXPECT_EQ(Kinds(Say(0, Applied(1))), "");
  EXPECT_EQ(Kinds(Say(1, Applied(1))), "0:reschedule 1:reschedule");
  // The files do not wait for the edges.
  EXPECT_EQ(Kinds(Say(0, Written(2, "zero"))), "");
  Say(0, Assigned());
  EXPECT_EQ(Kinds(Say(1, Written(2, "one"))), "0:seal");
  Say(1, Assigned());
  EXPECT_EQ(Say(0, Sealed(2)).events.size(), 1u);
  Say(0, Connected({}));
  EXPECT_EQ(Kinds(Say(1, Connected({}))), "0:begin 1:begin");
}

TEST_F(JobRunCheckpointTest, AnotherScheduleWaitsForAHeldBoundary) {
  Begin(0);
  ToStepping();
  EXPECT_EQ(*run_->RequestCheckpoint(), 1);
  Run(0);
  run_->Reschedule(std::make_shared<const PlannedJob>(run_->planned()));
  EXPECT_EQ(Run(1), "") << "the checkpoint of step 1 is under way";
  Store(1);
  EXPECT_EQ(Kinds(Say(0, Sealed(1))),
            "0:write 1:write 0:reschedule 1:reschedule");
}

TEST_F(JobRunCheckpointTest, AnswersOfAnotherAttemptChangeNothing) {
  Begin(0);
  ToStepping();
  Run(0);
  for (const v1::WorkerMessage& message :
       {Written(2, "x"), Sealed(2), Written(1, "x")}) {
    const JobRun::Output output = Say(0, message);
    EXPECT_TRUE(output.status.ok());
    EXPECT_TRUE(output.events.empty());
    EXPECT_EQ(Kinds(output), "");
  }
  Run(1);
  EXPECT_TRUE(Say(0, Sealed(2)).events.empty()) << "not all have written";
  Say(0, Written(2, "zero"));
  ExpectBroken(Say(0, Written(2, "zero")), 0, "twice");
}

// What a draining worker has is with its neighbour before the job moves.
TEST_F(JobRunTest, AJobMovesAtAStepBoundaryOnceAllHaveCopied) {
  EXPECT_TRUE(absl::IsFailedPrecondition(run_->Drain()));
  ToStepping();
  EXPECT_TRUE(run_->Drain().ok());
  Say(0, Prepared(0, false));
  const JobRun::Output output = Say(1, Prepared(0, true));
  EXPECT_EQ(Kinds(output), "0:commit 1:commit 0:copy 1:copy");
  EXPECT_EQ(output.messages[2].second.copy_state().step(), 1);
  EXPECT_FALSE(output.may_move);
  for (int worker : {0, 1}) {
    EXPECT_EQ(Kinds(Say(worker, Applied(0))), "") << "no step begins";
  }
  v1::WorkerMessage copied;
  copied.mutable_state_copied()->set_step(1);
  EXPECT_FALSE(Say(1, copied).may_move);
  EXPECT_TRUE(Say(0, copied).may_move);
}

// Two workers that keep each other's copies, five steps.
class JobRunCopiesTest : public JobRunTest {
 protected:
  void Begin(int64_t first_step, bool sources = true) {
    job::JobSpec spec = TinyJob(2, /*steps=*/5);
    spec.recovery.neighbour_copy = true;
    auto planned = PlanForWorkers(spec, /*profile=*/nullptr, job::PlanJob);
    ASSERT_TRUE(planned.ok()) << planned.status();
    planned->first_step = first_step;
    if (sources) planned->sources = Sources();
    std::vector<JobRun::Member> members(2);
    members[0].name = "a";
    members[1].name = "b";
    run_ = std::make_unique<JobRun>(
        "job-1", Epoch(1), TinySpec(2),
        std::make_shared<const PlannedJob>(*std::move(planned)),
        std::move(members));
  }
  static std::vector<v1::StateSource> Sources() {
    std::vector<v1::StateSource> sources(2);
    for (int stage : {0, 1}) {
      sources[static_cast<size_t>(stage)].set_stage(stage);
      sources[static_cast<size_t>(stage)].mutable_keeper()->set_worker("c");
    }
    return sources;
  }
  static v1::WorkerMessage Copied(int64_t step) {
    v1::WorkerMessage message;
    message.mutable_state_copied()->set_step(step);
    return message;
  }
};

TEST_F(JobRunCopiesTest, NoStepIsCommittedBeforeItsBeginningIsCopied) {
  Begin(0, /*sources=*/false);
  ToStepping();
  Say(0, Copied(0));
  Say(0, Prepared(0, false));
  EXPECT_EQ(Kinds(Say(1, Prepared(0, true))), "") << "b has no copy yet";
  EXPECT_EQ(Kinds(Say(1, Copied(0))), "0:commit+begin 1:commit+begin");
  for (int worker : {0, 1}) Say(worker, Applied(0));
  // The next one, copied sooner than computed.
  for (int worker : {0, 1}) EXPECT_EQ(Kinds(Say(worker, Copied(1))), "");
  Say(0, Prepared(1, false));
  EXPECT_EQ(Kinds(Say(1, Prepared(1, true))), "0:commit+begin 1:commit+begin");
}

TEST_F(JobRunCopiesTest, APlacementBeginsWithTheCopiesItIsGiven) {
  Begin(3);
  const JobRun::Output output = run_->Start();
  ASSERT_EQ(output.messages.size(), 2u);
  for (const auto& [worker, message] : output.messages) {
    EXPECT_EQ(message.assign().restore().step(), 3);
    ASSERT_EQ(message.assign().restore().sources_size(), 2);
    EXPECT_EQ(message.assign().restore().sources(1).stage(), 1);
    EXPECT_EQ(message.assign().restore().sources(1).keeper().worker(), "c");
    EXPECT_EQ(message.assign().checkpoint(), "");
  }
}

TEST_F(JobRunCopiesTest, OnlyThoseWhoWillBePlacedAgainKeepThem) {
  for (const bool keep : {true, false}) {
    Begin(0, /*sources=*/false);
    ToStepping();
    const JobRun::Output output = run_->Release("over", keep);
    ASSERT_EQ(output.messages.size(), 2u);
    EXPECT_EQ(output.messages[0].second.abort().keep_states(), keep);
  }
}

TEST_F(JobRunCopiesTest, TakenOverBeforeTheyWereToldWorkersAreToldAgain) {
  for (const bool found : {true, false}) {
    Begin(3, /*sources=*/false);
    JobRun::Recorded recorded;
    recorded.steps = 3;
    recorded.holding = {true, true};
    recorded.finished = {false, false};
    recorded.parameters.resize(2);
    recorded.evaluation_losses.resize(2);
    run_->TakeOver(recorded);
    EXPECT_TRUE(run_->NeedsSources());
    if (found) run_->SetSources(Sources());
    v1::WorkerMessage nothing;
    nothing.mutable_resumed()->set_state(v1::PLACEMENT_STATE_NOTHING);
    Say(0, nothing);
    const JobRun::Output output = Say(1, nothing);
    EXPECT_EQ(output.status.ok(), found) << output.status;
    EXPECT_EQ(Kinds(output), found ? "0:assign 1:assign" : "");
    if (found) {
      EXPECT_EQ(output.messages[0].second.assign().restore().step(), 3);
    }
  }
}

TEST_F(JobRunTest, WithoutADirectoryNothingIsWritten) {
  ToStepping();
  const absl::Status status = run_->RequestCheckpoint().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "checkpoint.directory"));
}

TEST_F(JobRunTest, AnswersOutOfTurnAreErrors) {
  run_->Start();
  ExpectBroken(Say(0, Connected({})), 0, "Connected while stages are being");
  Say(0, Assigned());
  ExpectBroken(Say(0, Assigned()), 0, "Assigned twice");
  ExpectBroken(Say(1, Prepared(0, true)), 1, "Prepared of step 0");
  ExpectBroken(Say(1, Applied(0)), 1, "applied step 0");
  ExpectBroken(Say(1, Finished({})), 1, "Finished while");
  ExpectBroken(Say(1, v1::WorkerMessage()), 1, "no answer");
}

TEST_F(JobRunTest, StepsOutOfOrderAreErrors) {
  ToStepping();
  ExpectBroken(Say(0, Prepared(1, false)), 0, "Prepared of step 1");
  ExpectBroken(Say(0, Applied(0)), 0, "applied step 0");
  Say(0, Prepared(0, false));
  ExpectBroken(Say(0, Prepared(0, false)), 0, "Prepared twice");
  Say(1, Prepared(0, true));
  EXPECT_TRUE(Say(0, Applied(0)).status.ok());
  ExpectBroken(Say(0, Applied(0)), 0, "applied step 0 after 1");
  EXPECT_TRUE(Say(0, Prepared(1, false)).status.ok());
  ExpectBroken(Say(0, Applied(1)), 0, "applied step 1 after 1");
  // Who has prepared a step has applied the one before, said or not.
  EXPECT_TRUE(Say(1, Prepared(1, true)).status.ok());
  ExpectBroken(Say(1, Applied(0)), 1, "applied step 0 after 1");
}

TEST_F(JobRunTest, WhoeverReportsNonsenseIsTheCulprit) {
  ToStepping();
  Say(0, Prepared(0, true));  // losses from the first stage, too
  const JobRun::Output output = Say(1, Prepared(0, true));
  ExpectBroken(output, 1, "microbatch 0");
  EXPECT_TRUE(output.messages.empty());
}

TEST_F(JobRunTest, AbortGoesToThoseWhoStillHoldSomething) {
  ToStepping();
  run_->OnGone(0);
  EXPECT_EQ(Kinds(run_->Release("enough", false)), "1:abort");
  const JobRun::Output late = Say(1, Prepared(0, true));
  EXPECT_TRUE(late.status.ok());
  EXPECT_TRUE(late.events.empty());
  const JobRun::Output output = Say(1, Released());
  ASSERT_EQ(output.events.size(), 1u);
  EXPECT_FALSE(std::get<WorkerReleased>(output.events[0]).memory.has_value());
  EXPECT_TRUE(run_->holding().empty());
  EXPECT_TRUE(Say(1, Released()).events.empty());
}

TEST_F(JobRunTest, LettingGoUnaskedIsAnError) {
  ToStepping();
  const JobRun::Output output = Say(1, Released());
  ExpectBroken(output, 1, "without being told");
  EXPECT_EQ(output.events.size(), 1u);
}

// It follows from the outcomes of the steps, whoever saw them.
TEST_F(JobRunTest, TellsEachStepTheScaleOfItsLoss) {
  job::JobSpec spec = TinyJob(2, /*steps=*/4);
  spec.training.precision = job::Precision::kFloat16;
  spec.training.initial_loss_scale = 8;
  spec.training.loss_scale_growth_steps = 2;
  Make(spec);
  ToStepping();
  v1::WorkerMessage overflow = Prepared(0, false);
  overflow.mutable_prepared()->set_all_finite(false);
  Say(0, overflow);
  const JobRun::Output skipped = Say(1, Prepared(0, true));
  EXPECT_EQ(LossScale(skipped), 4);
  std::vector<StepRecord> steps = {
      std::get<StepCommitted>(skipped.events[0]).result};
  EXPECT_TRUE(steps[0].skipped);
  for (const double scale : {4.0, 8.0}) {
    const int64_t step = static_cast<int64_t>(steps.size());
    Say(0, Applied(step - 1));
    Say(1, Applied(step - 1));
    Say(0, Prepared(step, false));
    const JobRun::Output committed = Say(1, Prepared(step, true));
    EXPECT_EQ(LossScale(committed), scale) << step;
    steps.push_back(std::get<StepCommitted>(committed.events[0]).result);
  }
  Make(spec);
  run_->RestoreLossScale(/*first=*/std::nullopt, steps);
  run_->Start();
  Say(0, Assigned());
  Say(1, Assigned());
  Say(0, Connected({"0->1 activation: shm"}));
  EXPECT_EQ(LossScale(Say(1, Connected({"1->0 gradient: shm"}))), 8);
  // And of those before, that a checkpoint knows of.
  v1::LossScaleState first;
  first.set_value(64);
  first.set_good_steps(1);
  spec.checkpoint.directory = "/checkpoints";
  spec.checkpoint.every_steps = 1;
  Make(spec);
  run_->RestoreLossScale(first, {});
  ToStepping();
  Say(0, Prepared(0, false));
  const JobRun::Output write = Say(1, Prepared(0, true));
  Say(0, Applied(0));
  const JobRun::Output told = Say(1, Applied(0));
  double scale = 0;
  for (const JobRun::Output* output : {&write, &told}) {
    for (const auto& [worker, message] : output->messages) {
      if (!message.has_write_checkpoint()) continue;
      scale = message.write_checkpoint().loss_scale().value();
      EXPECT_EQ(message.write_checkpoint().loss_scale().good_steps(), 0);
    }
  }
  EXPECT_EQ(scale, 128);
}

}  // namespace
}  // namespace stagecoach::coordinator

#include "coordinator/publish.h"

#include "coordinator/test_spec.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

JobRecord TwoWorkerJob() {
  JobRecord job;
  job.id = "job-1";
  job.spec = TinySpec(2);
  job.planned = true;
  job.schedule = "1f1b";
  job.stages.resize(2);
  job.stages[0].output_bytes = 64;
  job.stages[0].layer_end = 4;
  job.stages[1].layer_begin = 4;
  job.stages[1].layer_end = 8;
  job.stages[1].worker = 1;
  job.workers.resize(2);
  job.workers[0].name = "w0";
  job.workers[1].name = "w1";
  job.state = JobState::kRunning;
  job.transport = "shm";
  job.epoch = Epoch(3);
  job.placed = absl::UnixEpoch();
  job.revision = 9;
  return job;
}

v1::Job Publish(const JobRecord& job, const JobView& view = JobView()) {
  v1::Job proto;
  ToProto(job, view, absl::UnixEpoch() + absl::Seconds(5), &proto);
  return proto;
}

TEST(PublishTest, EveryStateHasItsPublishedOne) {
  JobRecord job = TwoWorkerJob();
  for (JobState state : kAllJobStates) {
    job.state = state;
    EXPECT_NE(PublishedState(job), v1::JOB_STATE_UNSPECIFIED);
    if (state == JobState::kFailing) continue;
    EXPECT_EQ(v1::JobState_Name(PublishedState(job)),
              std::string("JOB_STATE_") + JobStateName(state));
  }
}

TEST(PublishTest, AFailingJobLooksAsBeforeUntilItHasFailed) {
  JobRecord job = TwoWorkerJob();
  job.cause.emplace();
  job.cause->worker = "w1";
  job.victims = {"w0"};
  job.state = JobState::kFailing;
  EXPECT_EQ(Publish(job).state(), v1::JOB_STATE_RUNNING);
  EXPECT_FALSE(Publish(job).has_cause());
  job.transport.clear();
  EXPECT_EQ(Publish(job).state(), v1::JOB_STATE_PLACING);
  job.state = JobState::kFailed;
  EXPECT_EQ(Publish(job).cause().worker(), "w1");
  EXPECT_EQ(Publish(job).cause().microbatch(), -1);
  EXPECT_EQ(Publish(job).victims(0), "w0");
}

TEST(PublishTest, IdleIsTheShareOfComputeTimeNotSpentComputing) {
  JobRecord job = TwoWorkerJob();
  EXPECT_EQ(Publish(job).workers(0).idle_ratio(), 0);
  for (int i = 0; i < 2; ++i) {
    StepRecord step;
    step.step = i;
    step.compute_seconds = 2;
    job.steps.push_back(step);
  }
  job.workers[0].busy_nanoseconds = 3'000'000'000;
  job.workers[1].busy_nanoseconds = 4'000'000'001;
  EXPECT_DOUBLE_EQ(Publish(job).workers(0).idle_ratio(), 0.25);
  EXPECT_EQ(Publish(job).workers(1).idle_ratio(), 0);
}

TEST(PublishTest, MemoryGoesToItsStageAndWorker) {
  JobRecord job = TwoWorkerJob();
  v1::WorkerMemory memory;
  memory.mutable_allocated_bytes()->set_peak(1000);
  memory.set_outputs_held_peak_bytes(128);
  memory.add_stages()->set_stage(0);
  memory.mutable_stages(0)->set_released_bytes(512);
  job.workers[0].memory = memory;
  job.workers[0].receive_pool_bytes = 77;
  JobView view;
  view.stages = true;
  const v1::Job proto = Publish(job, view);
  EXPECT_EQ(proto.workers(0).measured_peak_bytes(), 1000);
  EXPECT_EQ(proto.workers(0).outputs_held_peak_bytes(), 128);
  EXPECT_EQ(proto.workers(0).receive_pool_bytes(), 77);
  ASSERT_EQ(proto.workers(1).stages_size(), 1);
  EXPECT_EQ(proto.workers(1).stages(0), 1);
  ASSERT_EQ(proto.stages_size(), 2);
  EXPECT_EQ(proto.stages(0).memory().released_bytes(), 512);
  EXPECT_EQ(proto.stages(0).output_bytes(), 64);
  EXPECT_EQ(proto.stages(0).worker(), "w0");
  EXPECT_FALSE(proto.stages(1).has_memory());
  EXPECT_EQ(proto.stages(1).layer_begin(), 4);
}

TEST(PublishTest, ShowsNoMoreThanAskedFor) {
  JobRecord job = TwoWorkerJob();
  for (int i = 0; i < 5; ++i) {
    job.steps.emplace_back();
    job.steps.back().step = i;
  }
  job.parameters.resize(1);
  v1::Job proto = Publish(job);
  EXPECT_EQ(proto.steps_size() + proto.stages_size() + proto.parameters_size(),
            0);
  EXPECT_FALSE(proto.has_spec());
  JobView view;
  view.spec = view.parameters = true;
  view.first_step = 1;
  view.max_steps = 3;
  proto = Publish(job, view);
  ASSERT_EQ(proto.steps_size(), 3);
  EXPECT_EQ(proto.steps(0).step(), 1);
  EXPECT_EQ(proto.parameters_size(), 1);
  EXPECT_TRUE(proto.has_spec());
}

TEST(PublishTest, TimeRunsFromPlacementToTheEnd) {
  JobRecord job = TwoWorkerJob();
  EXPECT_EQ(Publish(job).total_seconds(), 5);
  job.state = JobState::kSucceeded;
  job.finished = absl::UnixEpoch() + absl::Seconds(3);
  EXPECT_EQ(Publish(job).total_seconds(), 3);
  job.epoch = Epoch();
  EXPECT_EQ(Publish(job).total_seconds(), 0);
}

TEST(PublishTest, BeforePlanningAndPlacingTheSpecsWordsAreShown) {
  JobRecord job;
  job.spec = TinySpec(2);
  const v1::Job proto = Publish(job);
  EXPECT_EQ(proto.schedule(), "1f1b");
  EXPECT_EQ(proto.transport(), "auto");
  EXPECT_EQ(proto.release(), "ack");
  EXPECT_EQ(proto.name(), "tiny");
}

TEST(PublishTest, FailureKindsSurviveTheRoundTrip) {
  for (FailureKind kind : {FailureKind::kInvalid, FailureKind::kWorkerLost,
                           FailureKind::kOutOfMemory, FailureKind::kInternal}) {
    EXPECT_EQ(FromProto(ToProto(kind)), kind);
  }
  EXPECT_EQ(FromProto(v1::FAILURE_KIND_UNSPECIFIED), FailureKind::kInternal);
}

TEST(PublishTest, WorkersStateIsTheGravest) {
  JobRecord job = TwoWorkerJob();
  WorkerRecord worker;
  worker.name = "w1";
  const auto state = [&] {
    v1::WorkerInfo info;
    ToProto(worker, &job, &info);
    return info.state();
  };
  EXPECT_EQ(state(), v1::WORKER_STATE_IDLE);
  worker.job_id = "job-1";
  EXPECT_EQ(state(), v1::WORKER_STATE_BUSY);
  worker.suspect = true;
  EXPECT_EQ(state(), v1::WORKER_STATE_SUSPECT);
  worker.dead = true;
  EXPECT_EQ(state(), v1::WORKER_STATE_DEAD);
  v1::WorkerInfo info;
  ToProto(worker, &job, &info);
  ASSERT_EQ(info.stages_size(), 1);
  EXPECT_EQ(info.stages(0), 1);
}

}  // namespace
}  // namespace stagecoach::coordinator

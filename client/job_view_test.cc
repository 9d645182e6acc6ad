#include "client/job_view.h"

#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

v1::Job Event(v1::JobState state, int64_t revision) {
  v1::Job job;
  job.set_id("j-1");
  job.set_state(state);
  job.set_revision(revision);
  return job;
}

void AddStep(int64_t step, double loss, v1::Job* job) {
  v1::StepResult* result = job->add_steps();
  result->set_step(step);
  result->set_loss(loss);
}

TEST(JobViewTest, CollectsStepsOfAllEvents) {
  JobView view;
  EXPECT_EQ(view.last_step(), -1);
  v1::Job event = Event(v1::JOB_STATE_RUNNING, 3);
  AddStep(0, 5.5, &event);
  view.Apply(event);
  event = Event(v1::JOB_STATE_SUCCEEDED, 7);
  AddStep(1, 5.25, &event);
  view.Apply(event);
  ASSERT_EQ(view.job().steps_size(), 2);
  EXPECT_EQ(view.job().steps(1).loss(), 5.25);
  EXPECT_EQ(view.last_step(), 1);
  EXPECT_EQ(view.revision(), 7);
  EXPECT_TRUE(view.finished());
}

TEST(JobViewTest, AStepThatComesAgainIsCountedOnce) {
  JobView view;
  v1::Job event = Event(v1::JOB_STATE_RUNNING, 3);
  AddStep(0, 5.5, &event);
  AddStep(1, 5.25, &event);
  view.Apply(event);
  event = Event(v1::JOB_STATE_RUNNING, 4);
  AddStep(1, 5.25, &event);
  AddStep(2, 5.0, &event);
  view.Apply(event);
  ASSERT_EQ(view.job().steps_size(), 3);
  EXPECT_EQ(view.job().steps(2).step(), 2);
}

TEST(JobViewTest, KeepsWhatLaterEventsLeaveOut) {
  JobView view;
  v1::Job event = Event(v1::JOB_STATE_RUNNING, 1);
  event.add_workers()->set_worker("w0");
  event.mutable_spec()->set_name("tiny");
  view.Apply(event);
  view.Apply(Event(v1::JOB_STATE_CANCELLING, 2));
  EXPECT_EQ(view.job().workers_size(), 1);
  EXPECT_EQ(view.job().spec().name(), "tiny");
  EXPECT_EQ(view.job().state(), v1::JOB_STATE_CANCELLING);
  EXPECT_FALSE(view.finished());
}

TEST(JobViewTest, TheLastEventReplacesWorkersAndBringsStages) {
  JobView view;
  v1::Job event = Event(v1::JOB_STATE_RUNNING, 1);
  event.add_workers()->set_worker("w0");
  view.Apply(event);
  event = Event(v1::JOB_STATE_SUCCEEDED, 2);
  event.add_workers()->set_measured_peak_bytes(7);
  event.add_stages()->set_output_bytes(9);
  view.Apply(event);
  ASSERT_EQ(view.job().workers_size(), 1);
  EXPECT_EQ(view.job().workers(0).measured_peak_bytes(), 7);
  EXPECT_EQ(view.job().stages(0).output_bytes(), 9);
}

}  // namespace
}  // namespace stagecoach::client

#include "client/output/job_output.h"

#include "client/testing/sample_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kSucceededDocument[] = R"({
  "job_id": "j-1",
  "name": "tiny",
  "state": "SUCCEEDED",
  "reason": "",
  "schedule": "1f1b",
  "transport": "shm",
  "edges": [
    {
      "edge": "activation 0->1",
      "transport": "shm",
      "why": "same host"
    },
    {
      "edge": "gradient 1->0",
      "transport": "shm",
      "why": "same host"
    }
  ],
  "release": "ack",
  "kernels": "onednn",
  "total_seconds": 0.75,
  "parameters_sha256": "abc123",
  "recoveries": [],
  "steps": [
    {
      "step": 0,
      "loss": 5.545177459716797,
      "grad_norm": 1.5,
      "learning_rate": 0.00015,
      "seconds": 0.25,
      "compute_seconds": 0.2,
      "tokens_per_second": 2048.0,
      "skipped": false
    },
    {
      "step": 1,
      "loss": 0.1,
      "grad_norm": 1.5,
      "learning_rate": 0.00015,
      "seconds": 0.25,
      "compute_seconds": 0.2,
      "tokens_per_second": 2048.0,
      "skipped": false
    }
  ],
  "skipped_steps": 0,
  "workers": [
    {
      "worker": "w0",
      "stages": [
        0
      ],
      "measured_peak_bytes": 25165824,
      "outputs_held_peak_bytes": 3145728,
      "receive_pool_bytes": 0,
      "idle_ratio": 0.125
    },
    {
      "worker": "w1",
      "stages": [
        1
      ],
      "measured_peak_bytes": 16777216,
      "outputs_held_peak_bytes": 0,
      "receive_pool_bytes": 2097152,
      "idle_ratio": 0.25
    }
  ],
  "stages": [
    {
      "stage": 0,
      "worker": "w0",
      "layers": 2,
      "layer_begin": 0,
      "layer_end": 2,
      "output_bytes": 1048576,
      "outputs_sent_bytes": 16777216,
      "released_bytes": 12582912,
      "retained_bytes": 4194304,
      "discarded_bytes": 0,
      "pending_bytes": 0,
      "retained_by": [
        {
          "op": "TanhBackward0",
          "bytes": 4194304
        }
      ],
      "outputs_held_peak_bytes": 3145728
    },
    {
      "stage": 1,
      "worker": "w1",
      "layers": 1,
      "layer_begin": 2,
      "layer_end": 3,
      "output_bytes": 0,
      "outputs_sent_bytes": 0,
      "released_bytes": 0,
      "retained_bytes": 0,
      "discarded_bytes": 0,
      "pending_bytes": 0,
      "retained_by": [],
      "outputs_held_peak_bytes": 0
    }
  ]
}
)";

TEST(JobJsonTest, EvaluationsSayAfterHowManySteps) {
  v1::Job job = SucceededJob();
  EXPECT_FALSE(JobJson(job).contains("evaluations"));
  job.mutable_steps(0)->set_evaluation_loss(5.5);
  job.set_evaluation_loss(4.25);
  const Json json = JobJson(job);
  ASSERT_EQ(json["evaluations"].size(), 2u);
  EXPECT_EQ(json["evaluations"][0].dump(), R"({"step":0,"loss":5.5})");
  EXPECT_EQ(json["evaluations"][1]["step"], job.steps_size());
  EXPECT_EQ(json["evaluations"][1]["loss"], 4.25);
  EXPECT_THAT(JobText(job),
              testing::HasSubstr("evaluation  5.5000 -> 4.2500 over 2 "
                                 "evaluations\n"));
}

TEST(JobJsonTest, SucceededJob) {
  EXPECT_EQ(Dump(JobJson(SucceededJob())), kSucceededDocument);
}

TEST(JobJsonTest, FailedJobHasCauseAndVictims) {
  const Json json = JobJson(FailedJob());
  EXPECT_EQ(json["state"], "FAILED");
  EXPECT_EQ(json["reason"], "worker w1 is lost");
  EXPECT_TRUE(json["parameters_sha256"].is_null());
  EXPECT_EQ(json["steps"].size(), 1u);
  EXPECT_EQ(json["cause"].dump(),
            R"({"kind":"worker_lost","stage":1,"worker":"w1","action":"1F5",)"
            R"("microbatch":5,"step":1,"message":"no heartbeat for 6 s"})");
  EXPECT_EQ(json["victims"].dump(), R"(["w0"])");
}

TEST(JobJsonTest, OutsideAStepTheCauseHasNulls) {
  v1::Job job = FailedJob();
  job.mutable_cause()->clear_action();
  job.mutable_cause()->set_microbatch(-1);
  job.mutable_cause()->set_step(-1);
  const Json cause = JobJson(job)["cause"];
  EXPECT_TRUE(cause["action"].is_null());
  EXPECT_TRUE(cause["microbatch"].is_null());
  EXPECT_TRUE(cause["step"].is_null());
  EXPECT_EQ(cause["stage"], 1);
}

TEST(JobJsonTest, OnlyFailedJobsHaveACause) {
  EXPECT_FALSE(JobJson(SucceededJob()).contains("cause"));
  EXPECT_FALSE(JobJson(SucceededJob()).contains("victims"));
}

// Prediction comes with a later feature: no invented numbers before it.
TEST(JobJsonTest, KeysOfFeaturesThatHaveNotLandedAreAbsent) {
  const Json json = JobJson(SucceededJob());
  EXPECT_FALSE(json["workers"][0].contains("predicted_peak_bytes"));
  EXPECT_FALSE(json["workers"][0].contains("predicted_low_bytes"));
}

TEST(JobListTest, Json) {
  v1::ListJobsResponse response;
  *response.add_jobs() = FailedJob();
  EXPECT_EQ(JobListJson(response).dump(),
            R"({"jobs":[{"id":"j-1","state":"FAILED",)"
            R"("reason":"worker w1 is lost","name":"tiny","schedule":"1f1b",)"
            R"("total_seconds":0.75}]})");
  EXPECT_EQ(JobListJson(v1::ListJobsResponse()).dump(), R"({"jobs":[]})");
}

TEST(JobListTest, Text) {
  v1::ListJobsResponse response;
  *response.add_jobs() = FailedJob();
  EXPECT_EQ(JobListText(response),
            "id   name  state   schedule  seconds  reason\n"
            "j-1  tiny  FAILED  1f1b          0.8  worker w1 is lost\n");
  EXPECT_EQ(JobListText(v1::ListJobsResponse()), "no jobs\n");
}

constexpr char kSucceededText[] =
    R"(job j-1 (tiny) SUCCEEDED, 0.75 s
  loss        5.5452 -> 0.1000 over 2 steps (gradient norm 1.500 -> 1.500)
  schedule    1f1b, 2 workers x 1 stage, 8 microbatches
  release     ack (send budget 2)
  transport   shm (same host)
  kernels     onednn
  speed       2.0k tokens/s, 0.25 s a step (medians)

worker  stages  measured peak  outputs held  receive pool    idle
w0      0           24.00 MiB      3.00 MiB           0 B  12.5 %
w1      1           16.00 MiB           0 B      2.00 MiB  25.0 %

stage  worker  layers       sent   released  retained  discarded  held peak  retained by
    0  w0      0-1     16.00 MiB  12.00 MiB  4.00 MiB        0 B   3.00 MiB  TanhBackward0 4.00 MiB
    1  w1      2             0 B        0 B       0 B        0 B        0 B

16.00 MiB of outputs sent; 12.00 MiB released after acknowledgement, 4.00 MiB retained; at most 3.00 MiB held at once by a worker
parameters_sha256 abc123
)";

TEST(JobTextTest, SucceededJob) {
  EXPECT_EQ(JobText(SucceededJob()), kSucceededText);
}

TEST(JobTextTest, AJobWithoutStepsSaysSo) {
  v1::Job job;
  job.set_id("j-2");
  job.set_state(v1::JOB_STATE_QUEUED);
  job.set_reason("waiting for 1 more worker");
  const std::string text = JobText(job);
  EXPECT_THAT(text, HasSubstr("job j-2 QUEUED: waiting for 1 more worker\n"));
  EXPECT_THAT(text, HasSubstr("no step was committed"));
  EXPECT_THAT(text, Not(HasSubstr("parameters_sha256")));
}

TEST(ReleaseSentenceTest, SaysWhatAReleaseWaitedFor) {
  v1::Job job = SucceededJob();
  job.set_release("sent");
  EXPECT_THAT(ReleaseSentence(job),
              HasSubstr("12.00 MiB released at local completion"));
}

TEST(ReleaseSentenceTest, DiscardedBytesAreNotHidden) {
  v1::Job job = SucceededJob();
  job.mutable_stages(0)->mutable_memory()->set_discarded_bytes(1 << 20);
  EXPECT_THAT(ReleaseSentence(job),
              HasSubstr("4.00 MiB retained, 1.00 MiB discarded;"));
}

TEST(FailureTextTest, NamesStageWorkerStepActionAndVictims) {
  EXPECT_EQ(FailureText(FailedJob()),
            "job j-1 failed: stage 1 (worker w1), step 1, 1F5 (microbatch 5): "
            "no heartbeat for 6 s\n"
            "failed because of it: w0");
}

TEST(FailureTextTest, LeavesOutWhatIsNotKnown) {
  v1::Job job = FailedJob();
  job.clear_victims();
  job.mutable_cause()->clear_action();
  job.mutable_cause()->set_microbatch(-1);
  job.mutable_cause()->set_step(-1);
  EXPECT_EQ(FailureText(job),
            "job j-1 failed: stage 1 (worker w1): no heartbeat for 6 s");
  job.clear_cause();
  EXPECT_EQ(FailureText(job), "job j-1 failed: worker w1 is lost");
  job.clear_reason();
  EXPECT_EQ(FailureText(job), "job j-1 failed: no cause was reported");
}

TEST(NamesTest, UnknownEnumValuesAreShownByNumber) {
  EXPECT_EQ(JobStateName(v1::JOB_STATE_RUNNING), "RUNNING");
  EXPECT_EQ(JobStateName(static_cast<v1::JobState>(77)), "STATE_77");
  EXPECT_EQ(FailureKindName(v1::FAILURE_KIND_OUT_OF_MEMORY), "out_of_memory");
  EXPECT_EQ(FailureKindName(static_cast<v1::FailureKind>(77)), "kind_77");
}

TEST(JobOutputTest, ShowsWhereTheStateIsStored) {
  v1::Job job = SucceededJob();
  EXPECT_FALSE(JobJson(job).contains("checkpoint"));
  job.set_first_step(4);
  job.mutable_checkpoint()->set_step(8);
  job.mutable_checkpoint()->set_path("/c/step-00000008");
  job.mutable_checkpoint()->set_error("checkpoint of step 9: disk full");
  EXPECT_THAT(JobText(job),
              HasSubstr("  checkpoint  /c/step-00000008; began with step 4; "
                        "the last attempt failed: checkpoint of step 9: disk "
                        "full\n"));
  const Json json = JobJson(job);
  EXPECT_EQ(json["first_step"], 4);
  EXPECT_EQ(json["checkpoint"]["step"], 8);
  EXPECT_EQ(json["checkpoint"]["path"], "/c/step-00000008");
  EXPECT_EQ(json["checkpoint"]["error"], "checkpoint of step 9: disk full");
}

TEST(JobOutputTest, ShowsWhatWasSurvived) {
  v1::Job job = SucceededJob();
  for (int i = 0; i < 2; ++i) {
    v1::JobRecovery* recovery = job.add_recoveries();
    *recovery->mutable_cause() = FailedJob().cause();
    recovery->add_victims("w0");
    recovery->set_unix_microseconds(1'500'000);
    recovery->set_steps_before(5);
    recovery->set_step(i == 0 ? 4 : -1);
    recovery->set_steps_redone(i == 0 ? 1 : 0);
    recovery->set_seconds_lost(1.5);
  }
  const Json recoveries = JobJson(job)["recoveries"];
  ASSERT_EQ(recoveries.size(), 2u);
  EXPECT_EQ(recoveries[0]["cause"]["worker"], "w1");
  EXPECT_EQ(recoveries[0]["victims"], Json({"w0"}));
  EXPECT_EQ(recoveries[0]["unix_seconds"], 1.5);
  EXPECT_EQ(recoveries[0]["steps_before"], 5);
  EXPECT_EQ(recoveries[0]["step"], 4);
  EXPECT_EQ(recoveries[0]["steps_redone"], 1);
  EXPECT_EQ(recoveries[0]["seconds_lost"], 1.5);
  // Not chosen yet.
  EXPECT_TRUE(recoveries[1]["step"].is_null());
  EXPECT_THAT(JobText(job),
              HasSubstr("  recovered   2 failures, 1 step redone, 3.00 s lost; "
                        "the last: stage 1 (worker w1), step 1, 1F5"));
}

}  // namespace
}  // namespace stagecoach::client

// Workers whose heartbeats come and who do not get on.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/controller_fixture.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

class StuckTest : public ControllerTest {
 protected:
  // Two workers, in step 2 of a job whose steps take no time.
  void Run() {
    v1::JobSpec spec = TinySpec(2, 6);
    spec.mutable_recovery()->set_max_failures(1);
    JoinMany(2);
    Submit(spec);
    Serve("begin:2");
    ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  }
  // Heartbeats of both; `first` and `second` are where they are.
  void PassBeating(absl::Duration duration, const std::string& first,
                   const std::string& second) {
    for (absl::Duration passed; passed < duration; passed += absl::Seconds(1)) {
      BeatAt(worker(0), first);
      BeatAt(worker(1), second);
      Pass(absl::Seconds(1));
    }
  }
  // "2F0", "2F0 waiting", "2F0 budget" or ""
  void BeatAt(FakeWorker& worker, const std::string& where) {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_job_id("job-1");
    if (!where.empty()) {
      v1::Position* position = message.mutable_heartbeat()->mutable_position();
      position->set_step(2);
      position->set_action(where.substr(0, where.find(' ')));
      if (absl::StrContains(where, "waiting")) {
        position->set_waiting_for("transfer");
      } else if (absl::StrContains(where, "budget")) {
        position->set_waiting_for("send budget");
      }
    }
    Say(worker, message);
  }
};

TEST_F(StuckTest, AnActionThatDoesNotEndIsNamedAndItsWorkerLost) {
  Run();
  PassBeating(absl::Seconds(55), "0F0", "1F0 waiting");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  PassBeating(absl::Seconds(7), "0F0", "1F0 waiting");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  const v1::FailureCause cause = Get("job-1")->recoveries(0).cause();
  EXPECT_EQ(cause.worker(), "w0");
  EXPECT_EQ(cause.action(), "0F0");
  EXPECT_TRUE(absl::StrContains(cause.message(), "stuck")) << cause.message();
  // Who only waited is not.
  EXPECT_FALSE(worker(1).closed.has_value());
  ASSERT_TRUE(worker(0).closed.has_value());
  EXPECT_TRUE(absl::IsAborted(*worker(0).closed));
}

TEST_F(StuckTest, WhoGetsOnIsNotStuck) {
  Run();
  for (int round = 0; round < 20; ++round) {
    PassBeating(absl::Seconds(20), absl::StrCat("0F", round), "1F0 waiting");
  }
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
}

TEST_F(StuckTest, AWorkerThatHangsOutsideItsActionsIsFoundToo) {
  Run();
  PassBeating(absl::Seconds(65), "0F0 waiting", "");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(Get("job-1")->recoveries(0).cause().worker(), "w1");
}

// What one sent the other was lost: the same workers get the job again.
TEST_F(StuckTest, WhenAllWaitForEachOtherTheJobIsPlacedAgain) {
  Run();
  PassBeating(absl::Seconds(55), "0F0 waiting", "1F0 waiting");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  PassBeating(absl::Seconds(10), "1F0 waiting", "0SEND_F0 budget");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING) << "they moved";
  PassBeating(absl::Seconds(52), "1F0 waiting", "0SEND_F0 budget");
  ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RECOVERING);
  const v1::FailureCause cause = Get("job-1")->recoveries(0).cause();
  EXPECT_EQ(cause.worker(), "w1") << "it has sent";
  EXPECT_EQ(cause.step(), 2);
  for (const char* words :
       {"nobody gets on", "w0 waits for transfer in 1F0 of step 2",
        "w1 waits for send budget in 0SEND_F0 of step 2"}) {
    EXPECT_TRUE(absl::StrContains(cause.message(), words)) << cause.message();
  }
  EXPECT_FALSE(worker(0).closed.has_value());
  EXPECT_FALSE(worker(1).closed.has_value());
  Serve();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get("job-1")->steps_size(), 6);
}

TEST_F(StuckTest, AJobThatSurvivesNothingEndsWhenAllWait) {
  v1::JobSpec spec = TinySpec(2, 6);
  spec.mutable_recovery()->set_max_failures(0);
  JoinMany(2);
  Submit(spec);
  // Also in its first step, which else has half an hour.
  Serve("begin:0");
  PassBeating(absl::Seconds(62), "0F0 waiting", "1F0 waiting");
  Serve();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_FAILED);
  EXPECT_TRUE(absl::StrContains(Get("job-1")->reason(), "nobody gets on"));
}

TEST_F(StuckTest, LongStepsMakeForPatience) {
  v1::JobSpec spec = TinySpec(2, 6);
  JoinMany(2);
  Submit(spec);
  Serve("begin:0");
  // Step 0 takes 10 s; so 200 s are the limit from then on.
  Pass(absl::Seconds(10), AllBut({}));
  Serve("begin:1");
  ASSERT_EQ(Get("job-1")->steps_size(), 1);
  ASSERT_EQ(Get("job-1")->steps(0).seconds(), 10);
  PassBeating(absl::Seconds(195), "0F0", "1F0 waiting");
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  PassBeating(absl::Seconds(10), "0F0", "1F0 waiting");
  EXPECT_NE(StateOf("job-1"), v1::JOB_STATE_RUNNING);
}

}  // namespace
}  // namespace stagecoach::coordinator

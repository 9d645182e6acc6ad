// The verbs that speak to a coordinator, against a fake one.
#include "client/job_commands.h"

#include <signal.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/version.h"
#include "client/testing/client_process.h"
#include "client/testing/fake_coordinator.h"
#include "client/testing/sample_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

class JobCommandsTest : public testing::Test {
 protected:
  JobCommandsTest() : address_(coordinator_.Start()) {}

  std::vector<std::string> Words(std::vector<std::string> words) {
    words.insert(words.end(), {"--endpoint", address_});
    return words;
  }
  ClientResult Run(std::vector<std::string> words) {
    return RunClient(Words(std::move(words)));
  }
  // A job "j-1" that is not finished.
  v1::Job PutRunningJob() {
    v1::Job job = SucceededJob();
    job.set_state(v1::JOB_STATE_RUNNING);
    job.mutable_steps()->RemoveLast();
    coordinator_.Put(job);
    return job;
  }

  FakeCoordinator coordinator_;
  const std::string address_;
};

TEST_F(JobCommandsTest, SubmitPrintsTheIdAndSendsTheWholeSpec) {
  ClientResult result = Run({"job", "submit", "examples/tiny.toml", "--set",
                             "training.steps=7", "--transport", "shm"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "j-1\n");
  const v1::JobSpec spec = coordinator_.Find("j-1").spec();
  EXPECT_EQ(spec.name(), "tiny");
  EXPECT_EQ(spec.training().steps(), 7);
  EXPECT_EQ(spec.pipeline().transport(), "shm");
  // Another request makes another job.
  result = Run({"job", "submit", "examples/tiny.toml", "-o", "json"});
  EXPECT_EQ(result.document()["job_id"], "j-2");
}

TEST_F(JobCommandsTest, RescheduleAsksForAnotherSchedule) {
  PutRunningJob();
  ClientResult result = Run({"job", "reschedule", "latest", "--schedule",
                             "zb-h1", "--send-budget", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "job j-1 takes schedule zb-h1 at the next step\n");
  EXPECT_EQ(coordinator_.Find("j-1").schedule(), "zb-h1");
  EXPECT_EQ(coordinator_.Find("j-1").spec().pipeline().send_budget(), 3);
  // A file is read by the coordinator, which is in another folder.
  result = Run({"job", "reschedule", "j-1", "--schedule", "lists/a.txt"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(coordinator_.Find("j-1").schedule(),
            std::filesystem::absolute("lists/a.txt").string());
}

TEST_F(JobCommandsTest, RescheduleOfAnEndedJobIsAConflict) {
  coordinator_.Put(SucceededJob());
  const ClientResult result =
      Run({"job", "reschedule", "latest", "--schedule", "zb-h1"});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.error, HasSubstr("only a running job"));
}

TEST_F(JobCommandsTest, ListShowsAllJobs) {
  EXPECT_EQ(Run({"job", "list"}).out, "no jobs\n");
  coordinator_.Put(SucceededJob());
  const ClientResult result = Run({"job", "list", "-o", "json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.document()["jobs"][0]["id"], "j-1");
  EXPECT_THAT(Run({"job", "list"}).out, HasSubstr("SUCCEEDED"));
}

TEST_F(JobCommandsTest, ShowOfAFailedJobIsNoFailure) {
  coordinator_.Put(FailedJob());
  const ClientResult result = Run({"job", "show", "j-1", "-o", "json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.document()["cause"]["worker"], "w1");
  EXPECT_THAT(Run({"job", "show", "latest"}).out,
              HasSubstr("stage 1 (worker w1), step 1, 1F5"));
}

TEST_F(JobCommandsTest, UnknownJobsEndWith102) {
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"job", "show", "j-9"},
                                             {"job", "wait", "j-9"},
                                             {"job", "cancel", "j-9"},
                                             {"memory", "stats", "j-9"}}) {
    const ClientResult result = Run(words);
    EXPECT_EQ(result.exit_code, 102) << words[1];
    EXPECT_THAT(result.error, HasSubstr("there is no job \"j-9\""));
  }
}

TEST_F(JobCommandsTest, CancelSaysWhatBecameOfTheJob) {
  PutRunningJob();
  const ClientResult result = Run({"job", "cancel", "j-1"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "job j-1 CANCELLING\n");
  EXPECT_EQ(coordinator_.Find("j-1").state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Run({"job", "cancel", "j-1"}).exit_code, 6);
}

TEST_F(JobCommandsTest, WaitEndsAsTheJobDid) {
  coordinator_.Put(SucceededJob());
  EXPECT_EQ(Run({"job", "wait", "j-1"}).exit_code, 0);
  coordinator_.Put(FailedJob());
  const ClientResult result = Run({"job", "wait", "latest", "-o", "json"});
  EXPECT_EQ(result.exit_code, 105);
  EXPECT_EQ(result.document()["state"], "FAILED");
  EXPECT_EQ(result.document()["error"]["exit_code"], 105);
  EXPECT_THAT(result.error, HasSubstr("failed because of it: w0"));
  v1::Job job = SucceededJob();
  job.set_state(v1::JOB_STATE_CANCELLED);
  coordinator_.Put(job);
  EXPECT_EQ(Run({"job", "wait", "j-1"}).exit_code, 103);
}

TEST_F(JobCommandsTest, WaitFollowsAJobToItsEnd) {
  PutRunningJob();
  ClientProcess client(Words({"job", "wait", "j-1", "-o", "json"}));
  coordinator_.WaitForWatches(1);
  coordinator_.Put(SucceededJob());
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.document()["steps"].size(), 2u);
  EXPECT_EQ(result.document()["steps"][1]["loss"], 0.1);
  // One line a step where there is no terminal.
  EXPECT_THAT(result.error, HasSubstr("step 1/2  loss 5.5452"));
  EXPECT_THAT(result.error, HasSubstr("step 2/2  loss 0.1000"));
}

TEST_F(JobCommandsTest, WaitThatTimesOutEndsWith101) {
  PutRunningJob();
  ClientResult result =
      Run({"job", "wait", "j-1", "--timeout", "50ms", "-o", "json"});
  EXPECT_EQ(result.exit_code, 101);
  EXPECT_EQ(result.document()["state"], "RUNNING");
  EXPECT_EQ(result.document()["steps"].size(), 1u);
  EXPECT_THAT(result.error, HasSubstr("job j-1 is still RUNNING after 50ms"));
  EXPECT_EQ(Run({"job", "wait", "j-1", "--timeout", "0"}).exit_code, 101);
}

TEST_F(JobCommandsTest, CtrlCLeavesTheJobAlone) {
  PutRunningJob();
  ClientProcess client(Words({"job", "wait", "j-1"}));
  coordinator_.WaitForWatches(1);
  client.Signal(SIGINT);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.error, HasSubstr("which goes on"));
  EXPECT_EQ(coordinator_.Find("j-1").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(JobCommandsTest, FollowingGoesOnAfterALostConnection) {
  v1::Job job = PutRunningJob();
  ClientProcess client(Words({"job", "wait", "j-1", "-o", "json"}));
  coordinator_.WaitForWatches(1);
  coordinator_.BreakStreams();
  coordinator_.WaitForWatches(2);
  coordinator_.Put(SucceededJob());
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.document()["steps"].size(), 2u);
}

// ---- run, on a coordinator that is there ------------------------------------

TEST_F(JobCommandsTest, RunSubmitsFollowsAndSummarises) {
  coordinator_.on_submit = [this](v1::Job job) {
    v1::Job done = SucceededJob();
    done.set_id(job.id());
    coordinator_.Put(done);
  };
  ClientResult result = Run({"run", "examples/tiny.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("5.5452 -> 0.1000 over 2 steps"));
  EXPECT_THAT(result.out, HasSubstr("16.00 MiB of outputs sent; 12.00 MiB "
                                    "released after acknowledgement"));
  EXPECT_THAT(result.error, HasSubstr("job j-1 submitted"));
  result = Run({"-o", "json", "run", "examples/tiny.toml"});
  EXPECT_EQ(result.document()["state"], "SUCCEEDED");
  EXPECT_FALSE(result.document().contains("error"));
}

TEST_F(JobCommandsTest, RunEndsByTheCauseOfTheFailure) {
  coordinator_.on_submit = [this](v1::Job job) {
    v1::Job failed = FailedJob();
    failed.set_id(job.id());
    failed.mutable_cause()->set_kind(v1::FAILURE_KIND_OUT_OF_MEMORY);
    coordinator_.Put(failed);
  };
  const ClientResult result = Run({"run", "examples/tiny.toml", "-o", "json"});
  EXPECT_EQ(result.exit_code, 104);
  EXPECT_EQ(result.document()["state"], "FAILED");
  EXPECT_EQ(result.document()["cause"]["kind"], "out_of_memory");
  EXPECT_EQ(result.document()["victims"].dump(), R"(["w0"])");
  EXPECT_EQ(result.document()["error"]["exit_code"], 104);
}

TEST_F(JobCommandsTest, CtrlCCancelsARunAndWaitsForItsEnd) {
  ClientProcess client(Words({"run", "examples/tiny.toml", "-o", "json"}));
  coordinator_.WaitForWatches(1);
  client.Signal(SIGINT);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 103) << result.error;
  EXPECT_EQ(result.document()["state"], "CANCELLED");
  EXPECT_EQ(coordinator_.Find("j-1").reason(), "interrupted by the user");
}

TEST_F(JobCommandsTest, ASecondCtrlCLeavesAtOnce) {
  coordinator_.on_cancel = [](v1::Job, std::string) {};  // takes for ever
  ClientProcess client(Words({"run", "examples/tiny.toml"}));
  coordinator_.WaitForWatches(1);
  client.Signal(SIGTERM);
  // The stream that waits for the end of the cancelled job.
  coordinator_.WaitForWatches(2);
  client.Signal(SIGINT);
  EXPECT_EQ(client.Finish().exit_code, 130);
}

// ---- the others -------------------------------------------------------------

TEST_F(JobCommandsTest, MemoryStatsOfTheLastJob) {
  PutRunningJob();
  const ClientResult result = Run({"memory", "stats", "-o", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.document()["job_id"], "j-1");
  EXPECT_EQ(result.document()["workers"].size(), 2u);
  EXPECT_THAT(Run({"memory", "stats", "j-1"}).out, HasSubstr("wire_receive"));
}

TEST_F(JobCommandsTest, WorkerList) {
  EXPECT_THAT(Run({"worker", "list"}).out, HasSubstr("SUSPECT"));
  EXPECT_EQ(Run({"worker", "list", "-o", "json"}).document()["workers"].size(),
            2u);
}

TEST_F(JobCommandsTest, WorkerShow) {
  PutRunningJob();
  const ClientResult result = Run({"worker", "show", "w1"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("nccl: not here: no GPU"));
  EXPECT_THAT(result.out, HasSubstr("activation 0->1: shm (same host)"));
  EXPECT_EQ(
      Run({"worker", "show", "w0", "-o", "json"}).document()["edges"].dump(),
      "[]");
  const ClientResult unknown = Run({"worker", "show", "w9"});
  EXPECT_EQ(unknown.exit_code, 102);
  EXPECT_THAT(unknown.error, HasSubstr("no worker w9"));
}

TEST_F(JobCommandsTest, WorkerShowOfAJobThatIsForgotten) {
  EXPECT_EQ(Run({"worker", "show", "w1"}).exit_code, 0);
}

TEST_F(JobCommandsTest, Version) {
  ClientResult result = Run({"version", "-o", "json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.document()["coordinator"]["version"], "9.8.7");
  result = RunClient({"version", "--endpoint", "127.0.0.1:1"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("stagecoach "));
}

TEST_F(JobCommandsTest, VersionSkewEndsWith5) {
  coordinator_.RefuseCalls(absl::FailedPreconditionError(
      "version skew: this coordinator speaks protocol 2, the client 1"));
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"job", "list"},
           {"job", "show", "j-1"},
           {"job", "wait", "j-1"},
           {"job", "submit", "examples/tiny.toml"},
           {"run", "examples/tiny.toml"},
           {"memory", "stats"},
           {"worker", "list"},
           {"version"}}) {
    const ClientResult result = Run(words);
    EXPECT_EQ(result.exit_code, 5) << words[0];
    EXPECT_THAT(result.error, HasSubstr("version skew"));
  }
}

// Certificates matter to who connects, and to nobody else.
TEST_F(JobCommandsTest, ABadCertificateEndsWith2WhereItIsNeeded) {
  const std::vector<std::string> tls = {"--tls-authority", "/no/such/ca.pem"};
  ClientResult result = Run({"job", "list", tls[0], tls[1]});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("--tls-authority: cannot read"));
  result = Run({"completion", "bash", tls[0], tls[1]});
  EXPECT_EQ(result.exit_code, 0) << result.error;
}

TEST_F(JobCommandsTest, VersionTellsOfAnotherProtocol) {
  coordinator_.protocol = kProtocolVersion + 1;
  const ClientResult result = Run({"version", "-o", "json"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.document()["coordinator"]["protocol"], kProtocolVersion + 1);
  EXPECT_EQ(result.document()["error"]["exit_code"], 5);
}

TEST_F(JobCommandsTest, OtherErrorsKeepTheirCodesAndWords) {
  coordinator_.RefuseCalls(absl::PermissionDeniedError("not for you"));
  EXPECT_EQ(Run({"job", "list"}).exit_code, 4);
  coordinator_.RefuseCalls(absl::InvalidArgumentError("no such schedule"));
  const ClientResult result = Run({"job", "submit", "examples/tiny.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.error, "no such schedule\n");
  coordinator_.RefuseCalls(absl::InternalError("broken"));
  EXPECT_EQ(Run({"job", "list"}).exit_code, 1);
}

}  // namespace
}  // namespace stagecoach::client

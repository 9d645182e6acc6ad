// `up` and `down` with fake daemons: what is started, found again, and ended.
#include "client/up_commands.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "base/process_identity.h"
#include "base/testing/certificates.h"
#include "base/tls_files.h"
#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr absl::Duration kPatience = absl::Minutes(1);

class UpCommandsTest : public ::testing::Test {
 protected:
  ~UpCommandsTest() override {
    // Nothing outlives the test, whatever went wrong in it.
    for (const ProcessIdentity& process : daemons_) {
      auto opened = ForeignProcess::Open(process);
      if (opened.ok()) opened->Signal(SIGKILL).IgnoreError();
    }
  }
  ClientProcess::Environment Around(const std::string& worker = "waits") {
    return {{"STAGECOACH_COORDINATOR_BINARY", daemon_},
            {"STAGECOACH_WORKER_BINARY", worker_binary_},
            {"STAGECOACH_DIRECTORY", folder_},
            {"STAGECOACH_ENDPOINT", ""},
            {"FAKE_COORDINATOR", "succeeds"},
            {"FAKE_WORKER", worker},
            {"FAKE_FIFO", life_line_.path()}};
  }
  // The fake coordinator always counts two workers.
  ClientResult Up(std::vector<std::string> more = {},
                  const std::string& worker = "waits") {
    std::vector<std::string> words = {"up"};
    words.insert(words.end(), more.begin(), more.end());
    return RunClient(words, Around(worker));
  }
  ClientResult Run(std::vector<std::string> words) {
    return RunClient(std::move(words), Around());
  }
  // Until `count` daemons have said their ids.
  void WaitForDaemons(int count) {
    for (; count > 0; --count) {
      const std::string line = life_line_.ReadLine();
      const std::pair<std::string, std::string> words =
          absl::StrSplit(line, absl::MaxSplits(' ', 1));
      pid_t pid = 0;
      ASSERT_TRUE(absl::SimpleAtoi(words.second, &pid)) << line;
      daemons_.push_back(IdentityOf(pid).value());
    }
  }
  // All daemons have ended, and no file is left.
  void ExpectNothingLeft() {
    for (const ProcessIdentity& process : daemons_) {
      auto opened = ForeignProcess::Open(process);
      if (opened.ok()) {
        EXPECT_TRUE(opened->WaitForEnd(kPatience));
      }
      EXPECT_FALSE(IsRunning(process));
    }
    EXPECT_FALSE(std::filesystem::exists(folder_));
  }
  // After a start that failed; who was started may have ended at once.
  void ExpectNothingStarted() {
    EXPECT_FALSE(std::filesystem::exists(folder_));
    std::string line;
    do {
      line = life_line_.ReadLine();
    } while (!line.empty() && line != "timeout");
    EXPECT_EQ(line, "");  // nobody has the life line any more
  }

  LifeLine life_line_;
  const std::string daemon_ = ExecutableFolder() + "/fake_daemon";
  std::string worker_binary_ = daemon_;
  const std::string folder_ = MakeFolder() + "/state/cluster";
  std::vector<ProcessIdentity> daemons_;
};

TEST_F(UpCommandsTest, StaysUntilItIsTakenDown) {
  const ClientResult up = Up();
  ASSERT_EQ(up.exit_code, 0) << up.error;
  WaitForDaemons(3);
  EXPECT_THAT(up.out, ::testing::StartsWith("127.0.0.1:"));
  EXPECT_THAT(up.error, HasSubstr("2 workers are ready"));
  for (const ProcessIdentity& process : daemons_) {
    EXPECT_TRUE(IsRunning(process));
  }
  // Others find it, a given endpoint is stronger.
  EXPECT_EQ(Run({"worker", "list"}).exit_code, 0);
  EXPECT_EQ(Run({"worker", "list", "--endpoint", "127.0.0.1:1"}).exit_code, 3);
  const ClientResult down = Run({"down"});
  EXPECT_EQ(down.exit_code, 0) << down.error;
  EXPECT_EQ(down.out, "3 processes ended\n");
  ExpectNothingLeft();
}

TEST_F(UpCommandsTest, JsonNamesTheProcesses) {
  const ClientResult up = Up({"-o", "json"});
  ASSERT_EQ(up.exit_code, 0) << up.error;
  WaitForDaemons(3);
  const Json document = up.document();
  EXPECT_EQ(document["directory"], folder_);
  std::vector<pid_t> pids;
  for (const auto& process : document["processes"]) {
    pids.push_back(process["process_id"].get<pid_t>());
    EXPECT_TRUE(std::filesystem::exists(process["log"].get<std::string>()));
  }
  EXPECT_THAT(pids, UnorderedElementsAre(daemons_[0].pid, daemons_[1].pid,
                                         daemons_[2].pid));
  const Json down = Run({"down", "-o", "json"}).document();
  EXPECT_EQ(down["ended"], Json::array({"w0", "w1", "coordinator"}));
  EXPECT_EQ(down["killed"], Json::array());
  ExpectNothingLeft();
}

TEST_F(UpCommandsTest, TheSecondUpIsAConflict) {
  ASSERT_EQ(Up().exit_code, 0);
  WaitForDaemons(3);
  const ClientResult again = Up();
  EXPECT_EQ(again.exit_code, 6);
  EXPECT_EQ(again.out, "");
  EXPECT_THAT(again.error, HasSubstr("2 workers is up already at 127.0.0.1:"));
  EXPECT_EQ(Run({"down"}).exit_code, 0);
  ExpectNothingLeft();
}

// Its certificates are needed once: other commands find them, from wherever
// they run.
TEST_F(UpCommandsTest, ACommandSpeaksToItAsItWasToldToSpeak) {
  const std::string folder = MakeFolder();
  const TlsFiles files = testing::TestAuthority(folder, "own").Issue("node");
  const ClientResult up = Up(
      {"--tls-authority", files.authority, "--tls-certificate",
       files.certificate, "--tls-key", std::filesystem::relative(files.key)});
  ASSERT_EQ(up.exit_code, 0) << up.error;
  WaitForDaemons(3);
  ClientResult list = Run({"worker", "list"});
  EXPECT_EQ(list.exit_code, 0) << list.error;
  const std::string endpoint(absl::StripAsciiWhitespace(up.out));
  list = Run({"worker", "list", "--endpoint", endpoint});
  EXPECT_EQ(list.exit_code, 0) << list.error;
  // What is given is stronger.
  const TlsFiles others = testing::TestAuthority(folder, "other").Issue("node");
  list =
      Run({"worker", "list", "--tls-authority", others.authority,
           "--tls-certificate", others.certificate, "--tls-key", others.key});
  EXPECT_EQ(list.exit_code, 3);
  // A private cluster is not made for those of another.
  const ClientResult plain = Run({"up", "--directory", folder + "/plain"});
  ASSERT_EQ(plain.exit_code, 0) << plain.error;
  WaitForDaemons(3);
  EXPECT_EQ(Run({"down", "--directory", folder + "/plain"}).exit_code, 0);
  EXPECT_EQ(Run({"down"}).exit_code, 0);
  ExpectNothingLeft();
}

TEST_F(UpCommandsTest, AWorkerThatEndsAtOnceEndsTheStart) {
  // One more than will ever be registered.
  const ClientResult up = Up({"--workers", "3"}, "exits");
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.error, HasSubstr("ended with exit code 2"));
  EXPECT_THAT(up.error, HasSubstr("fake: the port is taken"));
  ExpectNothingStarted();
}

// Its log is there before it is, and it is never written down.
TEST_F(UpCommandsTest, AWorkerThatCannotBeStartedEndsTheStart) {
  worker_binary_ = MakeFolder() + "/worker";
  std::ofstream(worker_binary_) << "neither a program nor a script";
  std::filesystem::permissions(worker_binary_,
                               std::filesystem::perms::owner_all);
  const ClientResult up = Up();
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.error, HasSubstr(worker_binary_));
  ExpectNothingStarted();
}

TEST_F(UpCommandsTest, CtrlCDuringTheStartLeavesNothing) {
  ClientProcess client({"up", "--workers", "3"}, Around());
  WaitForDaemons(4);
  client.Signal(SIGINT);
  EXPECT_EQ(client.Finish().exit_code, 130);
  ExpectNothingLeft();
}

// Each process is written down when it starts.
TEST_F(UpCommandsTest, AnUpThatWasKilledCanBeTakenDown) {
  ClientProcess client({"up", "--workers", "3"}, Around());
  WaitForDaemons(4);
  client.Signal(SIGKILL);
  client.Finish();
  const ClientResult again = Up();
  EXPECT_EQ(again.exit_code, 6);
  EXPECT_THAT(again.error, HasSubstr("only in part (its start was "
                                     "interrupted)"));
  EXPECT_EQ(Run({"down"}).exit_code, 0);
  ExpectNothingLeft();
}

TEST_F(UpCommandsTest, WhoDoesNotEndAloneIsKilled) {
  ASSERT_EQ(Up({}, "ignores-term").exit_code, 0);
  WaitForDaemons(3);
  const ClientResult down = Run({"down", "--grace", "0.1"});
  EXPECT_EQ(down.exit_code, 0);
  EXPECT_THAT(down.error, HasSubstr("w0, w1 did not end alone"));
  ExpectNothingLeft();
}

TEST_F(UpCommandsTest, AClusterWithoutAWorkerIsNotWhole) {
  ASSERT_EQ(Up().exit_code, 0);
  WaitForDaemons(3);
  auto worker = ForeignProcess::Open(daemons_.back()).value();
  ASSERT_TRUE(worker.Signal(SIGKILL).ok());
  ASSERT_TRUE(worker.WaitForEnd(kPatience));
  const ClientResult again = Up();
  EXPECT_EQ(again.exit_code, 6);
  EXPECT_THAT(again.error, HasSubstr("only in part (w"));
  const ClientResult down = Run({"down"});
  EXPECT_THAT(down.error, HasSubstr("had ended before"));
  ExpectNothingLeft();
}

TEST_F(UpCommandsTest, ADeadClusterIsReplaced) {
  ASSERT_EQ(Up().exit_code, 0);
  WaitForDaemons(3);
  for (const ProcessIdentity& identity : daemons_) {
    auto process = ForeignProcess::Open(identity).value();
    ASSERT_TRUE(process.Signal(SIGKILL).ok());
    ASSERT_TRUE(process.WaitForEnd(kPatience));
  }
  ASSERT_EQ(Up().exit_code, 0);
  WaitForDaemons(3);
  EXPECT_EQ(Run({"down"}).exit_code, 0);
  ExpectNothingLeft();
}

// The record's numbers may belong to others by now.
TEST_F(UpCommandsTest, AProcessThatOnlyHasTheNumberIsLeftAlone) {
  SpawnOptions options;
  options.program = "/bin/sleep";
  options.arguments = {"1000"};
  options.die_with_parent = false;
  ChildProcess sleeper = ChildProcess::Spawn(options).value();
  const ProcessIdentity identity = IdentityOf(sleeper.pid()).value();
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/cluster.json")
      << "{\"endpoint\": \"127.0.0.1:1\", \"ready\": true, \"processes\": "
         "[{\"name\": \"coordinator\", \"pid\": "
      << identity.pid << ", \"start_ticks\": " << identity.start_ticks - 1
      << ", \"boot_id\": \"" << identity.boot_id << "\"}]}";
  const ClientResult down = Run({"down"});
  EXPECT_EQ(down.exit_code, 0) << down.error;
  EXPECT_THAT(down.error, HasSubstr("coordinator had ended before"));
  EXPECT_TRUE(IsRunning(identity));
  ExpectNothingLeft();
}

TEST_F(UpCommandsTest, DownWithoutUpChangesNothing) {
  const ClientResult down = Run({"down"});
  EXPECT_EQ(down.exit_code, 0);
  EXPECT_EQ(down.out, "no local cluster is up\n");
  ExpectNothingLeft();
}

TEST_F(UpCommandsTest, ADamagedRecordIsNotGuessedAt) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/cluster.json") << "{";
  for (const char* verb : {"up", "down"}) {
    const ClientResult result = Run({verb});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.error, HasSubstr("cluster.json is damaged"));
  }
}

TEST_F(UpCommandsTest, LogsMayBeKept) {
  ASSERT_EQ(Up().exit_code, 0);
  WaitForDaemons(3);
  EXPECT_EQ(Run({"down", "--keep-logs"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/logs/w0.log"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/cluster.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/lock"));
}

TEST_F(UpCommandsTest, MistakesAreRefusedBeforeAnythingStarts) {
  EXPECT_EQ(Up({"--workers", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"down", "--grace", "soon"}).exit_code, 2);
  EXPECT_EQ(Up({"--directory", "/proc/nowhere"}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

}  // namespace
}  // namespace stagecoach::client

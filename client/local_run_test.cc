// `run --local` and `verify` with fake daemons: what is started, what is said
// when it ends, and that nothing is left.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/process.h"
#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

// Far more than anything takes; only a failure waits so long.
constexpr int kPatienceMilliseconds = 60000;

using testing::HasSubstr;

// A process that may end at any time, by a descriptor that is never another's.
class WatchedProcess {
 public:
  // By number: glibc 2.36 declares pidfd_open without C linkage.
  explicit WatchedProcess(pid_t pid)
      : fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}
  ~WatchedProcess() { close(fd_); }
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;

  bool EndsWithin(int milliseconds) const {
    pollfd entry = {fd_, POLLIN, 0};
    return poll(&entry, 1, milliseconds) == 1;
  }

 private:
  const int fd_;
};

class LocalRunTest : public testing::Test {
 protected:
  ClientProcess::Environment Fates(const std::string& coordinator,
                                   const std::string& worker) {
    const std::string daemon = ExecutableFolder() + "/fake_daemon";
    return {{"STAGECOACH_COORDINATOR_BINARY", daemon},
            {"STAGECOACH_WORKER_BINARY", daemon},
            {"FAKE_COORDINATOR", coordinator},
            {"FAKE_WORKER", worker},
            {"FAKE_FIFO", life_line_.path()},
            {"TMPDIR", temporary_}};
  }
  ClientResult Run(const std::string& coordinator, const std::string& worker,
                   std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"run", "examples/tiny.toml", "--local"};
    words.insert(words.end(), more.begin(), more.end());
    return RunClient(words, Fates(coordinator, worker));
  }
  // Reads until all `count` daemons have said their pid and, if asked for,
  // until the job is watched.
  void WaitForDaemons(int count, bool watched) {
    while (count > 0 || watched) {
      const std::string line = life_line_.ReadLine();
      ASSERT_NE(line, "timeout");
      ASSERT_NE(line, "") << "the daemons ended too early";
      const std::pair<std::string, std::string> words =
          absl::StrSplit(line, absl::MaxSplits(' ', 1));
      pid_t pid = 0;
      if (line == "watched") {
        watched = false;
      } else if (absl::SimpleAtoi(words.second, &pid)) {
        daemons_.push_back(std::make_unique<WatchedProcess>(pid));
        if (words.first == "worker") worker_pids_.push_back(pid);
        --count;
      }
    }
  }
  // All daemons that ever opened the life line have ended.
  void ExpectNothingLeft() {
    std::string line;
    do {
      line = life_line_.ReadLine();
    } while (!line.empty() && line != "timeout");
    EXPECT_EQ(line, "");
    // A process closes its files a moment before it has ended.
    for (const auto& daemon : daemons_) {
      EXPECT_TRUE(daemon->EndsWithin(kPatienceMilliseconds));
    }
    EXPECT_TRUE(std::filesystem::is_empty(temporary_));
  }

  void ExpectCtrlCEnds(const std::string& worker) {
    ClientProcess client({"run", "examples/tiny.toml", "--local"},
                         Fates("runs", worker));
    WaitForDaemons(3, true);
    client.Signal(SIGINT);
    EXPECT_EQ(client.Finish().exit_code, 103);
    ExpectNothingLeft();
  }

  LifeLine life_line_;
  const std::string temporary_ = MakeFolder();
  std::vector<std::unique_ptr<WatchedProcess>> daemons_;
  std::vector<pid_t> worker_pids_;
};

TEST_F(LocalRunTest, BringsItsOwnClusterAndLeavesNothing) {
  const ClientResult result = Run("succeeds", "waits");
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("job j-1 (tiny) SUCCEEDED"));
  EXPECT_THAT(result.error, HasSubstr("coordinator at 127.0.0.1:"));
  EXPECT_THAT(result.error, HasSubstr("memory stats"));
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, JsonIsTheOnlyThingOnStdout) {
  const ClientResult result = Run("succeeds", "waits", {"-o", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.document()["state"], "SUCCEEDED");
}

TEST_F(LocalRunTest, AFailedJobNamesTheCause) {
  const ClientResult result = Run("fails", "waits", {"-o", "json"});
  EXPECT_EQ(result.exit_code, 105);
  EXPECT_THAT(result.error, HasSubstr("stage 1 (worker w1), step 1, 1F5"));
  EXPECT_EQ(result.document()["cause"]["stage"], 1);
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, AWorkerThatEndsAtOnceIsAnErrorSoon) {
  const absl::Time start = Clock::Real()->Now();
  const ClientResult result = Run("queues", "exits", {"-o", "json"});
  EXPECT_LT(Clock::Real()->Now() - start, absl::Seconds(10));
  EXPECT_EQ(result.exit_code, 105);
  EXPECT_THAT(result.error, HasSubstr("ended with exit code 2"));
  EXPECT_THAT(result.error, HasSubstr("fake: the port is taken"));
  EXPECT_EQ(result.document()["job_id"], "j-1");
  EXPECT_EQ(result.document()["error"]["exit_code"], 105);
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, AKilledWorkerIsStartedAgain) {
  ClientProcess client({"run", "examples/tiny.toml", "--local", "--set",
                        "recovery.max_failures=1"},
                       Fates("runs", "waits"));
  WaitForDaemons(3, true);
  ASSERT_EQ(kill(worker_pids_[1], SIGKILL), 0);
  WaitForDaemons(1, false);
  client.Signal(SIGINT);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 103);
  EXPECT_THAT(result.error,
              HasSubstr("was ended by signal 9; started again (1 of at most "
                        "1)"));
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, WorkersAreStartedAgainOnlySoOften) {
  ClientProcess client({"run", "examples/tiny.toml", "--local", "--set",
                        "recovery.max_failures=1"},
                       Fates("queues", "waits"));
  WaitForDaemons(3, true);
  ASSERT_EQ(kill(worker_pids_[0], SIGKILL), 0);
  WaitForDaemons(1, false);
  ASSERT_EQ(kill(worker_pids_[2], SIGKILL), 0);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 105) << result.error;
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, ACoordinatorThatEndsAtOnceIsAnErrorSoon) {
  const ClientResult result = Run("exits", "waits", {"-o", "json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error,
              HasSubstr("the coordinator ended with exit code 3; the end of "
                        "its log:\nfake: no such flag"));
  EXPECT_EQ(result.document()["error"]["exit_code"], 1);
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, ACoordinatorThatDiesDuringTheJobEndsTheRun) {
  const ClientResult result = Run("dies", "waits");
  EXPECT_EQ(result.exit_code, 3) << result.error;
  EXPECT_THAT(result.error,
              HasSubstr("the coordinator ended with exit code 3"));
  EXPECT_THAT(result.error, HasSubstr("fake: out of order"));
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, AProgramThatCannotBeFoundIsNamed) {
  const ClientResult result =
      RunClient({"run", "examples/tiny.toml", "--local"},
                {{"STAGECOACH_COORDINATOR_BINARY", "/no/such/program"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("/no/such/program"));
}

TEST_F(LocalRunTest, LogsAreKeptOnRequest) {
  const std::string folder = MakeFolder() + "/logs";
  const ClientResult result = Run("queues", "exits", {"--keep-logs", folder});
  EXPECT_EQ(result.exit_code, 105);
  // Either worker may be the first; the other is stopped then.
  std::stringstream text;
  for (const char* name : {"/w0.log", "/w1.log"}) {
    ASSERT_TRUE(std::filesystem::exists(folder + name));
    std::ifstream file(folder + name);
    for (std::string line; std::getline(file, line);) text << line << "\n";
  }
  EXPECT_THAT(text.str(), HasSubstr("fake: the port is taken\n"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/coordinator.log"));
}

TEST_F(LocalRunTest, CtrlCCancelsTheJobAndStopsTheCluster) {
  ClientProcess client({"run", "examples/tiny.toml", "--local"},
                       Fates("runs", "waits"));
  WaitForDaemons(3, true);
  client.Signal(SIGINT);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 103);
  EXPECT_THAT(result.out, HasSubstr("CANCELLED: interrupted by the user"));
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, CtrlCWhileTheCoordinatorStartsEndsTheRun) {
  ClientProcess client({"run", "examples/tiny.toml", "--local", "-o", "json"},
                       Fates("silent", "waits"));
  WaitForDaemons(1, false);
  client.Signal(SIGINT);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 103) << result.error;
  EXPECT_EQ(result.document()["error"]["exit_code"], 103);
  ExpectNothingLeft();
}

// Workers outlive SIGTERM: the grace passes, and SIGKILL ends them.
TEST_F(LocalRunTest, StoppedWorkersAreEnded) { ExpectCtrlCEnds("stops"); }

TEST_F(LocalRunTest, StubbornWorkersAreEnded) {
  ExpectCtrlCEnds("ignores-term");
}

TEST_F(LocalRunTest, NothingIsLeftWhenTheClientIsKilled) {
  ClientProcess client({"run", "examples/tiny.toml", "--local"},
                       Fates("runs", "waits"));
  WaitForDaemons(3, true);
  for (const auto& daemon : daemons_) EXPECT_FALSE(daemon->EndsWithin(0));
  client.Signal(SIGKILL);
  EXPECT_EQ(client.Finish().exit_code, 128 + SIGKILL);
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, NothingIsLeftOfStoppedWorkersWhenTheClientIsKilled) {
  ClientProcess client({"run", "examples/tiny.toml", "--local"},
                       Fates("runs", "stops"));
  WaitForDaemons(3, true);
  client.Signal(SIGKILL);
  client.Finish();
  ExpectNothingLeft();
}

// ---- verify -----------------------------------------------------------------

TEST_F(LocalRunTest, VerifyEndsWith0IfAllIsEqual) {
  const ClientResult result =
      RunClient({"verify", "examples/tiny.toml", "--steps", "2"},
                Fates("succeeds", "waits"));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("1f1b, 2 workers"));
  EXPECT_THAT(result.out, HasSubstr("gpipe, 1 worker,"));
  EXPECT_THAT(result.out,
              HasSubstr("equal to the last bit: 2 steps, 1 parameter"));
  ExpectNothingLeft();
}

TEST_F(LocalRunTest, VerifyEndsWith1AndNamesTheStep) {
  ClientResult result =
      RunClient({"verify", "examples/tiny.toml"}, Fates("differs", "waits"));
  EXPECT_EQ(result.exit_code, 1) << result.error;
  EXPECT_THAT(result.out, HasSubstr("NOT equal: step 1 differs first"));
  EXPECT_THAT(result.error, HasSubstr("step 1 differs first"));
  result = RunClient({"verify", "examples/tiny.toml", "-o", "json"},
                     Fates("differs", "waits"));
  EXPECT_EQ(result.document()["equal"], false);
  EXPECT_EQ(result.document()["first_unequal_step"], 1);
  EXPECT_EQ(result.document()["reference"]["workers"], 1);
}

TEST_F(LocalRunTest, VerifyOfAJobThatFailsEndsAsTheJobDid) {
  const ClientResult result = RunClient(
      {"verify", "examples/tiny.toml", "-o", "json"}, Fates("fails", "waits"));
  EXPECT_EQ(result.exit_code, 105);
  EXPECT_TRUE(result.document()["equal"].is_null());
  EXPECT_THAT(result.error, HasSubstr("the job: job j-1 failed"));
}

}  // namespace
}  // namespace stagecoach::client

// A worker dies or stops in the middle of a step.

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

// Forwards are slow, so that a step lasts for seconds.
std::vector<Cluster::WorkerSpec> SlowWorkers() {
  Cluster::WorkerSpec worker;
  worker.binary = FaultyWorkerBinary();
  worker.environment = {{"SLOW_ACTION_MS", "100"}};
  return std::vector<Cluster::WorkerSpec>(4, worker);
}

TinyJob LongJob() {
  TinyJob job;
  job.microbatches = 16;
  job.steps = 1000;
  return job;
}

// Waits until the job has committed a step and is in the next.
bool WaitForSteps(const Cluster& cluster, const std::string& id) {
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (absl::Now() < deadline) {
    const nlohmann::json job = cluster.Command({"job", "show", id}).json;
    if (job.is_object() && !job["steps"].empty()) return true;
  }
  return false;
}

class FailureTest : public ::testing::Test {
 protected:
  FailureTest() {
    folder_.Write("text.txt", SampleText());
    spec_ = folder_.Write("job.toml", LongJob().ToToml("text.txt"));
  }
  // Sends `signal` to worker 2 in mid-step; checks the verdict.
  void Check(int signal);

  TemporaryFolder folder_;
  std::string spec_;
};

void FailureTest::Check(int signal) {
  auto cluster = Cluster::Start(SlowWorkers()).value();
  const std::string id = cluster->Submit(spec_);
  ASSERT_TRUE(WaitForSteps(*cluster, id)) << cluster->Logs();
  const absl::Time struck = absl::Now();
  ASSERT_TRUE(cluster->worker(2).Signal(signal).ok());
  const CommandResult waited = cluster->Command({"job", "wait", id});
  const absl::Duration took = absl::Now() - struck;
  EXPECT_EQ(waited.exit_code, 105) << waited.err;
  EXPECT_LT(took, absl::Seconds(10));
  const nlohmann::json job = cluster->Command({"job", "show", id}).json;
  EXPECT_EQ(job["state"], "FAILED");
  EXPECT_EQ(job["cause"]["stage"], 2) << job["cause"].dump();
  EXPECT_EQ(job["cause"]["worker"], "w2");
  EXPECT_TRUE(job["cause"]["action"].is_string()) << job["cause"].dump();
  EXPECT_TRUE(job["cause"]["microbatch"].is_number()) << job["cause"].dump();
  EXPECT_TRUE(job["cause"]["step"].is_number()) << job["cause"].dump();
  const std::set<std::string> victims(job["victims"].begin(),
                                      job["victims"].end());
  EXPECT_EQ(victims, (std::set<std::string>{"w0", "w1", "w3"}));
  std::cout << "verdict after " << absl::FormatDuration(took) << ": "
            << job["cause"].dump() << std::endl;
  // The others are free again, none hangs.
  const nlohmann::json workers = cluster->Command({"worker", "list"}).json;
  for (const auto& worker : workers["workers"]) {
    if (worker["id"] != "w2") {
      EXPECT_EQ(worker["state"], "IDLE");
    }
  }
}

TEST_F(FailureTest, AKilledWorkerIsTheFirstCause) { Check(SIGKILL); }
TEST_F(FailureTest, AStoppedWorkerIsTheFirstCause) { Check(SIGSTOP); }

// Processes whose command line holds `text`.
std::set<pid_t> ProcessesNaming(const std::string& text) {
  std::set<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    if (line.find(text) != std::string::npos) found.insert(std::stoi(name));
  }
  return found;
}

// Daemons started by `client`, which every one of them names as its parent.
std::set<pid_t> ChildrenOf(pid_t client) {
  return ProcessesNaming(absl::StrCat("--die-with-parent=", client));
}

bool WaitUntilNoneOf(pid_t client) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline) {
    if (ChildrenOf(client).empty()) return true;
  }
  return false;
}

std::set<std::string> SharedMemoryObjects() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

class LocalClusterTest : public ::testing::Test {
 protected:
  LocalClusterTest() {
    folder_.Write("text.txt", SampleText());
    spec_ = folder_.Write("job.toml", LongJob().ToToml("text.txt"));
  }
  // Starts `run --local` and waits for its first step.
  ChildProcess StartRun() {
    ChildProcess client =
        StartClient({"run", spec_, "--local"}, folder_.path() + "/stderr",
                    {{"STAGECOACH_WORKER_BINARY", FaultyWorkerBinary()},
                     {"SLOW_ACTION_MS", "50"},
                     {"TMPDIR", folder_.path()}})
            .value();
    const absl::Time deadline = absl::Now() + absl::Seconds(120);
    while (absl::Now() < deadline &&
           Stderr().find("step") == std::string::npos) {
    }
    return client;
  }
  std::string Stderr() {
    std::ifstream file(folder_.path() + "/stderr");
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }

  TemporaryFolder folder_;
  std::string spec_;
};

TEST_F(LocalClusterTest, LeavesNothingWhenTheClientIsKilled) {
  const std::set<std::string> before = SharedMemoryObjects();
  ChildProcess client = StartRun();
  const pid_t pid = client.pid();
  ASSERT_EQ(ChildrenOf(pid).size(), 5u) << Stderr();
  ASSERT_TRUE(client.Signal(SIGKILL).ok());
  EXPECT_TRUE(WaitUntilNoneOf(pid));
  EXPECT_EQ(SharedMemoryObjects(), before);
}

TEST_F(LocalClusterTest, CtrlCCancelsAndLeavesNothing) {
  const std::set<std::string> before = SharedMemoryObjects();
  ChildProcess client = StartRun();
  const pid_t pid = client.pid();
  ASSERT_TRUE(client.Signal(SIGINT).ok());
  auto exit_code = client.Wait(absl::Seconds(60));
  ASSERT_TRUE(exit_code.ok()) << Stderr();
  EXPECT_EQ(*exit_code, 103) << Stderr();
  EXPECT_TRUE(ChildrenOf(pid).empty());
  EXPECT_EQ(SharedMemoryObjects(), before);
}

TEST_F(LocalClusterTest, AStoppedWorkerFailsTheJobAndIsNotLeftBehind) {
  ChildProcess client = StartRun();
  const pid_t pid = client.pid();
  const std::set<pid_t> workers = ProcessesNaming(absl::StrCat("w2"));
  pid_t victim = -1;
  for (pid_t candidate : ChildrenOf(pid)) {
    if (workers.count(candidate) > 0) victim = candidate;
  }
  ASSERT_GT(victim, 0) << Stderr();
  ASSERT_EQ(kill(victim, SIGSTOP), 0);
  auto exit_code = client.Wait(absl::Seconds(60));
  ASSERT_TRUE(exit_code.ok()) << Stderr();
  EXPECT_EQ(*exit_code, 105) << Stderr();
  EXPECT_TRUE(ChildrenOf(pid).empty());
}

}  // namespace
}  // namespace stagecoach::testing

// Processes that end, and disks that are full, at the named places where it
// matters (base/failpoint.h). Needs --config=failpoints.
//
//   FAILPOINT_SAMPLE  how many of the deaths to try, chosen by the seed (all)
//   FAILPOINT_SEED    (1)

#include "base/failpoint.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/failpoint_server.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"
#include "tests/cluster/history_check.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

constexpr int kEverySteps = 3;

// Reached only when a worker is lost.
bool NeedsALoss(const std::string& name) {
  return name == "coordinator.recovering" || name == "coordinator.rewound";
}

// Only the first worker completes checkpoints.
bool IsTheSealers(const std::string& name) {
  return name == "worker.checkpoint.sealed" ||
         name == "worker.checkpoint.rename";
}

std::string TitleOf(const ::testing::TestParamInfo<std::string>& name) {
  std::string text = name.param;
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

class FailpointTest : public DisturbedJobTest {
 protected:
  void SetUp() override {
    if (!FailpointsAreBuilt()) GTEST_SKIP() << "needs --config=failpoints";
  }
  std::string Spec(int steps) {
    TinyJob job = TwoStageJob(steps);
    job.max_failures = 1;
    return WriteSpec(job);
  }
  std::vector<std::string> Settings() const {
    std::vector<std::string> settings = Checkpoints(kEverySteps);
    settings.push_back("recovery.neighbour_copy=true");
    return settings;
  }
  std::string SocketOf(const std::string& process) const {
    return absl::StrCat(folder(), "/", process, ".socket");
  }
  std::vector<Cluster::WorkerSpec> Workers() const {
    std::vector<Cluster::WorkerSpec> workers = SlowWorkers(2, 10);
    for (size_t i = 0; i < workers.size(); ++i) {
      workers[i].environment.emplace_back("STAGECOACH_FAILPOINT_SOCKET",
                                          SocketOf(absl::StrCat("w", i)));
    }
    return workers;
  }
  // Times that each place was reached.
  std::map<std::string, int> Reached(const std::string& process) const {
    std::map<std::string, int> reached;
    const auto list = AskFailpoints(SocketOf(process), "list");
    EXPECT_TRUE(list.ok()) << list.status();
    const std::vector<std::string> lines =
        absl::StrSplit(list.value_or(""), '\n', absl::SkipEmpty());
    for (const std::string& line : lines) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      int times = 0;
      EXPECT_TRUE(absl::SimpleAtoi(words.at(1), &times)) << line;
      reached[words[0]] = times;
    }
    return reached;
  }
  static void ExpectEnd(const json& job, const json& expected) {
    ExpectSame(job, expected);
    if (HasFatalFailure()) return;
    for (const json& recovery : job["recoveries"]) {
      EXPECT_LE(recovery["steps_redone"].get<int64_t>(), 1) << recovery;
    }
  }
  // A row of the table of deaths; `since` is the death.
  static void PrintRow(const std::string& who, const std::string& where,
                       absl::Time since, const json& job) {
    const double seconds = absl::ToDoubleSeconds(absl::Now() - since);
    int64_t redone = 0;
    for (const json& recovery : job["recoveries"]) {
      redone += recovery["steps_redone"].get<int64_t>();
    }
    seconds_.push_back(seconds);
    redone_ += redone;
    std::cout << absl::StreamFormat(
                     "| %-11s | %-33s | %d placements | %d steps redone | "
                     "ended %5.2f s later | bit-equal |\n",
                     who, where, job["recoveries"].size() + 1, redone, seconds)
              << std::flush;
  }
  // And what they add up to.
  static void TearDownTestSuite() {
    if (seconds_.empty()) return;
    std::sort(seconds_.begin(), seconds_.end());
    std::cout << absl::StreamFormat(
                     "%d deaths, seed %d: %d steps redone in all; from death "
                     "to the job's end p50 %.2f s, p99 %.2f s, max %.2f s\n",
                     seconds_.size(), FromEnvironment("FAILPOINT_SEED", 1),
                     redone_, seconds_[seconds_.size() / 2],
                     seconds_[seconds_.size() * 99 / 100], seconds_.back())
              << std::flush;
    seconds_.clear();
    redone_ = 0;
  }

 private:
  static inline std::vector<double> seconds_;
  static inline int64_t redone_ = 0;
};

TEST_F(FailpointTest, EveryPlaceIsReached) {
  auto cluster =
      Cluster::StartDurable(
          Workers(), {{"STAGECOACH_FAILPOINT_SOCKET", SocketOf("coordinator")}})
          .value();
  const std::string id = cluster->Submit(Spec(60), Settings());
  ASSERT_TRUE(WaitUntil(*cluster, id,
                        [](const json& job) {
                          return job.contains("checkpoint") &&
                                 job["checkpoint"]["step"] >= kEverySteps;
                        })
                  .is_object())
      << cluster->Logs();
  std::map<std::string, int> workers = Reached("w0");
  for (const auto& [name, times] : Reached("w1")) workers[name] += times;
  for (const std::string& name : WorkerFailpoints()) {
    EXPECT_GT(workers[name], 0) << name;
  }
  cluster->KillWorker(1);
  ASSERT_TRUE(cluster->RestartWorker(1).ok());
  ASSERT_TRUE(WaitUntil(*cluster, id,
                        [](const json& job) {
                          return !job["recoveries"].empty() &&
                                 job["state"] == "RUNNING";
                        })
                  .is_object())
      << cluster->Logs();
  cluster->Command({"job", "cancel", id});
  cluster->Command({"job", "wait", id});
  // Steps are flushed when nothing else is written for a while.
  const std::string quiet = cluster->Submit(Spec(100000));
  std::map<std::string, int> coordinator;
  WaitUntil(*cluster, quiet, [this, &coordinator](const json& /*job*/) {
    coordinator = Reached("coordinator");
    return coordinator["journal.flush.after"] > 0;
  });
  for (const std::string& name : CoordinatorFailpoints()) {
    EXPECT_GT(coordinator[name], 0) << name;
  }
  cluster->Command({"job", "cancel", quiet});
  cluster->Command({"job", "wait", quiet});
  if (HasFailure()) std::cout << cluster->Logs();
}

// ---- deaths ----

class DeathTest : public FailpointTest,
                  public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    FailpointTest::SetUp();
    if (!IsChosen(GetParam())) GTEST_SKIP() << "not in the sample";
  }
  static bool IsChosen(const std::string& name) {
    std::vector<std::string> names = CoordinatorFailpoints();
    for (const std::string& more : WorkerFailpoints()) names.push_back(more);
    const int sample = FromEnvironment("FAILPOINT_SAMPLE", 0);
    if (sample <= 0) return true;
    std::mt19937 random(
        static_cast<uint32_t>(FromEnvironment("FAILPOINT_SEED", 1)));
    for (size_t i = names.size(); i > 1; --i) {
      std::swap(names[i - 1], names[random() % i]);
    }
    names.resize(std::min(names.size(), static_cast<size_t>(sample)));
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

class CoordinatorDeathTest : public DeathTest {};
class WorkerDeathTest : public DeathTest {};

// It dies there in the middle of a job, which then ends as if it had not.
TEST_P(CoordinatorDeathTest, TheJobEndsWithTheSameBits) {
  const bool loss = NeedsALoss(GetParam());
  // What waits is written with the next event, and alone only when none comes
  // for a second: no checkpoints, and more steps.
  const bool flush = absl::StartsWith(GetParam(), "journal.flush");
  const std::string spec = Spec(flush ? 60 : 10);
  const json expected = Undisturbed(spec);
  const bool once =
      loss || flush || GetParam() == "coordinator.checkpoint.stored";
  // The first marks are written before anybody can reach it.
  const int times = GetParam() == "journal.mark" ? 8 : once ? 1 : 2;
  std::vector<std::string> settings = Settings();
  if (flush) settings = {"recovery.neighbour_copy=true"};
  auto cluster =
      Cluster::StartDurable(Workers(), {{"STAGECOACH_FAILPOINT",
                                         absl::StrCat(GetParam(), "@", times)}})
          .value();
  // It may die while it takes the job: the client asks again.
  std::vector<std::string> arguments = {
      "--endpoint", cluster->address(), "-o", "json", "job", "submit", spec};
  for (const std::string& setting : settings) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  auto client = StartClient(arguments, folder() + "/submit").value();
  if (loss) {
    ASSERT_TRUE(
        WaitUntil(*cluster, "job-1",
                  [](const json& job) { return job["steps"].size() >= 3; })
            .is_object())
        << cluster->Logs();
    cluster->KillWorker(1);
    ASSERT_TRUE(cluster->RestartWorker(1).ok());
  }
  const auto died = cluster->coordinator().Wait(absl::Seconds(120));
  ASSERT_TRUE(died.ok()) << GetParam() << " was not reached: " << died.status()
                         << cluster->Logs();
  EXPECT_EQ(*died, 128 + SIGKILL);
  const absl::Time since = absl::Now();
  ASSERT_TRUE(cluster->RestartCoordinator().ok()) << cluster->Logs();
  // Nothing was submitted, if it died before that.
  (void)client.Wait(absl::Seconds(60));
  if (cluster->Command({"job", "list"}).json["jobs"].empty()) {
    cluster->Submit(spec, settings);
  }
  EXPECT_EQ(cluster->Command({"job", "list"}).json["jobs"].size(), 1u);
  cluster->Command({"job", "wait", "job-1"});
  const json ended = cluster->Command({"job", "show", "job-1"}).json;
  ExpectEnd(ended, expected);
  CheckHistory(*cluster, "job-1",
               static_cast<int64_t>(expected["steps"].size()));
  if (HasFailure()) {
    std::cout << cluster->Logs();
  } else {
    PrintRow("coordinator", GetParam(), since, ended);
  }
}
INSTANTIATE_TEST_SUITE_P(All, CoordinatorDeathTest,
                         ::testing::ValuesIn(CoordinatorFailpoints()), TitleOf);

// It dies there and is started again: the job ends as if it had not.
TEST_P(WorkerDeathTest, TheJobEndsWithTheSameBits) {
  const std::string spec = Spec(10);
  const json expected = Undisturbed(spec);
  std::vector<Cluster::WorkerSpec> workers = Workers();
  const int victim = IsTheSealers(GetParam()) ? 0 : 1;
  workers[static_cast<size_t>(victim)].environment.emplace_back(
      "STAGECOACH_FAILPOINT", GetParam());
  auto cluster = Cluster::StartDurable(workers).value();
  const std::string id = cluster->Submit(spec, Settings());
  const auto died = cluster->worker(victim).Wait(absl::Seconds(120));
  ASSERT_TRUE(died.ok()) << GetParam() << " was not reached: " << died.status()
                         << cluster->Logs();
  EXPECT_EQ(*died, 128 + SIGKILL);
  const absl::Time since = absl::Now();
  ASSERT_TRUE(cluster->RestartWorker(victim).ok());
  cluster->Command({"job", "wait", id});
  const json ended = cluster->Command({"job", "show", id}).json;
  ExpectEnd(ended, expected);
  CheckHistory(*cluster, id, static_cast<int64_t>(expected["steps"].size()));
  // Before it was registered no job was placed on it, or one just then.
  const size_t recoveries = ended["recoveries"].size();
  EXPECT_LE(recoveries, 1u);
  if (GetParam() != "worker.register") {
    EXPECT_EQ(recoveries, 1u);
  }
  if (HasFailure()) {
    std::cout << cluster->Logs();
  } else {
    PrintRow("worker", GetParam(), since, ended);
  }
}
INSTANTIATE_TEST_SUITE_P(All, WorkerDeathTest,
                         ::testing::ValuesIn(WorkerFailpoints()), TitleOf);

// ---- slow disks ----

// A disk that takes its time costs time: nobody is lost, nothing changes.
TEST_F(FailpointTest, ASlowDiskOnlyCostsTime) {
  const std::string spec = Spec(10);
  const json expected = Undisturbed(spec);
  const Environment coordinator = {
      {"STAGECOACH_FAILPOINT_SOCKET", SocketOf("coordinator")}};
  auto cluster = Cluster::StartDurable(Workers(), coordinator).value();
  const std::string id = cluster->Submit(spec, Settings());
  ASSERT_TRUE(WaitForStep(*cluster, id, 1)) << cluster->Logs();
  const std::pair<const char*, const char*> places[] = {
      {"w0", "worker.checkpoint.sync"},
      {"w1", "worker.checkpoint.sync"},
      {"coordinator", "journal.append.before"},
      {"coordinator", "journal.flush.before"}};
  for (const auto& [process, place] : places) {
    const auto set = AskFailpoints(SocketOf(process),
                                   absl::StrCat("set ", place, " delay 500"));
    ASSERT_TRUE(set.ok()) << process << ": " << set.status();
  }
  cluster->Command({"job", "wait", id});
  const json ended = cluster->Command({"job", "show", id}).json;
  ExpectEnd(ended, expected);
  EXPECT_TRUE(ended["recoveries"].empty()) << ended["recoveries"];
  EXPECT_GE(Reached("w0")["worker.checkpoint.sync"], 3);
  if (HasFailure()) std::cout << cluster->Logs();
}

// ---- full disks ----

class FullDiskTest : public FailpointTest,
                     public ::testing::WithParamInterface<std::string> {};

// At the first, second, ... such place of the sealer, one checkpoint after the
// other: each fails and says so, the job goes on, and what is there is sound.
TEST_P(FullDiskTest, ACheckpointFailsAndTheJobGoesOn) {
  const std::string spec = Spec(14);
  const json expected = Undisturbed(spec);
  auto cluster = Cluster::Start(Workers()).value();
  const std::string id = cluster->Submit(spec, Settings());
  ASSERT_TRUE(WaitUntil(*cluster, id,
                        [](const json& job) {
                          return job.contains("checkpoint") &&
                                 job["checkpoint"]["step"] >= kEverySteps;
                        })
                  .is_object())
      << cluster->Logs();
  const auto set = AskFailpoints(SocketOf("w0"),
                                 absl::StrCat("set ", GetParam(), " error@1"));
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_TRUE(WaitUntil(*cluster, id,
                        [](const json& job) {
                          return absl::StrContains(job["checkpoint"].dump(),
                                                   "No space left on device");
                        })
                  .is_object())
      << cluster->Logs();
  cluster->Command({"job", "wait", id});
  ExpectEnd(cluster->Command({"job", "show", id}).json, expected);
  const CommandResult verified =
      RunClient({"checkpoint", "verify", folder() + "/checkpoints"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  if (HasFailure()) std::cout << cluster->Logs();
}
INSTANTIATE_TEST_SUITE_P(All, FullDiskTest,
                         ::testing::Values("worker.checkpoint.write",
                                           "worker.checkpoint.sync",
                                           "worker.checkpoint.rename"),
                         TitleOf);

}  // namespace
}  // namespace stagecoach::testing

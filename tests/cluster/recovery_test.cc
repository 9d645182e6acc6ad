// A worker dies, by SIGKILL, or stands still, in the middle of a real job: the
// job goes on, and ends with the bits of one that nothing happened to.
//
//   RECOVERY_KILLS  how often workers die during one job (3)
//   RECOVERY_SEED   of the moments and of whom (1)

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"
#include "tests/cluster/history_check.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

constexpr int kEverySteps = 2;

TinyJob RecoveringJob(int steps) {
  TinyJob job = TwoStageJob(steps);
  job.max_failures = 3;
  return job;
}

class RecoveryTest : public DisturbedJobTest {
 protected:
  // The process that `client` started with `--name NAME`; -1: none.
  static pid_t ChildNamed(pid_t client, const std::string& name) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      int pid = 0;
      if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
      std::ifstream file(entry.path() / "cmdline", std::ios::binary);
      const std::string line((std::istreambuf_iterator<char>(file)), {});
      const std::string parent = absl::StrCat("--die-with-parent=", client);
      if (line.find(parent) != std::string::npos &&
          line.find(std::string("--name\0", 7) + name) != std::string::npos) {
        return pid;
      }
    }
    return -1;
  }
  // A step that would be one too many is not committed before the checkpoint
  // behind it is complete.
  static void ExpectFewStepsRedone(const json& job) {
    for (const json& recovery : job["recoveries"]) {
      const int64_t before = recovery["steps_before"];
      const int64_t redone = recovery["steps_redone"];
      EXPECT_EQ(recovery["step"].get<int64_t>(), before - redone);
      EXPECT_LE(redone, kEverySteps) << recovery.dump();
    }
  }
};

TEST_F(RecoveryTest, AJobGoesOnThroughManyDeathsOfItsWorkers) {
  const int kills = FromEnvironment("RECOVERY_KILLS", 3);
  const int seed = FromEnvironment("RECOVERY_SEED", 1);
  std::cout << "seed " << seed << ", " << kills << " kills" << std::endl;
  std::mt19937 random(static_cast<uint32_t>(seed));
  TinyJob job = RecoveringJob(10 + 12 * kills);
  // Also one that hits a job which has not got anywhere since the last.
  job.max_failures = 2 * kills;
  const std::string spec = WriteSpec(job);
  const json expected = Undisturbed(spec);

  auto cluster = Cluster::Start(SlowWorkers(2, 20)).value();
  std::vector<std::string> settings = Checkpoints(kEverySteps);
  settings.push_back(absl::StrCat("recovery.no_progress=", kills + 1));
  const std::string id = cluster->Submit(spec, settings);
  std::vector<double> seconds;
  size_t target = 3;
  for (int kill = 0; kill < kills; ++kill) {
    ASSERT_TRUE(WaitForStep(*cluster, id, target)) << cluster->Logs();
    // At any moment of a step.
    absl::SleepFor(absl::Milliseconds(random() % 300));
    const int victim = static_cast<int>(random() % 2);
    const json before = Show(*cluster, id);
    ASSERT_EQ(before["state"], "RUNNING") << before.dump(1);
    cluster->KillWorker(victim);
    const absl::Time killed = absl::Now();
    ASSERT_TRUE(cluster->RestartWorker(victim).ok());
    const size_t recoveries = before["recoveries"].size() + 1;
    const json after =
        WaitUntil(*cluster, id, [recoveries](const json& document) {
          const json& list = document["recoveries"];
          if (list.size() < recoveries) return false;
          const json& step = list.back()["step"];
          return step.is_number() && document["steps"].size() >
                                         static_cast<size_t>(step.get<int>());
        });
    ASSERT_TRUE(after.is_object()) << cluster->Logs();
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - killed));
    target = before["steps"].size() + 3;
  }
  const json job_document = Finished(*cluster, id);
  ExpectSame(job_document, expected);
  EXPECT_EQ(job_document["recoveries"].size(), static_cast<size_t>(kills));
  CheckHistory(*cluster, id, job.steps);
  ExpectFewStepsRedone(job_document);
  int64_t redone = 0;
  for (const json& recovery : job_document["recoveries"]) {
    redone += recovery["steps_redone"].get<int64_t>();
  }
  std::sort(seconds.begin(), seconds.end());
  std::cout << "kill to the next committed step: p50 "
            << seconds[seconds.size() / 2] << " s, p99 "
            << seconds[seconds.size() * 99 / 100] << " s, max "
            << seconds.back() << " s, of " << seconds.size() << "; " << redone
            << " steps redone; bit-equal" << std::endl;
  if (HasFailure()) std::cout << cluster->Logs();
}

TEST_F(RecoveryTest, OnlyStepsSinceTheLastCheckpointAreDoneAgain) {
  const std::string spec = WriteSpec(RecoveringJob(20));
  const json expected = Undisturbed(spec);
  auto cluster = Cluster::Start(SlowWorkers(2, 20)).value();
  const std::string id = cluster->Submit(spec, Checkpoints(kEverySteps));
  const json before = WaitUntil(*cluster, id, [](const json& job) {
    return job.contains("checkpoint") && job["checkpoint"]["step"] >= 4;
  });
  ASSERT_TRUE(before.is_object()) << cluster->Logs();
  const int64_t stored = before["checkpoint"]["step"];
  cluster->KillWorker(1);
  ASSERT_TRUE(cluster->RestartWorker(1).ok());
  const json job = Finished(*cluster, id);
  ExpectSame(job, expected);
  ASSERT_EQ(job["recoveries"].size(), 1u) << cluster->Logs();
  const json& recovery = job["recoveries"][0];
  EXPECT_GE(recovery["step"].get<int64_t>(), stored);
  EXPECT_EQ(recovery["cause"]["worker"], "w1");
  EXPECT_EQ(recovery["victims"], json({"w0"}));
  EXPECT_GT(recovery["seconds_lost"].get<double>(), 0);
  ExpectFewStepsRedone(job);
  if (HasFailure()) std::cout << cluster->Logs();
}

// With a spare, and without checkpoints.
TEST_F(RecoveryTest, AStoppedWorkerIsReplacedAndComesBackAsASpare) {
  const std::string spec = WriteSpec(RecoveringJob(6));
  const json expected = Undisturbed(spec);
  auto cluster = Cluster::Start(SlowWorkers(3, 20)).value();
  ASSERT_TRUE(WaitForIdle(*cluster, 3)) << cluster->Logs();
  const std::string id = cluster->Submit(spec);
  ASSERT_TRUE(WaitForStep(*cluster, id, 2)) << cluster->Logs();
  ASSERT_TRUE(cluster->worker(0).Signal(SIGSTOP).ok());
  // It comes back once the others have been placed.
  ASSERT_TRUE(WaitUntil(*cluster, id,
                        [](const json& job) {
                          return !job["recoveries"].empty() &&
                                 job["state"] != "RECOVERING";
                        })
                  .is_object())
      << cluster->Logs();
  ASSERT_TRUE(cluster->worker(0).Signal(SIGCONT).ok());
  const json job = Finished(*cluster, id);
  ExpectSame(job, expected);
  ASSERT_EQ(job["recoveries"].size(), 1u) << cluster->Logs();
  EXPECT_EQ(job["recoveries"][0]["cause"]["worker"], "w0");
  EXPECT_EQ(job["recoveries"][0]["step"], 0);
  EXPECT_EQ(job["workers"][0]["worker"], "w1");
  EXPECT_EQ(job["workers"][1]["worker"], "w2");
  EXPECT_TRUE(WaitForIdle(*cluster, 3)) << cluster->Logs();
}

TEST_F(RecoveryTest, AJobWithTooManyFailuresNamesTheLast) {
  auto cluster = Cluster::Start(SlowWorkers(2, 20)).value();
  const std::string id = cluster->Submit(WriteSpec(RecoveringJob(1000)),
                                         {"recovery.max_failures=1"});
  ASSERT_TRUE(WaitForStep(*cluster, id, 1)) << cluster->Logs();
  cluster->KillWorker(0);
  ASSERT_TRUE(cluster->RestartWorker(0).ok());
  ASSERT_TRUE(WaitUntil(*cluster, id,
                        [](const json& job) {
                          return !job["recoveries"].empty() &&
                                 job["state"] == "RUNNING" &&
                                 !job["steps"].empty();
                        })
                  .is_object())
      << cluster->Logs();
  cluster->KillWorker(1);
  EXPECT_EQ(cluster->Command({"job", "wait", id}).exit_code, 105);
  const json job = Show(*cluster, id);
  EXPECT_EQ(job["state"], "FAILED");
  EXPECT_EQ(job["cause"]["worker"], "w1") << job.dump(1);
  EXPECT_EQ(job["recoveries"].size(), 1u);
  EXPECT_EQ(job["recoveries"][0]["cause"]["worker"], "w0");
}

TEST_F(RecoveryTest, ALocalRunStartsADeadWorkerAgain) {
  const std::string spec = WriteSpec(RecoveringJob(12));
  const json expected = Undisturbed(spec);
  auto client =
      StartClient({"run", spec, "--local", "-o", "json"}, folder() + "/stderr",
                  {{"STAGECOACH_WORKER_BINARY", FaultyWorkerBinary()},
                   {"SLOW_ACTION_MS", "30"},
                   {"TMPDIR", folder()}})
          .value();
  const auto said = [this](const std::string& text) {
    return absl::StrContains(ReadFile("stderr"), text);
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (absl::Now() < deadline && !said("step")) {
  }
  const pid_t victim = ChildNamed(client.pid(), "w1");
  ASSERT_GT(victim, 0);
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  std::string out;
  while (true) {
    const auto line = client.ReadLine(absl::Minutes(2));
    if (!line.ok()) break;
    absl::StrAppend(&out, *line, "\n");
  }
  EXPECT_EQ(client.Wait(absl::Minutes(2)).value_or(-1), 0) << out;
  ExpectSame(json::parse(out, nullptr, false), expected);
  EXPECT_TRUE(said("worker w1 was ended by signal 9; started again (1 of"));
  EXPECT_TRUE(said("RECOVERING"));
}

}  // namespace
}  // namespace stagecoach::testing

// A worker dies, by SIGKILL, or stands still, in the middle of a real job: the
// job goes on, and ends with the bits of one that nothing happened to.
//
//   RECOVERY_KILLS  how often workers die during one job (3)
//   RECOVERY_SEED   of the moments and of whom (1)

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

constexpr int kEverySteps = 2;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// Actions are slow, so that a step lasts for some tenths of a second.
std::vector<Cluster::WorkerSpec> SlowWorkers(int count) {
  Cluster::WorkerSpec worker;
  worker.binary = FaultyWorkerBinary();
  worker.environment = {{"SLOW_ACTION_MS", "20"}};
  return std::vector<Cluster::WorkerSpec>(static_cast<size_t>(count), worker);
}

TinyJob Job(int steps) {
  TinyJob job;
  job.layers = 2;
  job.hidden = 16;
  job.heads = 2;
  job.sequence = 8;
  job.microbatches = 4;
  job.microbatch_size = 1;
  job.workers = 2;
  job.steps = steps;
  job.max_failures = 3;
  return job;
}

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() { folder_.Write("text.txt", SampleText()); }
  std::string Spec(const TinyJob& job) {
    return folder_.Write("job.toml", job.ToToml("text.txt"));
  }
  std::vector<std::string> Checkpoints() const {
    return {absl::StrCat("checkpoint.directory=\"", folder_.path(),
                         "/checkpoints\""),
            absl::StrCat("checkpoint.every_steps=", kEverySteps)};
  }
  static json Undisturbed(const std::string& spec) {
    auto cluster = Cluster::Start(2).value();
    return cluster->RunJob(spec);
  }
  static json Show(const Cluster& cluster, const std::string& id) {
    return cluster.Command({"job", "show", id}).json;
  }
  // Asks again and again until `done` says yes of the job's document, which is
  // returned; null after two minutes.
  template <typename Condition>
  static json WaitUntil(const Cluster& cluster, const std::string& id,
                        const Condition& done) {
    const absl::Time deadline = absl::Now() + absl::Seconds(120);
    while (absl::Now() < deadline) {
      json job = Show(cluster, id);
      if (job.is_object() && done(job)) return job;
    }
    return nullptr;
  }
  static bool WaitForStep(const Cluster& cluster, const std::string& id,
                          size_t steps) {
    return !WaitUntil(cluster, id, [steps](const json& job) {
              return job["steps"].size() >= steps;
            }).is_null();
  }
  static json Finished(const Cluster& cluster, const std::string& id) {
    cluster.Command({"job", "wait", id});
    return Show(cluster, id);
  }
  static bool WaitForIdle(const Cluster& cluster, size_t count) {
    const absl::Time deadline = absl::Now() + absl::Seconds(120);
    while (absl::Now() < deadline) {
      const json list = cluster.Command({"worker", "list"}).json;
      if (!list.is_object()) continue;
      const json& workers = list["workers"];
      if (std::count_if(workers.begin(), workers.end(), [](const json& worker) {
            return worker["state"] == "IDLE";
          }) == static_cast<int64_t>(count)) {
        return true;
      }
    }
    return false;
  }
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
  // The same training, step by step and bit by bit.
  static void ExpectSame(const json& job, const json& expected) {
    ASSERT_TRUE(job.is_object());
    ASSERT_EQ(expected["state"], "SUCCEEDED") << expected.dump(1);
    ASSERT_EQ(job["state"], "SUCCEEDED") << job.dump(1);
    ASSERT_EQ(job["steps"].size(), expected["steps"].size());
    for (size_t i = 0; i < job["steps"].size(); ++i) {
      for (const char* key :
           {"step", "loss", "grad_norm", "learning_rate", "skipped"}) {
        EXPECT_EQ(job["steps"][i][key], expected["steps"][i][key])
            << key << " of step " << i;
      }
    }
    EXPECT_EQ(job["parameters_sha256"], expected["parameters_sha256"]);
  }
  // The checkpoint of a boundary is under way until the next one at most, where
  // the job waits for it.
  static void ExpectFewStepsRedone(const json& job) {
    for (const json& recovery : job["recoveries"]) {
      const int64_t before = recovery["steps_before"];
      const int64_t redone = recovery["steps_redone"];
      EXPECT_EQ(recovery["step"].get<int64_t>(), before - redone);
      EXPECT_LE(redone, 2 * kEverySteps) << recovery.dump();
    }
  }

  TemporaryFolder folder_;
};

TEST_F(RecoveryTest, AJobGoesOnThroughManyDeathsOfItsWorkers) {
  const int kills = FromEnvironment("RECOVERY_KILLS", 3);
  const int seed = FromEnvironment("RECOVERY_SEED", 1);
  std::cout << "seed " << seed << ", " << kills << " kills" << std::endl;
  std::mt19937 random(static_cast<uint32_t>(seed));
  TinyJob job = Job(10 + 12 * kills);
  // Also one that hits a job which has not got anywhere since the last.
  job.max_failures = 2 * kills;
  const std::string spec = Spec(job);
  const json expected = Undisturbed(spec);

  auto cluster = Cluster::Start(SlowWorkers(2)).value();
  std::vector<std::string> settings = Checkpoints();
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
  const std::string spec = Spec(Job(20));
  const json expected = Undisturbed(spec);
  auto cluster = Cluster::Start(SlowWorkers(2)).value();
  const std::string id = cluster->Submit(spec, Checkpoints());
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
  const std::string spec = Spec(Job(6));
  const json expected = Undisturbed(spec);
  auto cluster = Cluster::Start(SlowWorkers(3)).value();
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
  auto cluster = Cluster::Start(SlowWorkers(2)).value();
  const std::string id =
      cluster->Submit(Spec(Job(1000)), {"recovery.max_failures=1"});
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
  const std::string spec = Spec(Job(12));
  const json expected = Undisturbed(spec);
  const std::string log = folder_.path() + "/stderr";
  auto client = StartClient({"run", spec, "--local", "-o", "json"}, log,
                            {{"STAGECOACH_WORKER_BINARY", FaultyWorkerBinary()},
                             {"SLOW_ACTION_MS", "30"},
                             {"TMPDIR", folder_.path()}})
                    .value();
  const auto said = [&log](const std::string& text) {
    std::ifstream file(log);
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    return all.find(text) != std::string::npos;
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

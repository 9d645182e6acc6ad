// A job under faults, one after the other: workers and the coordinator die,
// stand still, are told to end. It ends with the bits of an undisturbed run.
//
//   CHAOS_SECONDS  about how long (45)
//   CHAOS_EVERY    seconds from one fault to the next (15)
//   CHAOS_SEED     of which and whom (1)

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

// Of one step of workers with SLOW_ACTION_MS = 20 on two cores, about.
constexpr double kStepSeconds = 0.2;

class ChaosTest : public DisturbedJobTest {
 protected:
  std::string Spec(int steps) {
    TinyJob job = ThreeStageJob(steps);
    job.max_failures = 1000000;
    return WriteSpec(job);
  }
  json Document() const {
    for (int i = 0; i < 20; ++i) {
      json job = cluster_->Command({"job", "show", id_}).json;
      if (job.is_object()) return job;
    }
    return nullptr;
  }
  // Does one; its name.
  std::string Disturb(std::mt19937& random) {
    const int victim = static_cast<int>(random() % 4);
    switch (random() % 5) {
      case 0:
      case 1:
        cluster_->KillWorker(victim);
        EXPECT_TRUE(cluster_->RestartWorker(victim).ok());
        return "worker killed";
      case 2:
        cluster_->KillCoordinator();
        EXPECT_TRUE(cluster_->RestartCoordinator().ok());
        return "coordinator killed";
      case 3:
        EXPECT_TRUE(cluster_->worker(victim).Signal(SIGSTOP).ok());
        absl::SleepFor(absl::Seconds(1));
        EXPECT_TRUE(cluster_->worker(victim).Signal(SIGCONT).ok());
        return "worker stood still for 1 s";
      default:
        EXPECT_TRUE(cluster_->worker(victim).Signal(SIGTERM).ok());
        EXPECT_EQ(cluster_->worker(victim).Wait(absl::Seconds(60)).value_or(-1),
                  0);
        EXPECT_TRUE(cluster_->RestartWorker(victim).ok());
        return "worker told to end";
    }
  }

  std::unique_ptr<Cluster> cluster_;
  std::string id_;
};

TEST_F(ChaosTest, AJobEndsWithTheSameBits) {
  const int seconds = FromEnvironment("CHAOS_SECONDS", 45);
  const int every = FromEnvironment("CHAOS_EVERY", 15);
  const int seed = FromEnvironment("CHAOS_SEED", 1);
  const int steps = std::max(20, static_cast<int>(seconds / kStepSeconds));
  std::cout << "seed " << seed << ", " << steps << " steps, a fault every "
            << every << " s" << std::endl;
  std::mt19937 random(static_cast<uint32_t>(seed));
  const std::string spec = Spec(steps);
  const json expected = Cluster::Start(3).value()->RunJob(spec);
  ASSERT_EQ(expected["state"], "SUCCEEDED");

  // The fourth is the spare.
  cluster_ = Cluster::StartDurable(SlowWorkers(4, 20)).value();
  std::vector<std::string> settings = Checkpoints(25);
  settings.push_back("recovery.neighbour_copy=true");
  settings.push_back("recovery.no_progress=100");
  id_ = cluster_->Submit(spec, settings);
  std::map<std::string, int> faults;
  absl::Time due = absl::Now() + absl::Seconds(every);
  const absl::Time begin = absl::Now();
  // Far longer than it may take, so that a hang is found.
  const absl::Time deadline = begin + absl::Seconds(10 * seconds + 300);
  json job = Document();
  while (job.is_object() && absl::Now() < deadline) {
    const std::string state = job["state"];
    if (state == "SUCCEEDED" || state == "FAILED") break;
    if (absl::Now() >= due) {
      ++faults[Disturb(random)];
      due = absl::Now() + absl::Seconds(every);
    }
    absl::SleepFor(absl::Milliseconds(200));
    job = Document();
  }
  const double wall = absl::ToDoubleSeconds(absl::Now() - begin);
  ASSERT_TRUE(job.is_object()) << cluster_->Logs();
  ASSERT_EQ(job["state"], "SUCCEEDED") << job.dump(1) << cluster_->Logs();
  ASSERT_EQ(job["steps"].size(), expected["steps"].size());
  double useful = 0;
  std::vector<double> lengths;
  for (size_t i = 0; i < job["steps"].size(); ++i) {
    EXPECT_EQ(job["steps"][i]["loss"], expected["steps"][i]["loss"]) << i;
    lengths.push_back(job["steps"][i]["seconds"].get<double>());
  }
  // A step that a fault fell into counts as one that nothing happened to.
  std::sort(lengths.begin(), lengths.end());
  useful = lengths[lengths.size() / 2] * static_cast<double>(lengths.size());
  EXPECT_EQ(job["parameters_sha256"], expected["parameters_sha256"]);
  int64_t redone = 0;
  int64_t most = 0;
  for (const json& recovery : job["recoveries"]) {
    redone += recovery["steps_redone"].get<int64_t>();
    most = std::max(most, recovery["steps_redone"].get<int64_t>());
  }
  for (const auto& [name, count] : faults) {
    std::cout << absl::StreamFormat("%4d x %s\n", count, name);
  }
  std::cout << absl::StreamFormat(
                   "%d recoveries, %d steps redone, at most %d at once; useful "
                   "time %.1f %% of %.0f s; bit-equal\n",
                   job["recoveries"].size(), redone, most,
                   100 * std::min(1.0, useful / wall), wall)
            << std::flush;
  if (HasFailure()) std::cout << cluster_->Logs();
}

}  // namespace
}  // namespace stagecoach::testing

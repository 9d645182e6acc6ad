// A job under faults, one after the other: workers and the coordinator die,
// stand still, are told to end. It ends with the bits of an undisturbed run.
//
//   CHAOS_SECONDS  about how long (45)
//   CHAOS_EVERY    seconds from one fault to the next (15)
//   CHAOS_SEED     of which and whom (1)
//   CHAOS_USEFUL   percent of the time that must have been useful (0)
//
// Useful is the time that the steps which were kept would have taken without
// faults: their number times the length of the median one. What faults make a
// step longer, and steps that are done again, count for nothing.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"
#include "tests/cluster/history_check.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

// Of one forward more than it takes.
constexpr int kSlowMilliseconds = 20;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<double> LengthsOf(const json& job) {
  std::vector<double> lengths;
  for (const json& step : job["steps"]) {
    lengths.push_back(step["seconds"].get<double>());
  }
  return lengths;
}

class ChaosTest : public DisturbedJobTest {
 protected:
  std::string Spec(int steps) {
    TinyJob job = ThreeStageJob(steps);
    job.max_failures = 1000000;
    return WriteSpec(job);
  }
  // How many steps `seconds` leave time for.
  int StepsIn(int seconds) {
    const json job = Cluster::Start(SlowWorkers(3, kSlowMilliseconds))
                         .value()
                         ->RunJob(Spec(40), {"recovery.neighbour_copy=true"});
    EXPECT_EQ(job["state"], "SUCCEEDED") << job.dump(1);
    if (HasFailure()) return 0;
    return std::max(20, static_cast<int>(seconds / Median(LengthsOf(job))));
  }
  static json InPeace(const std::string& spec) {
    auto cluster = Cluster::Start(3).value();
    const std::string id = cluster->Submit(spec);
    cluster->Command({"job", "wait", id}, absl::Hours(2));
    return Show(*cluster, id);
  }
  // Of the job; from the list, which does not hold its thousands of steps.
  std::string State() const {
    for (int i = 0; i < 20; ++i) {
      const json list = cluster_->Command({"job", "list"}).json;
      if (!list.is_object()) continue;
      for (const json& job : list["jobs"]) {
        if (job["id"] == id_) return job["state"];
      }
    }
    return "";
  }
  bool HasEnded() const {
    const std::string state = State();
    return state.empty() || state == "SUCCEEDED" || state == "FAILED";
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
  // Until the job has ended, or for far longer than it may take.
  void DisturbUntilItEnds(int every, absl::Time deadline,
                          std::mt19937& random) {
    const absl::Time begin = absl::Now();
    absl::Time due = begin + absl::Seconds(every);
    while (!HasEnded() && absl::Now() < deadline) {
      if (absl::Now() >= due) {
        const double at = absl::ToDoubleSeconds(absl::Now() - begin);
        const std::string fault = Disturb(random);
        ++faults_[fault];
        due += absl::Seconds(every);
        std::cout << absl::StreamFormat("%7.1f s: %s\n", at, fault)
                  << std::flush;
      }
      absl::SleepFor(absl::Milliseconds(300));
    }
  }
  // Where the time went: by fault that begins a recovery, and else by step.
  void PrintLosses(const json& job, double median) const {
    double recovering = 0;
    double longest = 0;
    int64_t redone = 0;
    int64_t most = 0;
    for (const json& recovery : job["recoveries"]) {
      const double lost = recovery["seconds_lost"].get<double>();
      recovering += lost;
      longest = std::max(longest, lost);
      redone += recovery["steps_redone"].get<int64_t>();
      most = std::max(most, recovery["steps_redone"].get<int64_t>());
    }
    double stretched = 0;
    for (const double length : LengthsOf(job)) {
      if (length > 3 * median) stretched += length - median;
    }
    for (const auto& [name, count] : faults_) {
      std::cout << absl::StreamFormat("%4d x %s\n", count, name);
    }
    std::cout << absl::StreamFormat(
        "%d recoveries: %.1f s until the next step, at most %.1f s; %d steps "
        "redone, at most %d at once\nsteps more than three times as long as "
        "the median of %.3f s: %.1f s longer in all\n",
        job["recoveries"].size(), recovering, longest, redone, most, median,
        stretched);
  }

  std::unique_ptr<Cluster> cluster_;
  std::string id_;
  std::map<std::string, int> faults_;
};

TEST_F(ChaosTest, AJobEndsWithTheSameBits) {
  const int seconds = FromEnvironment("CHAOS_SECONDS", 45);
  const int every = FromEnvironment("CHAOS_EVERY", 15);
  const int seed = FromEnvironment("CHAOS_SEED", 1);
  const int steps = StepsIn(seconds);
  ASSERT_GT(steps, 0);
  std::cout << "seed " << seed << ", " << steps << " steps, a fault every "
            << every << " s" << std::endl;
  std::mt19937 random(static_cast<uint32_t>(seed));
  const std::string spec = Spec(steps);
  const json expected = InPeace(spec);
  ASSERT_EQ(expected["state"], "SUCCEEDED");

  // The fourth is the spare.
  cluster_ = Cluster::StartDurable(SlowWorkers(4, kSlowMilliseconds)).value();
  ASSERT_TRUE(WaitForIdle(*cluster_, 4)) << cluster_->Logs();
  std::vector<std::string> settings = Checkpoints(25);
  settings.push_back("recovery.neighbour_copy=true");
  settings.push_back("recovery.no_progress=100");
  id_ = cluster_->Submit(spec, settings);
  const absl::Time begin = absl::Now();
  DisturbUntilItEnds(every, begin + absl::Seconds(10 * seconds + 300), random);
  const double wall = absl::ToDoubleSeconds(absl::Now() - begin);
  const json job = Show(*cluster_, id_);
  ASSERT_TRUE(job.is_object()) << cluster_->Logs();
  ASSERT_EQ(job["state"], "SUCCEEDED")
      << job["reason"] << job["recoveries"].dump(1) << cluster_->Logs();
  ExpectSame(job, expected);
  CheckHistory(*cluster_, id_, steps);
  if (HasFailure()) std::cout << cluster_->Logs();
  const double median = Median(LengthsOf(job));
  PrintLosses(job, median);
  const double useful = 100 * median * steps / wall;
  std::cout << absl::StreamFormat(
                   "useful time %.1f %% of %.0f s (%d steps of %.3f s); %s\n",
                   useful, wall, steps, median,
                   HasFailure() ? "NOT bit-equal" : "bit-equal")
            << std::flush;
  EXPECT_GE(useful, FromEnvironment("CHAOS_USEFUL", 0));
}

}  // namespace
}  // namespace stagecoach::testing

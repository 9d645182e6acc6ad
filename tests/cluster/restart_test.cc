// The coordinator dies, by SIGKILL, in the middle of real jobs, and is started
// again: the job does not notice.
//
//   RESTART_KILLS  how often it dies during one job (8)
//   RESTART_SEED   of the moments (1)

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"
#include "tests/cluster/history_check.h"

namespace stagecoach::testing {
namespace {

class RestartTest : public DisturbedJobTest {
 protected:
  // Nothing happened to the job but its regular life. How many events it has.
  static int ExpectUndisturbedHistory(const Cluster& cluster,
                                      const std::string& id, int64_t steps) {
    std::map<std::string, int> count = CheckHistory(cluster, id, steps);
    int events = 0;
    for (const auto& [kind, times] : count) events += times;
    EXPECT_EQ(count["recovering"] + count["rewound"], 0);
    EXPECT_EQ(count["step"], steps);
    for (const char* once : {"submitted", "placed", "running", "succeeded"}) {
      EXPECT_EQ(count[once], 1) << once;
    }
    return events;
  }
};

TEST_F(RestartTest, AJobGoesOnThroughManyDeathsOfItsCoordinator) {
  const int kills = FromEnvironment("RESTART_KILLS", 8);
  const int seed = FromEnvironment("RESTART_SEED", 1);
  std::cout << "seed " << seed << ", " << kills << " kills" << std::endl;
  std::mt19937 random(static_cast<uint32_t>(seed));
  // More steps than the kills leave time for.
  const std::string spec = WriteSpec(TwoStageJob(20 + 16 * kills));
  const nlohmann::json expected = Undisturbed(spec);
  ASSERT_EQ(expected["state"], "SUCCEEDED") << expected.dump(1);

  auto cluster = Cluster::StartDurable(SlowWorkers(2, 5)).value();
  const std::string id = cluster->Submit(spec);
  ASSERT_TRUE(WaitForStep(*cluster, id, 1)) << cluster->Logs();
  // One client follows the job through it all.
  const auto follow = [&] {
    return StartClient(
        {"--endpoint", cluster->address(), "-o", "json", "job", "wait", id},
        folder() + "/follower");
  };
  auto follower = follow();
  ASSERT_TRUE(follower.ok()) << follower.status();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (ReadFile("follower").empty() && absl::Now() < deadline) {
  }
  std::vector<double> seconds;
  size_t before = 0;
  int during_the_job = 0;
  int kills_done = 0;
  for (int kill = 0; kill < kills; ++kill) {
    // As soon as it is up, in the midst of its workers' coming back, or some
    // steps later.
    if (const size_t more = random() % 3; more > 0) {
      ASSERT_TRUE(WaitForStep(*cluster, id, before + more)) << cluster->Logs();
    }
    cluster->KillCoordinator();
    ++kills_done;
    const absl::Time killed = absl::Now();
    ASSERT_TRUE(cluster->RestartCoordinator().ok()) << cluster->Logs();
    const bool wait_for_progress = random() % 4 > 0;
    if (!wait_for_progress) continue;
    ASSERT_TRUE(WaitForStep(*cluster, id, before + 1)) << cluster->Logs();
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - killed));
    const nlohmann::json job = Show(*cluster, id);
    if (!job.is_object()) continue;
    before = job["steps"].size();
    if (job["state"] != "RUNNING") break;
    ++during_the_job;
  }
  EXPECT_GT(during_the_job, kills / 4);
  // Its document is more than a pipe holds.
  const auto end_of = [](ChildProcess& client) {
    while (client.ReadLine(absl::Minutes(5)).ok()) {
    }
    return client.Wait(absl::Minutes(5)).value_or(-1);
  };
  int followed = end_of(*follower);
  int gave_up = 0;
  // It does not wait for more than 10 s, and a great many deaths, one upon the
  // other, may let nobody in for so long on a busy machine.
  while (followed == 3 && kills > 20 && gave_up < kills) {
    ++gave_up;
    follower = follow();
    ASSERT_TRUE(follower.ok()) << follower.status();
    followed = end_of(*follower);
  }
  EXPECT_EQ(followed, 0) << ReadFile("follower") << cluster->Logs();
  const nlohmann::json job = Show(*cluster, id);
  ExpectSame(job, expected);
  EXPECT_TRUE(job["recoveries"].empty()) << job["recoveries"];
  const int entries = ExpectUndisturbedHistory(
      *cluster, id, static_cast<int64_t>(expected["steps"].size()));
  ASSERT_FALSE(seconds.empty());
  std::sort(seconds.begin(), seconds.end());
  std::cout << absl::StreamFormat(
      "%d kills, %d of them seen to leave the job running; kill to the next "
      "step seen: p50 %.2f s, p99 %.2f s, max %.2f s, of %d; %d events, no "
      "false one; %d steps, lost 0, done twice 0; its follower gave up %d "
      "times; %s\n",
      kills_done, during_the_job, seconds[seconds.size() / 2],
      seconds[seconds.size() * 99 / 100], seconds.back(), seconds.size(),
      entries, job["steps"].size(), gave_up,
      HasFailure() ? "NOT as undisturbed" : "bit-equal");
  if (HasFailure()) std::cout << cluster->Logs();
}

TEST_F(RestartTest, ACancelSurvivesARestart) {
  auto cluster = Cluster::StartDurable(SlowWorkers(2, 5)).value();
  const std::string id = cluster->Submit(WriteSpec(TwoStageJob(100000)));
  ASSERT_TRUE(WaitForStep(*cluster, id, 2)) << cluster->Logs();
  // A worker that cannot let go yet keeps the job from ending before the kill.
  ASSERT_TRUE(cluster->worker(1).Signal(SIGSTOP).ok());
  EXPECT_EQ(cluster->Command({"job", "cancel", id}).exit_code, 0);
  cluster->KillCoordinator();
  ASSERT_TRUE(cluster->RestartCoordinator().ok()) << cluster->Logs();
  ASSERT_TRUE(cluster->worker(1).Signal(SIGCONT).ok());
  EXPECT_EQ(cluster->Command({"job", "wait", id}).exit_code, 103)
      << cluster->Logs();
  // The workers are free for the next.
  const nlohmann::json next = cluster->RunJob(WriteSpec(TwoStageJob(3)));
  EXPECT_EQ(next["state"], "SUCCEEDED") << cluster->Logs();
}

TEST_F(RestartTest, AFinishedJobIsRememberedAndTheDirectoryIsSound) {
  auto cluster = Cluster::StartDurable(SlowWorkers(2, 0)).value();
  const nlohmann::json before = cluster->RunJob(WriteSpec(TwoStageJob(5)));
  ASSERT_EQ(before["state"], "SUCCEEDED") << cluster->Logs();
  cluster->KillCoordinator();
  SpawnOptions check;
  check.program = CoordinatorBinary();
  check.arguments = {"check", cluster->data_directory()};
  check.pipe_stdout = true;
  check.die_with_parent = false;
  auto child = ChildProcess::Spawn(check).value();
  const std::string line = child.ReadLine(absl::Seconds(60)).value_or("");
  EXPECT_TRUE(absl::StrContains(line, "is sound")) << line;
  EXPECT_EQ(child.Wait(absl::Seconds(60)).value_or(-1), 0);
  ASSERT_TRUE(cluster->RestartCoordinator().ok()) << cluster->Logs();
  const nlohmann::json after =
      cluster->Command({"job", "show", before["job_id"].get<std::string>()})
          .json;
  EXPECT_EQ(after.dump(), before.dump());
}

}  // namespace
}  // namespace stagecoach::testing

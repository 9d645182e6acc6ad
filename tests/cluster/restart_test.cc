// The coordinator dies, by SIGKILL, in the middle of real jobs, and is started
// again: the job does not notice.
//
//   RESTART_KILLS  how often it dies during one job (8)
//   RESTART_SEED   of the moments (1)

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/failpoint.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"

namespace stagecoach::testing {
namespace {

class RestartTest : public DisturbedJobTest {};

TEST_F(RestartTest, AJobGoesOnThroughManyDeathsOfItsCoordinator) {
  const int kills = FromEnvironment("RESTART_KILLS", 8);
  const int seed = FromEnvironment("RESTART_SEED", 1);
  std::cout << "seed " << seed << ", " << kills << " kills" << std::endl;
  std::mt19937 random(static_cast<uint32_t>(seed));
  // More steps than the kills leave time for.
  const std::string spec = WriteSpec(TwoStageJob(20 + 12 * kills));
  const nlohmann::json expected = Undisturbed(spec);
  ASSERT_EQ(expected["state"], "SUCCEEDED") << expected.dump(1);

  auto cluster = Cluster::StartDurable(SlowWorkers(2, 5)).value();
  const std::string id = cluster->Submit(spec);
  ASSERT_TRUE(WaitForStep(*cluster, id, 1)) << cluster->Logs();
  // One client follows the job through it all.
  auto follower = StartClient(
      {"--endpoint", cluster->address(), "-o", "json", "job", "wait", id},
      folder() + "/follower");
  ASSERT_TRUE(follower.ok()) << follower.status();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (ReadFile("follower").empty() && absl::Now() < deadline) {
  }
  std::vector<double> seconds;
  size_t before = 0;
  int during_the_job = 0;
  for (int kill = 0; kill < kills; ++kill) {
    // As soon as it is up, in the midst of its workers' coming back, or some
    // steps later.
    if (const size_t more = random() % 3; more > 0) {
      ASSERT_TRUE(WaitForStep(*cluster, id, before + more)) << cluster->Logs();
    }
    cluster->KillCoordinator();
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
  EXPECT_EQ(follower->Wait(absl::Minutes(5)).value_or(-1), 0)
      << ReadFile("follower") << cluster->Logs();
  const nlohmann::json job = Show(*cluster, id);
  ExpectSame(job, expected);
  std::sort(seconds.begin(), seconds.end());
  std::cout << "kill to the next step seen: p50 " << seconds[seconds.size() / 2]
            << " s, p99 " << seconds[seconds.size() * 99 / 100] << " s, max "
            << seconds.back() << " s, of " << seconds.size()
            << "; steps lost 0, done twice 0" << std::endl;
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

// ---- failpoints -------------------------------------------------------------

class FailpointTest : public RestartTest,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (!FailpointsAreBuilt()) {
      GTEST_SKIP() << "needs --config=failpoints";
    }
  }
};

class CoordinatorFailpointTest : public FailpointTest {};
class WorkerFailpointTest : public FailpointTest {};

// It dies there in the middle of a job, which then ends as if it had not.
TEST_P(CoordinatorFailpointTest, TheJobEndsWithTheSameBits) {
  // Some are reached only when a worker is lost, and once.
  const bool recovers = GetParam() == "coordinator.recovering" ||
                        GetParam() == "coordinator.rewound";
  TinyJob job = TwoStageJob(8);
  job.max_failures = recovers ? 1 : 0;
  const std::string spec = WriteSpec(job);
  const nlohmann::json expected = Undisturbed(spec);
  auto cluster = Cluster::StartDurable(
                     SlowWorkers(2, 30),
                     {{"STAGECOACH_FAILPOINT",
                       absl::StrCat(GetParam(), recovers ? "@1" : "@2")}})
                     .value();
  // It may die while it takes the job: the client asks again.
  auto client = StartClient({"--endpoint", cluster->address(), "-o", "json",
                             "job", "submit", spec},
                            folder() + "/submit")
                    .value();
  if (recovers) {
    ASSERT_TRUE(WaitForStep(*cluster, "job-1", 2)) << cluster->Logs();
    cluster->KillWorker(1);
    ASSERT_TRUE(cluster->RestartWorker(1).ok());
  }
  const auto died = cluster->coordinator().Wait(absl::Seconds(60));
  ASSERT_TRUE(died.ok()) << GetParam() << " was not reached: " << died.status()
                         << cluster->Logs();
  EXPECT_EQ(*died, 128 + SIGKILL);
  ASSERT_TRUE(cluster->RestartCoordinator().ok()) << cluster->Logs();
  // Nothing was submitted, if it died before that.
  (void)client.Wait(absl::Seconds(60));
  if (cluster->Command({"job", "list"}).json["jobs"].empty()) {
    cluster->Submit(spec);
  }
  EXPECT_EQ(cluster->Command({"job", "list"}).json["jobs"].size(), 1u);
  cluster->Command({"job", "wait", "job-1"});
  ExpectSame(cluster->Command({"job", "show", "job-1"}).json, expected);
  if (HasFailure()) std::cout << cluster->Logs();
}

INSTANTIATE_TEST_SUITE_P(All, CoordinatorFailpointTest,
                         ::testing::ValuesIn(CoordinatorFailpoints()),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '.', '_');
                           return text;
                         });

// It dies there and is started again: the job ends as if it had not.
TEST_P(WorkerFailpointTest, TheJobEndsWithTheSameBits) {
  TinyJob job = TwoStageJob(8);
  job.max_failures = 1;
  const std::string spec = WriteSpec(job);
  const nlohmann::json expected = Undisturbed(spec);
  std::vector<Cluster::WorkerSpec> workers = SlowWorkers(2, 5);
  // Only the first worker completes checkpoints.
  const int victim = GetParam() == "worker.checkpoint.sealed" ? 0 : 1;
  workers[static_cast<size_t>(victim)].environment.emplace_back(
      "STAGECOACH_FAILPOINT", GetParam());
  auto cluster = Cluster::StartDurable(workers).value();
  const std::string id = cluster->Submit(spec, Checkpoints(3));
  const auto died = cluster->worker(victim).Wait(absl::Seconds(60));
  ASSERT_TRUE(died.ok()) << GetParam() << " was not reached: " << died.status()
                         << cluster->Logs();
  EXPECT_EQ(*died, 128 + SIGKILL);
  ASSERT_TRUE(cluster->RestartWorker(victim).ok());
  cluster->Command({"job", "wait", id});
  const nlohmann::json ended = Show(*cluster, id);
  ExpectSame(ended, expected);
  // Before it was registered no job was placed on it.
  EXPECT_EQ(ended["recoveries"].size(),
            GetParam() == "worker.register" ? 0u : 1u);
  if (HasFailure()) std::cout << cluster->Logs();
}

INSTANTIATE_TEST_SUITE_P(All, WorkerFailpointTest,
                         ::testing::ValuesIn(WorkerFailpoints()),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '.', '_');
                           return text;
                         });

}  // namespace
}  // namespace stagecoach::testing

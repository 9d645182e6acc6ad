// Jobs from the command line, from submission to the end.

#include <gtest/gtest.h>
#include <signal.h>

#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

class JobLifeTest : public ::testing::Test {
 protected:
  JobLifeTest() { folder_.Write("text.txt", SampleText()); }
  std::string Spec(const TinyJob& job) {
    return folder_.Write("job.toml", job.ToToml("text.txt"));
  }
  TemporaryFolder folder_;
};

TEST_F(JobLifeTest, RunLocalTrainsAndSummarises) {
  TinyJob job;
  job.steps = 10;
  const CommandResult run =
      RunClient({"-o", "json", "run", Spec(job), "--local"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  ASSERT_TRUE(run.json.is_object()) << run.out;
  EXPECT_EQ(run.json["state"], "SUCCEEDED");
  EXPECT_EQ(run.json["transport"], "shm");
  ASSERT_EQ(run.json["steps"].size(), 10u);
  EXPECT_LT(run.json["steps"][9]["loss"].get<double>(),
            run.json["steps"][0]["loss"].get<double>());
  EXPECT_EQ(run.json["workers"].size(), 4u);
  EXPECT_EQ(run.json["stages"].size(), 4u);
  EXPECT_GT(run.json["stages"][0]["released_bytes"].get<int64_t>(), 0);
  EXPECT_GT(run.json["workers"][0]["measured_peak_bytes"].get<int64_t>(), 0);
}

TEST_F(JobLifeTest, VerifyComparesWithASingleProcess) {
  TinyJob job;
  job.workers = 2;
  const CommandResult verify = RunClient({"verify", Spec(job)});
  EXPECT_EQ(verify.exit_code, 0) << verify.err << verify.out;
}

// Live memory figures while steps run; the categories are the whole.
TEST_F(JobLifeTest, CategoriesAddUpToAllocatedBytesWhileTheJobRuns) {
  auto cluster = Cluster::Start(2).value();
  TinyJob job;
  job.workers = 2;
  job.steps = 100000;
  const std::string id = cluster->Submit(Spec(job));
  int in_step = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (int sample = 0; sample < 20 && absl::Now() < deadline;) {
    const nlohmann::json memory =
        cluster->Command({"memory", "stats", id}).json;
    if (!memory.is_object() || memory["workers"].size() != 2) continue;
    ++sample;
    for (const auto& worker : memory["workers"]) {
      int64_t sum = 0;
      for (const auto& category : worker["categories"]) {
        sum += category["current"].get<int64_t>();
      }
      EXPECT_EQ(sum, worker["allocated_bytes"]["current"].get<int64_t>())
          << worker.dump(1);
      EXPECT_EQ(worker["allocated_bytes"]["allocated"].get<int64_t>() -
                    worker["allocated_bytes"]["freed"].get<int64_t>(),
                worker["allocated_bytes"]["current"].get<int64_t>());
      if (worker["step"].is_number()) ++in_step;  // null between steps
    }
  }
  EXPECT_GT(in_step, 0);
  EXPECT_EQ(cluster->Command({"job", "cancel", id}).exit_code, 0);
  EXPECT_EQ(cluster->Command({"job", "wait", id}).exit_code, 103);
  EXPECT_EQ(cluster->Command({"job", "show", id}).json["state"], "CANCELLED");
}

TEST_F(JobLifeTest, JobsQueueForWorkersAndRunOneAfterTheOther) {
  auto cluster = Cluster::Start(2).value();
  TinyJob job;
  job.workers = 2;
  const std::string spec = Spec(job);
  const std::string first = cluster->Submit(spec);
  const std::string second = cluster->Submit(spec);
  ASSERT_NE(first, second);
  EXPECT_EQ(cluster->Command({"job", "wait", second}).exit_code, 0);
  const nlohmann::json a = cluster->Command({"job", "show", first}).json;
  const nlohmann::json b = cluster->Command({"job", "show", second}).json;
  EXPECT_EQ(a["state"], "SUCCEEDED");
  EXPECT_EQ(a["parameters_sha256"], b["parameters_sha256"]);
  const nlohmann::json list = cluster->Command({"job", "list"}).json;
  EXPECT_EQ(list["jobs"].size(), 2u);
}

TEST_F(JobLifeTest, AJobWaitsForItsWorkers) {
  auto cluster = Cluster::Start(1).value();
  TinyJob job;
  job.workers = 2;
  const std::string id = cluster->Submit(Spec(job));
  EXPECT_EQ(cluster->Command({"job", "wait", id, "--timeout", "1s"}).exit_code,
            101);
  const nlohmann::json queued = cluster->Command({"job", "show", id}).json;
  EXPECT_EQ(queued["state"], "QUEUED");
  EXPECT_NE(queued["reason"].get<std::string>().find("worker"),
            std::string::npos);
  EXPECT_EQ(cluster->Command({"job", "cancel", id}).exit_code, 0);
  EXPECT_EQ(cluster->Command({"job", "show", "no-such-job"}).exit_code, 102);
}

TEST_F(JobLifeTest, BadSpecsAreRefusedBeforeAnythingStarts) {
  TinyJob job;
  job.heads = 5;
  const CommandResult heads = RunClient({"run", Spec(job), "--local"});
  EXPECT_EQ(heads.exit_code, 2);
  EXPECT_NE(heads.err.find("job.toml:"), std::string::npos) << heads.err;
  job.heads = 4;
  job.workers = 9;
  EXPECT_EQ(RunClient({"run", Spec(job), "--local"}).exit_code, 2);
  const CommandResult missing =
      RunClient({"run", folder_.path() + "/none.toml", "--local"});
  EXPECT_EQ(missing.exit_code, 2) << missing.err;
}

TEST_F(JobLifeTest, AWorkerWithALivesNameIsRefused) {
  auto cluster = Cluster::Start(1).value();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (cluster->Command({"worker", "list"}).json["workers"].empty() &&
         absl::Now() < deadline) {
  }
  SpawnOptions spawn;
  spawn.program = WorkerBinary();
  spawn.arguments = {"--coordinator", cluster->address(), "--name", "w0"};
  auto twin = ChildProcess::Spawn(spawn).value();
  auto exit_code = twin.Wait(absl::Seconds(60));
  ASSERT_TRUE(exit_code.ok());
  EXPECT_EQ(*exit_code, 6);
}

}  // namespace
}  // namespace stagecoach::testing

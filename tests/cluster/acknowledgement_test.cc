// Acknowledgements that go wrong between real processes.

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

std::vector<Cluster::WorkerSpec> Workers(const std::string& faults) {
  Cluster::WorkerSpec worker;
  worker.binary = FaultyWorkerBinary();
  worker.environment = {{"FAULTS", faults}};
  return std::vector<Cluster::WorkerSpec>(2, worker);
}

TinyJob TwoWorkerJob() {
  TinyJob job;
  job.workers = 2;
  job.layers = 4;
  job.microbatches = 12;
  return job;
}

class AcknowledgementTest : public ::testing::Test {
 protected:
  AcknowledgementTest() { folder_.Write("text.txt", SampleText()); }
  std::string Spec(const TinyJob& job) {
    return folder_.Write("job.toml", job.ToToml("text.txt"));
  }
  TemporaryFolder folder_;
};

TEST_F(AcknowledgementTest, OddOnesChangeNothingAndAreCounted) {
  const std::string spec = Spec(TwoWorkerJob());
  auto plain = Cluster::Start(2).value();
  const std::string expected = BitsOf(plain->RunJob(spec));
  plain.reset();

  auto faulty = Cluster::Start(Workers("duplicate_ack_every=3,"
                                       "stale_ack_every=4,unknown_ack_every=5,"
                                       "delay_ack_polls=2,reorder_acks=1"))
                    .value();
  const std::string id = faulty->Submit(spec);
  faulty->Command({"job", "wait", id});
  const nlohmann::json result = faulty->Command({"job", "show", id}).json;
  ASSERT_EQ(result.value("state", ""), "SUCCEEDED") << faulty->Logs();
  EXPECT_EQ(BitsOf(result), expected);
  const nlohmann::json memory = faulty->Command({"memory", "stats", id}).json;
  ASSERT_EQ(memory["workers"].size(), 2u) << memory.dump(1);
  for (const auto& worker : memory["workers"]) {
    const nlohmann::json& counters = worker["acknowledgements"];
    // 3 steps of 12 transfers, and one tied gradient each way a step.
    EXPECT_EQ(counters["accepted"], 3 * 12 + 3);
    EXPECT_GT(counters["duplicate"].get<int>(), 0);
    EXPECT_GT(counters["stale_epoch"].get<int>(), 0);
    EXPECT_GT(counters["unknown"].get<int>(), 0);
    EXPECT_EQ(worker["pending_acknowledgement"]["transfers"], 0);
  }
}

// One acknowledgement of worker 0's second activation never comes: its bytes
// stay, at K = 1 worker 0 sends nothing more, and nobody else is harmed: the
// job can be cancelled, and the cluster runs the next one.
TEST_F(AcknowledgementTest, OneThatNeverComesHoldsBytesAndSender) {
  TinyJob job = TwoWorkerJob();
  job.send_budget = 1;
  job.schedule = "gpipe";
  job.tied = false;
  const std::string spec = Spec(job);
  std::vector<Cluster::WorkerSpec> workers = Workers("lose_ack_at=2");
  workers[1] = Cluster::WorkerSpec();
  auto cluster = Cluster::Start(workers).value();
  const std::string id = cluster->Submit(spec);
  const int64_t output_bytes =
      int64_t{4} * job.microbatch_size * job.sequence * job.hidden;

  // The job comes to rest: ask until worker 0 has waited for a while.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  nlohmann::json pending;
  double oldest = 0;
  while (oldest < 1.0 && absl::Now() < deadline) {
    const nlohmann::json memory =
        cluster->Command({"memory", "stats", id}).json;
    if (!memory.is_object() || memory["workers"].empty()) continue;
    pending = memory["workers"][0]["pending_acknowledgement"];
    oldest = pending.value("oldest_seconds", 0.0);
  }
  ASSERT_GE(oldest, 1.0) << cluster->Logs();
  // The lost one is pending; the next waits for budget: produced, not sent.
  EXPECT_EQ(pending["transfers"], 1);
  EXPECT_EQ(pending["bytes"], output_bytes);

  EXPECT_EQ(cluster->Command({"job", "cancel", id}).exit_code, 0);
  EXPECT_EQ(cluster->Command({"job", "wait", id}).exit_code, 103);
  const nlohmann::json after = cluster->Command({"job", "show", id}).json;
  EXPECT_EQ(after["state"], "CANCELLED");
  EXPECT_EQ(after["stages"][0]["discarded_bytes"].get<int64_t>(), output_bytes)
      << after.dump(1);
}

// And it ends: once all workers have waited for each other for a while, the job
// is placed again, on the same ones.
TEST_F(AcknowledgementTest, OneThatNeverComesCostsAPlacementAndNoBit) {
  TinyJob job = TwoWorkerJob();
  job.send_budget = 1;
  job.schedule = "gpipe";
  job.tied = false;
  job.max_failures = 1;
  const std::string spec = Spec(job);
  auto plain = Cluster::Start(2).value();
  const std::string expected = BitsOf(plain->RunJob(spec));
  plain.reset();

  std::vector<Cluster::WorkerSpec> workers = Workers("lose_ack_at=2");
  workers[0].environment.emplace_back("FAULTS_ONCE", "1");
  workers[1] = Cluster::WorkerSpec();
  auto cluster =
      Cluster::StartDurable(workers, {}, {"--stuck-wait", "5s"}).value();
  const nlohmann::json result = cluster->RunJob(spec);
  ASSERT_EQ(result.value("state", ""), "SUCCEEDED") << cluster->Logs();
  EXPECT_EQ(BitsOf(result), expected);
  ASSERT_EQ(result["recoveries"].size(), 1u) << result["recoveries"];
  const nlohmann::json& cause = result["recoveries"][0]["cause"];
  EXPECT_EQ(cause["worker"], "w0");
  EXPECT_TRUE(absl::StrContains(cause["message"].get<std::string>(),
                                "w0 waits for send budget"))
      << cause;
}

}  // namespace
}  // namespace stagecoach::testing

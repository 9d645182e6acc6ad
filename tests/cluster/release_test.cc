// What is held, released and retained, as the owning processes' ledgers and
// allocators count it.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

constexpr int kWorkers = 4;
constexpr int kMicrobatches = 16;

TinyJob ReleaseJob() {
  TinyJob job;
  job.workers = kWorkers;
  job.microbatches = kMicrobatches;
  job.steps = 2;
  return job;
}
// Bytes of one activation of ReleaseJob.
int64_t OutputBytes(const TinyJob& job) {
  return int64_t{4} * job.microbatch_size * job.sequence * job.hidden;
}

nlohmann::json RunOn(const Cluster& cluster, const TinyJob& job) {
  TemporaryFolder folder;
  folder.Write("text.txt", SampleText());
  nlohmann::json result =
      cluster.RunJob(folder.Write("job.toml", job.ToToml("text.txt")));
  EXPECT_EQ(result.value("state", ""), "SUCCEEDED")
      << result.dump(1) << cluster.Logs();
  return result;
}

int64_t Number(const nlohmann::json& object, const char* key) {
  return object.at(key).get<int64_t>();
}

// Outputs held at most under "never", as the acceptance formula counts them:
// activations that cross the wire, from their forward to their backward.
int64_t NeverFormula(const std::string& schedule, int worker) {
  if (schedule == "gpipe") return worker == kWorkers - 1 ? 0 : kMicrobatches;
  if (schedule == "1f1b") {
    return worker == kWorkers - 1 ? 0
                                  : std::min(kMicrobatches, kWorkers - worker);
  }
  return -1;
}

class ReleaseTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::Start(kWorkers).value().release();
  }
  static void TearDownTestSuite() { delete cluster_; }
  static Cluster* cluster_;
};
Cluster* ReleaseTest::cluster_ = nullptr;

TEST_F(ReleaseTest, NeverHoldsWhatTheScheduleCounts) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    TinyJob job = ReleaseJob();
    job.schedule = schedule;
    job.release = "never";
    const nlohmann::json result = RunOn(*cluster_, job);
    for (int w = 0; w < kWorkers; ++w) {
      EXPECT_EQ(Number(result["workers"][w], "outputs_held_peak_bytes"),
                NeverFormula(schedule, w) * OutputBytes(job))
          << schedule << " worker " << w;
    }
    for (const auto& stage : result["stages"]) {
      EXPECT_EQ(Number(stage, "retained_bytes"),
                Number(stage, "outputs_sent_bytes"));
      EXPECT_EQ(Number(stage, "released_bytes"), 0);
    }
  }
}

// The simulator knows the count for any schedule: `schedule simulate` agrees
// with what the ledgers counted.
TEST_F(ReleaseTest, NeverHoldsWhatTheSimulatorSaysForInterleaved) {
  TinyJob job = ReleaseJob();
  job.schedule = "interleaved";
  job.stages_per_worker = 2;
  job.release = "never";
  const nlohmann::json result = RunOn(*cluster_, job);
  TemporaryFolder folder;
  const std::string file = absl::StrCat(folder.path(), "/schedule");
  const CommandResult generated = RunClient(
      {"schedule", "generate", "--kind", "interleaved", "--workers", "4",
       "--stages-per-worker", "2", "--microbatches", "16", "--out", file});
  ASSERT_EQ(generated.exit_code, 0) << generated.err;
  const CommandResult simulated =
      RunClient({"-o", "json", "schedule", "simulate", file});
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  for (int w = 0; w < kWorkers; ++w) {
    EXPECT_EQ(Number(result["workers"][w], "outputs_held_peak_bytes"),
              Number(simulated.json["workers"][w], "peak_held_outputs_never") *
                  OutputBytes(job));
  }
}

TEST_F(ReleaseTest, AcknowledgedHoldsAtMostTheBudgetAndOneMore) {
  std::cout << "schedule      K  held peak per worker in outputs (bound)\n";
  for (const char* schedule : {"gpipe", "1f1b", "interleaved"}) {
    for (int budget : {1, 2}) {
      TinyJob job = ReleaseJob();
      job.schedule = schedule;
      job.stages_per_worker = job.schedule == "interleaved" ? 2 : 1;
      job.send_budget = budget;
      const nlohmann::json result = RunOn(*cluster_, job);
      std::cout << schedule << "  K=" << budget;
      for (int w = 0; w < kWorkers; ++w) {
        const int64_t held =
            Number(result["workers"][w], "outputs_held_peak_bytes");
        EXPECT_LE(held, (1 + budget) * OutputBytes(job));
        std::cout << "  " << held / OutputBytes(job) << " (" << 1 + budget
                  << ")";
      }
      std::cout << std::endl;
      for (const auto& stage : result["stages"]) {
        const int64_t sent = Number(stage, "outputs_sent_bytes");
        EXPECT_EQ(Number(stage, "released_bytes"),
                  sent - Number(stage, "retained_bytes") -
                      Number(stage, "discarded_bytes"));
        EXPECT_EQ(Number(stage, "retained_bytes"), 0);
        EXPECT_EQ(sent,
                  Number(stage, "output_bytes") * job.microbatches * job.steps);
      }
      // The last stage sends nothing, every other one does.
      EXPECT_EQ(Number(result["stages"].back(), "output_bytes"), 0);
      EXPECT_EQ(Number(result["stages"].front(), "output_bytes"),
                OutputBytes(job));
    }
  }
}

std::vector<Cluster::WorkerSpec> FaultyWorkers(const Environment& environment,
                                               bool poison) {
  Cluster::WorkerSpec worker;
  worker.binary = FaultyWorkerBinary();
  worker.environment = environment;
  if (poison) worker.arguments = {"--poison-freed"};
  return std::vector<Cluster::WorkerSpec>(kWorkers, worker);
}

TEST(ReleaseFaultsTest, AStageThatEndsInTanhReportsItsOutputsAsRetained) {
  auto cluster = Cluster::Start(FaultyWorkers({{"TANH", "1"}}, true)).value();
  TinyJob job = ReleaseJob();
  job.split = job.EvenSplit();  // the cuts are part of this model
  const nlohmann::json result = RunOn(*cluster, job);
  for (int s = 0; s + 1 < kWorkers; ++s) {
    const nlohmann::json& stage = result["stages"][s];
    EXPECT_EQ(Number(stage, "retained_bytes"),
              Number(stage, "outputs_sent_bytes"));
    EXPECT_EQ(Number(stage, "released_bytes"), 0);
    ASSERT_EQ(stage["retained_by"].size(), 1u) << stage.dump(1);
    EXPECT_EQ(stage["retained_by"][0]["op"], "TanhBackward0");
    EXPECT_EQ(Number(stage["retained_by"][0], "bytes"),
              Number(stage, "retained_bytes"));
  }
  // The same model, whose stages are the same cuts, under another policy and
  // schedule: retention changes no bit.
  job.release = "never";
  job.schedule = "gpipe";
  EXPECT_EQ(BitsOf(RunOn(*cluster, job)), BitsOf(result));
}

TEST(ReleaseFaultsTest, ALateReaderOfPoisonedMemoryChangesNothing) {
  TinyJob job = ReleaseJob();
  auto plain = Cluster::Start(kWorkers).value();
  const std::string expected = BitsOf(RunOn(*plain, job));
  plain.reset();
  auto delayed = Cluster::Start(FaultyWorkers({{"FAULTS",
                                                "delay_receive_polls=5,"
                                                "delay_ack_polls=3"}},
                                              true))
                     .value();
  for (const char* schedule : {"gpipe", "1f1b"}) {
    job.schedule = schedule;
    EXPECT_EQ(BitsOf(RunOn(*delayed, job)), expected) << schedule;
  }
}

// The figures are measured: an output that somebody keeps is seen.
TEST(ReleaseFaultsTest, ALeakedOutputIsSeenInFigureAndVerdict) {
  auto workers = FaultyWorkers({}, false);
  workers[1].environment = {{"LEAK_OUTPUT", "3"}};
  auto cluster = Cluster::Start(workers).value();
  const TinyJob job = ReleaseJob();
  const nlohmann::json result = RunOn(*cluster, job);
  for (int s = 0; s < kWorkers; ++s) {
    const nlohmann::json& stage = result["stages"][s];
    const int64_t leaked = s == 1 ? OutputBytes(job) : 0;
    EXPECT_EQ(Number(stage, "retained_bytes"), leaked) << "stage " << s;
    EXPECT_EQ(Number(stage, "released_bytes"),
              Number(stage, "outputs_sent_bytes") - leaked);
    if (s == 1) {
      EXPECT_EQ(stage["retained_by"][0]["op"], "unknown");
    }
  }
}

}  // namespace
}  // namespace stagecoach::testing

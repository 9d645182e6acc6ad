// A worker dies, by SIGKILL, and its neighbour's copy takes its place: no disk,
// and one step at most is done again.

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

TinyJob Job(int steps) {
  TinyJob job = ThreeStageJob(steps);
  job.max_failures = 3;
  return job;
}

class NeighbourCopyTest : public DisturbedJobTest {
 protected:
  // Three for the job, and a spare.
  std::string Start(const std::string& spec,
                    const std::vector<std::string>& settings = {}) {
    cluster_ = Cluster::Start(SlowWorkers(4, 30)).value();
    EXPECT_TRUE(WaitForIdle(*cluster_, 4)) << cluster_->Logs();
    return cluster_->Submit(spec, settings);
  }
  // Which of the cluster's workers has the job's place `index`.
  static int WorkerAt(const json& job, size_t index) {
    const std::string name = job["workers"][index]["worker"];
    return name.back() - '0';
  }

  static double Peak(const json& worker) {
    return worker["measured_peak_bytes"].get<double>();
  }
  static void ExpectPredicted(const json& worker) {
    EXPECT_GE(Peak(worker), 0.99 * worker["predicted_low_bytes"].get<double>())
        << worker.dump(1);
    EXPECT_LE(Peak(worker), 1.01 * worker["predicted_peak_bytes"].get<double>())
        << worker.dump(1);
  }

  std::unique_ptr<Cluster> cluster_;
};

// The first and the last have the tied head's two ends; a spare takes a place,
// so that stages change their workers.
TEST_F(NeighbourCopyTest, ALostWorkerCostsOneStepAndNoDisk) {
  const std::string spec = WriteSpec(Job(30));
  const json expected = Cluster::Start(3).value()->RunJob(spec);
  const std::string id = Start(spec, {"recovery.neighbour_copy=true"});
  size_t target = 3;
  size_t kills = 0;
  for (const size_t place : {1u, 0u, 2u}) {
    const json before = WaitUntil(*cluster_, id, [target](const json& job) {
      return job["state"] == "RUNNING" && job["steps"].size() >= target;
    });
    ASSERT_TRUE(before.is_object()) << cluster_->Logs();
    const int victim = WorkerAt(before, place);
    cluster_->KillWorker(victim);
    ++kills;
    ASSERT_TRUE(WaitUntil(*cluster_, id,
                          [kills](const json& job) {
                            return job["recoveries"].size() >= kills &&
                                   job["state"] == "RUNNING";
                          })
                    .is_object())
        << cluster_->Logs();
    ASSERT_TRUE(cluster_->RestartWorker(victim).ok());
    target = before["steps"].size() + 3;
  }
  const json job = Finished(*cluster_, id);
  ExpectSame(job, expected);
  ASSERT_EQ(job["recoveries"].size(), kills);
  for (const json& recovery : job["recoveries"]) {
    EXPECT_LE(recovery["steps_redone"].get<int64_t>(), 1) << recovery.dump();
    EXPECT_GE(recovery["step"].get<int64_t>(), 2) << recovery.dump();
  }
  EXPECT_FALSE(job.contains("checkpoint"));
  if (HasFailure()) std::cout << cluster_->Logs();
}

// Whole, and with a first stage that is wholly frozen and a head that is tied
// to its embedding.
TEST_F(NeighbourCopyTest, CopiesArePredictedAndChangeNoBit) {
  const std::string spec = WriteSpec(Job(4));
  auto cluster = Cluster::Start(3).value();
  json whole;
  for (const std::string freeze :
       {"[]", "[\"transformer.w\", \"transformer.h.0.\"]"}) {
    SCOPED_TRACE(freeze);
    const std::string freezing = "training.freeze=" + freeze;
    const json without = cluster->RunJob(spec, {freezing});
    const json with =
        cluster->RunJob(spec, {freezing, "recovery.neighbour_copy=true"});
    ExpectSame(with, without);
    for (size_t i = 0; i < 3; ++i) {
      const json& worker = with["workers"][i];
      ExpectPredicted(worker);
      // Weights and AdamW's two moments: its own and its neighbour's.
      EXPECT_GT(Peak(worker), Peak(without["workers"][i]));
    }
    if (whole.is_null()) {
      whole = with;
      continue;
    }
    EXPECT_NE(with["parameters_sha256"], whole["parameters_sha256"]);
    EXPECT_LT(Peak(with["workers"][0]), Peak(whole["workers"][0]));
  }
  if (HasFailure()) std::cout << cluster->Logs();
}

// SIGTERM: the job moves to the spare at its next step boundary, and the worker
// ends with exit code 0. That is no failure.
TEST_F(NeighbourCopyTest, AWorkerThatIsToldToEndHandsOver) {
  TinyJob tiny = Job(20);
  tiny.max_failures = 0;
  const std::string spec = WriteSpec(tiny);
  const json expected = Cluster::Start(3).value()->RunJob(spec);
  const std::string id = Start(spec);
  const json before = WaitUntil(
      *cluster_, id, [](const json& job) { return job["steps"].size() >= 3; });
  ASSERT_TRUE(before.is_object()) << cluster_->Logs();
  const int leaving = WorkerAt(before, 1);
  ASSERT_TRUE(cluster_->worker(leaving).Signal(SIGTERM).ok());
  EXPECT_EQ(cluster_->worker(leaving).Wait(absl::Seconds(120)).value_or(-1), 0);
  const json job = Finished(*cluster_, id);
  ExpectSame(job, expected);
  ASSERT_EQ(job["recoveries"].size(), 1u);
  EXPECT_EQ(job["recoveries"][0]["steps_redone"], 0);
  EXPECT_EQ(job["recoveries"][0]["cause"]["worker"],
            absl::StrCat("w", leaving));
  if (HasFailure()) std::cout << cluster_->Logs();
}

}  // namespace
}  // namespace stagecoach::testing

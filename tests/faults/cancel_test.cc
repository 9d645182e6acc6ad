// A job is cancelled in the middle of whatever it does: nothing of it is left,
// and the next one runs. Prints a table.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

class CancelTest : public DisturbedJobTest {
 protected:
  std::string Spec(int steps, int max_failures = 0) {
    TinyJob job = TwoStageJob(steps);
    job.send_budget = 1;
    job.max_failures = max_failures;
    return WriteSpec(job);
  }
  std::vector<Cluster::WorkerSpec> Workers(
      const Environment& environment) const {
    std::filesystem::create_directory(folder() + "/tmp");
    Cluster::WorkerSpec worker;
    worker.binary = FaultyWorkerBinary();
    worker.environment = environment;
    worker.environment.emplace_back("TMPDIR", folder() + "/tmp");
    return {worker, worker};
  }
  void Submit(const std::string& spec,
              const std::vector<std::string>& settings = {}) {
    id_ = cluster_->Submit(spec, settings);
  }
  void WaitForSteps(size_t steps) {
    ASSERT_TRUE(WaitForStep(*cluster_, id_, steps)) << cluster_->Logs();
  }
  int PartialFolders() const {
    const std::string checkpoints = folder() + "/checkpoints";
    int count = 0;
    if (!std::filesystem::exists(checkpoints)) return 0;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints)) {
      count += absl::StrContains(entry.path().string(), ".partial");
    }
    return count;
  }
  // Sockets and files of the workers, which have a folder for them.
  int TemporaryFiles() const {
    const std::filesystem::recursive_directory_iterator all(folder() + "/tmp");
    return static_cast<int>(std::distance(begin(all), end(all)));
  }
  // Cancels, and looks for what is left with `workers` of them.
  void CancelWhile(const std::string& what, int workers) {
    const absl::Time begin = absl::Now();
    EXPECT_EQ(cluster_->Command({"job", "cancel", id_}).exit_code, 0);
    EXPECT_EQ(cluster_->Command({"job", "wait", id_}).exit_code, 103);
    const absl::Duration took = absl::Now() - begin;
    EXPECT_EQ(cluster_->Command({"job", "show", id_}).json["state"],
              "CANCELLED");
    EXPECT_TRUE(WaitForIdle(*cluster_, workers)) << cluster_->Logs();
    // Behind the last word to the coordinator.
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (absl::Now() < deadline && PartialFolders() > 0) {
    }
    const int left = PartialFolders();
    EXPECT_EQ(left, 0);
    row_ = absl::StrFormat(
        "| %-13s | cancelled after %4.0f ms | %d idle | %d partial folders",
        what, absl::ToDoubleMilliseconds(took), workers, left);
  }
  // Without what was in the way of this one.
  void EndWorkers() {
    int ended = 0;
    for (int i = 0; i < 2; ++i) {
      cluster_->worker(i).Signal(SIGTERM).IgnoreError();
      const int code = cluster_->worker(i).Wait(absl::Seconds(60)).value_or(-1);
      EXPECT_EQ(code, 0) << "w" << i;
      ended += code == 0 ? 1 : 0;
    }
    const int files = TemporaryFiles();
    EXPECT_EQ(files, 0);
    std::cout << row_
              << absl::StreamFormat(
                     " | %d of 2 processes ended | %d files and sockets |\n",
                     ended, files)
              << std::flush;
    if (HasFailure()) std::cout << cluster_->Logs();
  }

  std::unique_ptr<Cluster> cluster_;
  std::string id_;
  std::string row_;
};

TEST_F(CancelTest, WhileComputing) {
  cluster_ = Cluster::Start(Workers({{"SLOW_ACTION_MS", "100"}})).value();
  Submit(Spec(1000));
  WaitForSteps(1);
  CancelWhile("computing", 2);
  EndWorkers();
}

// The acknowledgement of a transfer never comes.
TEST_F(CancelTest, WhileSending) {
  cluster_ = Cluster::Start(Workers({{"FAULTS", "lose_ack_at=2"}})).value();
  Submit(Spec(1000));
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  bool pending = false;
  while (!pending && absl::Now() < deadline) {
    const json held = cluster_->Command({"memory", "stats", id_}).json;
    if (!held.is_object() || !held.contains("workers")) continue;
    for (const json& worker : held["workers"]) {
      pending |=
          worker["pending_acknowledgement"]["oldest_seconds"].get<double>() >
          0.5;
    }
  }
  EXPECT_TRUE(pending) << cluster_->Logs();
  CancelWhile("sending", 2);
  EndWorkers();
}

// One is under way at all times.
TEST_F(CancelTest, WhileWritingCheckpoints) {
  cluster_ = Cluster::Start(Workers({})).value();
  Submit(Spec(100000),
         {absl::StrCat("checkpoint.directory=\"", folder(), "/checkpoints\""),
          "checkpoint.every_steps=1"});
  WaitForSteps(3);
  CancelWhile("checkpointing", 2);
  EndWorkers();
}

TEST_F(CancelTest, WhileRecovering) {
  cluster_ = Cluster::Start(Workers({{"SLOW_ACTION_MS", "20"}})).value();
  Submit(Spec(1000, /*max_failures=*/3), {"recovery.neighbour_copy=true"});
  WaitForSteps(2);
  cluster_->KillWorker(1);
  ASSERT_TRUE(WaitUntil(*cluster_, id_, [](const json& job) {
                return job["state"] == "RECOVERING";
              }).is_object());
  CancelWhile("recovering", 1);
  ASSERT_TRUE(cluster_->RestartWorker(1).ok());
  // Its copies are gone, too: another job takes both workers.
  EXPECT_EQ(cluster_->RunJob(Spec(2))["state"], "SUCCEEDED")
      << cluster_->Logs();
  EndWorkers();
}

}  // namespace
}  // namespace stagecoach::testing

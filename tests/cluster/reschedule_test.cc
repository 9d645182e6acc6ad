// A running job takes other schedules between its steps; its numbers stay.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

// Long enough that a job is still running when it is rescheduled.
constexpr int kSteps = 12;

std::vector<Cluster::WorkerSpec> SlowWorkers(int count) {
  Cluster::WorkerSpec slow;
  slow.binary = FaultyWorkerBinary();
  slow.environment = {{"SLOW_ACTION_MS", "25"}};
  return std::vector<Cluster::WorkerSpec>(static_cast<size_t>(count), slow);
}

nlohmann::json Show(const Cluster& cluster, const std::string& job) {
  return cluster.Command({"job", "show", job}).json;
}

// Asks until the job has committed more than `steps`, or has ended.
size_t WaitForSteps(const Cluster& cluster, const std::string& job,
                    size_t steps) {
  while (true) {
    const nlohmann::json shown = Show(cluster, job);
    const size_t committed = shown["steps"].size();
    if (committed > steps || shown["state"] != "RUNNING") {
      if (shown["state"] != "PLACING" && shown["state"] != "QUEUED" &&
          shown["state"] != "PLANNING") {
        return committed;
      }
    }
  }
}

TEST(RescheduleTest, TheNumbersAreThoseOfAnUndisturbedRun) {
  TemporaryFolder folder;
  TinyJob tiny;
  tiny.workers = 2;
  tiny.layers = 4;
  tiny.microbatches = 4;
  tiny.steps = kSteps;
  const std::string spec = folder.Write(
      "job.toml", tiny.ToToml(folder.Write("data.txt", SampleText())));
  auto cluster = Cluster::Start(SlowWorkers(2));
  ASSERT_TRUE(cluster.ok()) << cluster.status();

  const std::string job = (*cluster)->Submit(spec);
  std::vector<std::string> taken;
  for (const char* kind : {"zb-h1", "gpipe", "eager-1f1b"}) {
    const size_t before = WaitForSteps(**cluster, job, 0);
    ASSERT_LT(before, size_t{kSteps}) << "too quick to be rescheduled";
    const CommandResult asked = (*cluster)->Command(
        {"job", "reschedule", job, "--schedule", kind, "--send-budget", "1"});
    ASSERT_EQ(asked.exit_code, 0) << asked.err << (*cluster)->Logs();
    WaitForSteps(**cluster, job, before + 1);
    taken.push_back(Show(**cluster, job)["schedule"]);
  }
  EXPECT_EQ(taken, (std::vector<std::string>{"zb-h1", "gpipe", "eager-1f1b"}));
  ASSERT_EQ((*cluster)->Command({"job", "wait", job}).exit_code, 0)
      << (*cluster)->Logs();
  const nlohmann::json rescheduled = Show(**cluster, job);

  const nlohmann::json undisturbed =
      (*cluster)->RunJob(spec, {"pipeline.schedule=1f1b"});
  ASSERT_EQ(undisturbed["state"], "SUCCEEDED");
  EXPECT_EQ(rescheduled["parameters_sha256"], undisturbed["parameters_sha256"]);
  ASSERT_EQ(rescheduled["steps"].size(), size_t{kSteps});
  for (size_t i = 0; i < size_t{kSteps}; ++i) {
    EXPECT_EQ(rescheduled["steps"][i]["step"], static_cast<int>(i));
    EXPECT_EQ(rescheduled["steps"][i]["loss"], undisturbed["steps"][i]["loss"]);
    EXPECT_EQ(rescheduled["steps"][i]["grad_norm"],
              undisturbed["steps"][i]["grad_norm"]);
  }
}

}  // namespace
}  // namespace stagecoach::testing

#ifndef STAGECOACH_TESTS_CLUSTER_DISTURBED_JOB_H_
#define STAGECOACH_TESTS_CLUSTER_DISTURBED_JOB_H_

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cluster/cluster.h"

namespace stagecoach::testing {

// An integer from the environment; `otherwise` where there is none.
int FromEnvironment(const char* name, int otherwise);

// Workers whose forwards take `milliseconds` longer, so that something can
// happen in the middle of a step.
std::vector<Cluster::WorkerSpec> SlowWorkers(int count, int milliseconds);

// Two stages of one layer, four microbatches: with slow workers a step is long,
// without it is short.
TinyJob TwoStageJob(int steps);
// The same with three.
TinyJob ThreeStageJob(int steps);

// Fixture of tests that run a job twice: once in peace, once not.
class DisturbedJobTest : public ::testing::Test {
 protected:
  DisturbedJobTest();
  std::string WriteSpec(const TinyJob& job) const;
  // Settings for checkpoints of every `every_steps`-th step, in folder().
  std::vector<std::string> Checkpoints(int every_steps) const;
  // Everything in a file in folder().
  std::string ReadFile(const std::string& name) const;
  const std::string& folder() const { return folder_.path(); }

  // What a cluster of two fast workers makes of it.
  static nlohmann::json Undisturbed(const std::string& spec);
  // The document of `job show`.
  static nlohmann::json Show(const Cluster& cluster, const std::string& id);
  // Of `job show` once the job has ended.
  static nlohmann::json Finished(const Cluster& cluster, const std::string& id);
  // Asks again and again until `done` says yes of the job's document, which is
  // returned; null after two minutes.
  static nlohmann::json WaitUntil(
      const Cluster& cluster, const std::string& id,
      const std::function<bool(const nlohmann::json&)>& done);
  static bool WaitForStep(const Cluster& cluster, const std::string& id,
                          size_t steps);
  // Until `count` workers have no job.
  static bool WaitForIdle(const Cluster& cluster, int count);
  // Both succeeded, with the same losses, norms and parameters to the bit.
  static void ExpectSame(const nlohmann::json& job,
                         const nlohmann::json& expected);

 private:
  TemporaryFolder folder_;
};

}  // namespace stagecoach::testing

#endif  // STAGECOACH_TESTS_CLUSTER_DISTURBED_JOB_H_

#ifndef STAGECOACH_TESTS_CLUSTER_TRANSPORT_JOB_H_
#define STAGECOACH_TESTS_CLUSTER_TRANSPORT_JOB_H_

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {

// Jobs whose transport the test chooses.
class TransportJobTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_.Write("text.txt", SampleText()); }

  nlohmann::json Run(const Cluster& cluster, const TinyJob& job,
                     const std::string& transport) {
    const std::string spec = folder_.Write("job.toml", job.ToToml("text.txt"));
    return cluster.RunJob(spec, {"pipeline.transport=" + transport});
  }

  static std::string BitsOf(const nlohmann::json& result) {
    std::string bits;
    for (const auto& step : result["steps"]) {
      absl::StrAppend(&bits, step["loss"].dump(), " ", step["grad_norm"].dump(),
                      "\n");
    }
    return bits + result.value("parameters_sha256", "");
  }

  TemporaryFolder folder_;
};

}  // namespace stagecoach::testing

#endif  // STAGECOACH_TESTS_CLUSTER_TRANSPORT_JOB_H_

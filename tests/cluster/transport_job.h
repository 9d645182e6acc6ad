#ifndef STAGECOACH_TESTS_CLUSTER_TRANSPORT_JOB_H_
#define STAGECOACH_TESTS_CLUSTER_TRANSPORT_JOB_H_

#include <gtest/gtest.h>

#include <string>

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

  TemporaryFolder folder_;
};

}  // namespace stagecoach::testing

#endif  // STAGECOACH_TESTS_CLUSTER_TRANSPORT_JOB_H_

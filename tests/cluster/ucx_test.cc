// Jobs whose payloads go through UCX, which has TCP and shared memory here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/string_view.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/transport_job.h"

namespace stagecoach::testing {
namespace {

using ::testing::HasSubstr;

Cluster::WorkerSpec WorkerWith(const std::string& library) {
  Cluster::WorkerSpec worker;
  worker.arguments = {"--ucx-library", library, "--poison-freed"};
  return worker;
}

class UcxTest : public TransportJobTest {};

// Also tied embeddings, whose gradient has edges of its own, and more than one
// edge between two workers.
TEST_F(UcxTest, TrainsToTheBitsOfSharedMemory) {
  const auto cluster = Cluster::Start(std::vector<Cluster::WorkerSpec>(
                                          4, WorkerWith("libucp.so.0")))
                           .value();
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1"}) {
    TinyJob job;
    job.schedule = schedule;
    job.stages_per_worker =
        absl::string_view(schedule) == "interleaved" ? 2 : 1;
    const nlohmann::json shm = Run(*cluster, job, "auto");
    ASSERT_EQ(shm.value("state", ""), "SUCCEEDED") << cluster->Logs();
    // Within a host it is not the first choice.
    EXPECT_EQ(shm["transport"], "shm");
    const nlohmann::json ucx = Run(*cluster, job, "ucx");
    ASSERT_EQ(ucx.value("state", ""), "SUCCEEDED")
        << ucx.dump(1) << cluster->Logs();
    EXPECT_EQ(ucx["transport"], "ucx");
    for (const auto& edge : ucx["edges"]) EXPECT_EQ(edge["transport"], "ucx");
    EXPECT_EQ(BitsOf(ucx), BitsOf(shm)) << schedule;
    std::cout << schedule << ": " << BitsOf(ucx) << std::endl;
  }
}

TEST_F(UcxTest, AWorkerWithoutItSaysWhy) {
  const auto cluster =
      Cluster::Start({WorkerWith("/nowhere/libucp.so.0"), {}}).value();
  TinyJob job;
  job.workers = 2;
  const nlohmann::json result = Run(*cluster, job, "ucx");
  EXPECT_EQ(result.value("state", ""), "FAILED");
  EXPECT_THAT(result.value("reason", ""), HasSubstr("ucx: not at the"));
  const CommandResult lame = cluster->Command({"worker", "show", "w0"});
  EXPECT_THAT(lame.json["paths"].dump(),
              HasSubstr("cannot open /nowhere/libucp.so.0"));
  const CommandResult plain = cluster->Command({"worker", "show", "w1"});
  EXPECT_THAT(plain.json["paths"].dump(),
              HasSubstr("start it with --ucx-library"));
  std::cout << result.value("reason", "") << std::endl;
}

}  // namespace
}  // namespace stagecoach::testing

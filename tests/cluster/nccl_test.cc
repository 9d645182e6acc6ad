// Jobs whose payloads go through NCCL's interface: the host emulator in place
// of NCCL and CUDA, everything else as it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>

#include "tests/cluster/cluster.h"
#include "tests/cluster/transport_job.h"

namespace stagecoach::testing {
namespace {

using ::testing::HasSubstr;

Cluster::WorkerSpec WorkerWith(const std::string& library) {
  Cluster::WorkerSpec worker;
  worker.arguments = {"--nccl-library", library, "--cuda-runtime-library",
                      library};
  return worker;
}

std::string Emulator() {
  return std::filesystem::absolute(
             "tests/nccl_host_emulator/libnccl_host_emulator.so")
      .string();
}

class NcclTest : public TransportJobTest {};

// Also tied embeddings, whose gradient has edges of its own, and more than one
// edge between two workers.
TEST_F(NcclTest, TrainsToTheBitsOfSharedMemory) {
  const auto cluster = Cluster::Start(std::vector<Cluster::WorkerSpec>(
                                          4, WorkerWith(Emulator())))
                           .value();
  for (const char* schedule :
       {"gpipe", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "zb-h1"}) {
    for (const int workers : {2, 4}) {
      TinyJob job;
      job.workers = workers;
      job.schedule = schedule;
      const bool interleaves =
          job.schedule == "interleaved" || job.schedule == "looped-bfs";
      job.stages_per_worker = interleaves ? 2 : 1;
      const nlohmann::json shm = Run(*cluster, job, "shm");
      const nlohmann::json nccl = Run(*cluster, job, "nccl");
      ASSERT_EQ(nccl.value("state", ""), "SUCCEEDED")
          << nccl.dump(1) << cluster->Logs();
      EXPECT_EQ(nccl["transport"], "nccl");
      EXPECT_EQ(shm["transport"], "shm");
      const bool equal = BitsOf(nccl) == BitsOf(shm);
      std::cout << "P=" << workers << " " << schedule << ": "
                << (equal ? "equal" : "DIFFERENT") << std::endl;
      EXPECT_TRUE(equal) << cluster->Logs();
    }
  }
  EXPECT_EQ(cluster->Logs().find("misuse"), std::string::npos)
      << cluster->Logs();
}

TEST_F(NcclTest, AWorkerWithoutTheLibrariesRefusesWithTheReason) {
  const auto cluster = Cluster::Start({WorkerWith("/nowhere/libnccl.so.2"),
                                       WorkerWith("/nowhere/libnccl.so.2")})
                           .value();
  TinyJob job;
  job.workers = 2;
  const nlohmann::json result = Run(*cluster, job, "nccl");
  EXPECT_EQ(result.value("state", ""), "FAILED");
  EXPECT_THAT(result.dump(), HasSubstr("/nowhere/libnccl.so.2"));
  EXPECT_THAT(result.dump(), HasSubstr("--cuda-runtime-library"));
  // It can still do what it can.
  EXPECT_EQ(Run(*cluster, job, "shm").value("state", ""), "SUCCEEDED");
}

// NCCL fails in one worker in the middle of a step: that one is named, with
// NCCL's words, and the job does not wait for a time-out.
TEST_F(NcclTest, AFailureOfNcclIsTheCauseThatTheUserSees) {
  Cluster::WorkerSpec failing = WorkerWith(Emulator());
  failing.environment = {{"NCCL_HOST_EMULATOR", "ncclSend@3=fail:3"}};
  const auto cluster =
      Cluster::Start({failing, WorkerWith(Emulator())}).value();
  TinyJob job;
  job.workers = 2;
  const nlohmann::json result = Run(*cluster, job, "nccl");
  EXPECT_EQ(result.value("state", ""), "FAILED") << cluster->Logs();
  EXPECT_THAT(result["cause"].dump(), HasSubstr("ncclSend failed"));
}

}  // namespace
}  // namespace stagecoach::testing

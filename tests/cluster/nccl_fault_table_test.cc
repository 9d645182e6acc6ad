// What the user of a job sees when NCCL fails, and how soon: one job for each
// fault that the host emulator can be told to have. Prints the table of
// docs/nccl.md (scripts/nccl_fault_table.sh).

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

struct Row {
  const char* fault;  // of worker 0, as emulator_control.h has it
  const char* says;   // part of the message
  bool both = false;  // of worker 1 as well
};
constexpr Row kRows[] = {
    {"ncclGetUniqueId=fail:3", "ncclGetUniqueId failed"},
    {"ncclCommInitRankConfig=fail:2", "ncclCommInitRankConfig failed"},
    {"ncclSend@3=fail:3", "ncclSend failed"},
    {"ncclRecv@3=fail:3", "ncclRecv failed"},
    {"ncclGroupEnd@3=fail:2", "ncclGroupEnd failed"},
    {"ncclSend@3=async:6", "the communicator failed"},
    {"ncclRecv@3=async:6", "the communicator failed"},
    {"cudaEventRecord@3=fail:700", "cudaEventRecord failed"},
    {"cudaMalloc=fail:2", "cudaMalloc failed"},
    {"version=22602", "2.26.2"},
    {"gpus=0", "no GPU"},
    {"one_gpu=1", "both workers are on GPU", true},
};

std::string Emulator() {
  return std::filesystem::absolute(
             "tests/nccl_host_emulator/libnccl_host_emulator.so")
      .string();
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

TEST(NcclFaultTableTest, EachFaultEndsTheJobWithItsName) {
  TemporaryFolder folder;
  folder.Write("text.txt", SampleText());
  TinyJob job;
  job.workers = 2;
  const std::string spec =
      folder.Write("job.toml", job.ToToml(folder.path() + "/text.txt"));
  for (const Row& row : kRows) {
    Cluster::WorkerSpec failing;
    failing.arguments = {"--nccl-library", Emulator(), "--cuda-runtime-library",
                         Emulator()};
    Cluster::WorkerSpec other = failing;
    failing.environment = {{"NCCL_HOST_EMULATOR", row.fault}};
    if (row.both) other.environment = failing.environment;
    const auto cluster = Cluster::Start({failing, other}).value();
    const auto start = std::chrono::steady_clock::now();
    const nlohmann::json result =
        cluster->RunJob(spec, {"pipeline.transport=nccl"});
    const double seconds = SecondsSince(start);
    EXPECT_EQ(result.value("state", ""), "FAILED") << row.fault;
    const nlohmann::json cause =
        result.value("cause", nlohmann::json::object());
    std::string message = cause.is_object() ? cause.value("message", "") : "";
    if (message.empty()) message = result.value("reason", "");
    EXPECT_NE(message.find(row.says), std::string::npos)
        << row.fault << ": " << result.dump(1);
    std::cout << absl::StrFormat("%-32s %5.1f s  %s", row.fault, seconds,
                                 absl::StrReplaceAll(message, {{"\n", " "}}))
              << std::endl;
  }
}

}  // namespace
}  // namespace stagecoach::testing

// The end-to-end matrix: every kind of schedule over every way between four
// workers gives the bits of a single process.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

struct Kind {
  const char* schedule;
  int stages_per_worker;
};
constexpr Kind kKinds[] = {
    {"gpipe", 1},  {"1f1b", 1},        {"eager-1f1b", 1}, {"zb-h1", 1},
    {"zb-h2", 1},  {"interleaved", 2}, {"looped-bfs", 2}, {"zbv", 2},
    {"v-half", 2}, {"v-min", 2},       {"dualpipe-v", 2},
};
constexpr int kWorkers = 4;

std::string Emulator() {
  return std::filesystem::absolute(
             "tests/nccl_host_emulator/libnccl_host_emulator.so")
      .string();
}

class DataPathsTest : public ::testing::Test {
 protected:
  DataPathsTest() { folder_.Write("text.txt", SampleText()); }

  // Processes of their own, joined by any of the others.
  void StartWorkers() {
    Cluster::WorkerSpec worker;
    worker.arguments = {"--nccl-library", Emulator(), "--cuda-runtime-library",
                        Emulator(), "--poison-freed"};
    cluster_ =
        Cluster::Start(std::vector<Cluster::WorkerSpec>(kWorkers, worker))
            .value();
  }
  // Between processes there is no loopback: all workers are in one.
  void StartLoopbackWorkers() {
    Cluster::WorkerSpec workers;
    workers.binary =
        std::filesystem::absolute("tests/cluster/loopback_workers").string();
    workers.arguments = {"--workers", absl::StrCat(kWorkers)};
    cluster_ = Cluster::Start({workers}).value();
  }

  nlohmann::json Run(const TinyJob& job, const std::string& transport) {
    nlohmann::json result =
        cluster_->RunJob(folder_.Write("job.toml", job.ToToml("text.txt")),
                         {"pipeline.transport=" + transport});
    EXPECT_EQ(result.value("state", ""), "SUCCEEDED")
        << job.schedule << " over " << transport << result.dump(1)
        << cluster_->Logs();
    return result;
  }

  struct Traffic {
    int64_t transfers = 0;
    int64_t in_place = 0;
  };
  // What the workers' logs say of all jobs, by transport. Ends the workers.
  std::map<std::string, Traffic> TrafficOfAll(int processes) {
    for (int i = 0; i < processes; ++i) {
      cluster_->worker(i).Stop(absl::Seconds(60));
    }
    const std::string logs = cluster_->Logs();
    static const std::regex line(
        " over (\\w+): (\\d+) transfers, (\\d+) of them produced in place");
    std::map<std::string, Traffic> traffic;
    for (std::sregex_iterator it(logs.begin(), logs.end(), line), end;
         it != end; ++it) {
      traffic[(*it)[1]].transfers += std::stoll((*it)[2]);
      traffic[(*it)[1]].in_place += std::stoll((*it)[3]);
    }
    return traffic;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Cluster> cluster_;
};

// Also tied embeddings, whose gradient has edges of its own. Over shared memory
// most outputs are produced in the receiver's, and in one process all are in
// one; what is freed is poisoned.
TEST_F(DataPathsTest, EveryScheduleOverEveryPathGivesTheBitsOfOneProcess) {
  TinyJob job;
  job.microbatches = 6;
  job.steps = 3;
  std::map<std::string, std::string> bits;  // by schedule, over loopback
  StartLoopbackWorkers();
  job.workers = kWorkers;
  for (const Kind& kind : kKinds) {
    job.schedule = kind.schedule;
    job.stages_per_worker = kind.stages_per_worker;
    const nlohmann::json result = Run(job, "auto");
    EXPECT_EQ(result["transport"], "loopback");
    bits[kind.schedule] = BitsOf(result);
  }
  std::map<std::string, Traffic> traffic = TrafficOfAll(1);

  StartWorkers();
  job.workers = 1;
  job.stages_per_worker = 1;
  job.schedule = "gpipe";
  const std::string expected = BitsOf(Run(job, "auto"));
  job.workers = kWorkers;
  for (const Kind& kind : kKinds) {
    job.schedule = kind.schedule;
    job.stages_per_worker = kind.stages_per_worker;
    std::string row = absl::StrFormat("%-12s", kind.schedule);
    const auto add = [&](const std::string& transport,
                         const std::string& its_bits) {
      const bool equal = its_bits == expected;
      EXPECT_TRUE(equal) << kind.schedule << " over " << transport;
      absl::StrAppend(&row, "  ", transport, " ",
                      equal ? "equal" : "DIFFERENT");
    };
    add("loopback", bits[kind.schedule]);
    for (const char* transport : {"shm", "tcp", "nccl"}) {
      const nlohmann::json result = Run(job, transport);
      EXPECT_EQ(result["transport"], transport);
      add(transport, BitsOf(result));
    }
    std::cout << row << std::endl;
  }
  traffic.merge(TrafficOfAll(kWorkers));
  EXPECT_EQ(traffic.size(), 4u);
  for (const auto& [transport, sum] : traffic) {
    std::cout << transport << ": " << sum.in_place << " of " << sum.transfers
              << " transfers produced in place" << std::endl;
    EXPECT_GT(sum.transfers, 0) << transport;
    // Two microbatches are looked at, and an output without a slot is copied.
    EXPECT_EQ(sum.in_place > 0, transport == "shm" || transport == "loopback")
        << transport;
  }
  EXPECT_EQ(cluster_->Logs().find("misuse"), std::string::npos)
      << cluster_->Logs();
}

}  // namespace
}  // namespace stagecoach::testing

// Every kind of schedule trains, with the bits of a single process.

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

class SchedulesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    folder_->Write("text.txt", SampleText());
    cluster_ = Cluster::Start(4).value().release();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    delete folder_;
  }

  static std::string BitsOfRun(const TinyJob& job) {
    const nlohmann::json result =
        cluster_->RunJob(folder_->Write("job.toml", job.ToToml("text.txt")));
    EXPECT_EQ(result.value("state", ""), "SUCCEEDED")
        << job.schedule << result.dump(1) << cluster_->Logs();
    std::string bits = result.value("parameters_sha256", "");
    for (const auto& step : result["steps"]) {
      absl::StrAppend(&bits, " ", step["loss"].dump());
    }
    return bits;
  }

  static TemporaryFolder* folder_;
  static Cluster* cluster_;
};
TemporaryFolder* SchedulesTest::folder_ = nullptr;
Cluster* SchedulesTest::cluster_ = nullptr;

// All of them add up microbatches in ascending order by default.
TEST_F(SchedulesTest, OfEveryKindTrainWithTheBitsOfASingleProcess) {
  const std::vector<std::pair<std::string, int>> kinds = {
      {"gpipe", 1},  {"1f1b", 1},        {"eager-1f1b", 1}, {"zb-h1", 1},
      {"zb-h2", 1},  {"interleaved", 2}, {"looped-bfs", 2}, {"zbv", 2},
      {"v-half", 2}, {"v-min", 2},       {"dualpipe-v", 2},
  };
  for (int microbatches : {8, 3}) {
    TinyJob job;
    job.microbatches = microbatches;
    job.steps = 5;
    job.workers = 1;
    job.schedule = "gpipe";
    const std::string expected = BitsOfRun(job);
    job.workers = 4;
    for (const auto& [kind, stages_per_worker] : kinds) {
      for (int budget : {1, 2}) {
        job.schedule = kind;
        job.stages_per_worker = stages_per_worker;
        job.send_budget = budget;
        const bool equal = BitsOfRun(job) == expected;
        std::cout << absl::StrCat("P=4 V=", stages_per_worker,
                                  " M=", microbatches, " K=", budget, " ", kind,
                                  ": ", equal ? "equal" : "DIFFERENT")
                  << std::endl;
        EXPECT_TRUE(equal);
      }
    }
  }
}

}  // namespace
}  // namespace stagecoach::testing

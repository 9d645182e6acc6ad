// Every kind of schedule trains, with the bits of a single process.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
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

  static nlohmann::json Run(const TinyJob& job) {
    nlohmann::json result =
        cluster_->RunJob(folder_->Write("job.toml", job.ToToml("text.txt")));
    EXPECT_EQ(result.value("state", ""), "SUCCEEDED")
        << job.schedule << result.dump(1) << cluster_->Logs();
    return result;
  }
  static std::string BitsOfRun(const TinyJob& job) { return BitsOf(Run(job)); }

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

TinyJob JobOfEightMicrobatches() {
  TinyJob job;
  job.microbatches = 8;
  job.steps = 5;
  job.workers = 1;
  job.schedule = "gpipe";
  return job;
}

// Their papers' order adds up from the last microbatch to the first.
TEST_F(SchedulesTest, PublishedOrdersThatDescendAreEqualWithinRounding) {
  const nlohmann::json expected = Run(JobOfEightMicrobatches());
  for (const std::string kind : {"gpipe", "looped-bfs"}) {
    TinyJob job = JobOfEightMicrobatches();
    job.workers = 4;
    job.stages_per_worker = kind == "looped-bfs" ? 2 : 1;
    job.schedule = absl::StrCat(folder_->path(), "/", kind, ".txt");
    const CommandResult made =
        RunClient({"schedule", "generate", "--kind", kind, "--workers", "4",
                   "--stages-per-worker", absl::StrCat(job.stages_per_worker),
                   "--microbatches", "8", "--published-order", "--tied",
                   "--out", job.schedule});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const nlohmann::json result = Run(job);
    ASSERT_EQ(result["steps"].size(), expected["steps"].size());
    double furthest = 0;
    for (size_t i = 0; i < result["steps"].size(); ++i) {
      const double loss = result["steps"][i]["loss"];
      const double right = expected["steps"][i]["loss"];
      furthest = std::max(furthest, std::abs(loss - right) / right);
    }
    std::cout << kind << ", published order: losses within " << furthest
              << " of a single process" << std::endl;
    EXPECT_LT(furthest, 1e-5);
    EXPECT_NE(result["parameters_sha256"], expected["parameters_sha256"]);
  }
}

// The lists that PyTorch's own classes wrote, as they are. They know no tied
// embeddings.
TEST_F(SchedulesTest, ListsThatPyTorchWroteTrain) {
  TinyJob single = JobOfEightMicrobatches();
  single.tied = false;
  const std::string expected = BitsOfRun(single);
  for (const std::string name :
       {"gpipe.compute", "interleaved_1f1b.compute", "interleaved_1f1b.comms",
        "interleaved_zero_bubble.comms", "zbv_zero_bubble.comms",
        "dualpipe_v.comms"}) {
    TinyJob job = single;
    job.workers = 4;
    job.stages_per_worker = name == "gpipe.compute" ? 1 : 2;
    job.schedule = absl::StrCat("schedule/formats/testdata/", name, ".csv");
    // As a path from here, not from the spec's folder.
    job.schedule = std::filesystem::absolute(job.schedule);
    const bool equal = BitsOfRun(job) == expected;
    std::cout << name << ": " << (equal ? "equal" : "DIFFERENT") << std::endl;
    EXPECT_TRUE(equal);
  }
}

}  // namespace
}  // namespace stagecoach::testing

// Evaluation between training steps, over real workers.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

// Evaluated or not, over whatever workers: the training is the same to the last
// bit, and so is the loss of an evaluation.
TEST(EvaluationTest, SeesTheSameModelOverAnyPipelineAndChangesNothing) {
  TemporaryFolder folder;
  TinyJob tiny;
  tiny.layers = 4;
  tiny.microbatches = 4;
  tiny.steps = 5;
  tiny.workers = 2;
  const std::string data = folder.Write("data.txt", SampleText());
  const std::string held_out =
      folder.Write("held_out.txt", SampleText().substr(100, 4000));
  const std::string spec = folder.Write("job.toml", tiny.ToToml(data));
  const std::string evaluated = folder.Write(
      "evaluated.toml",
      absl::StrCat(tiny.ToToml(data), "\n[evaluation]\npath = \"", held_out,
                   "\"\nevery_steps = 2\nmicrobatches = 3\n"));
  auto cluster = Cluster::Start(2);
  ASSERT_TRUE(cluster.ok()) << cluster.status();

  const nlohmann::json plain = (*cluster)->RunJob(spec);
  ASSERT_EQ(plain["state"], "SUCCEEDED") << (*cluster)->Logs();
  EXPECT_FALSE(plain.contains("evaluations"));

  const nlohmann::json one_worker = (*cluster)->RunJob(
      evaluated, {"pipeline.workers=1", "pipeline.schedule=gpipe"});
  ASSERT_EQ(one_worker["state"], "SUCCEEDED") << (*cluster)->Logs();
  ASSERT_EQ(one_worker["evaluations"].size(), 4u);
  EXPECT_EQ(one_worker["evaluations"][3]["step"], 5);
  EXPECT_LT(one_worker["evaluations"][3]["loss"],
            one_worker["evaluations"][0]["loss"]);

  for (const char* release : {"ack", "never"}) {
    for (const char* schedule : {"1f1b", "zbv"}) {
      const bool two = std::string(schedule) == "zbv";
      const nlohmann::json job = (*cluster)->RunJob(
          evaluated,
          {absl::StrCat("pipeline.release=", release),
           absl::StrCat("pipeline.schedule=", schedule),
           absl::StrCat("pipeline.stages_per_worker=", two ? 2 : 1)});
      ASSERT_EQ(job["state"], "SUCCEEDED")
          << schedule << " " << release << (*cluster)->Logs();
      EXPECT_EQ(job["evaluations"], one_worker["evaluations"])
          << schedule << " " << release;
      EXPECT_EQ(job["parameters_sha256"], plain["parameters_sha256"]);
    }
  }
}

}  // namespace
}  // namespace stagecoach::testing

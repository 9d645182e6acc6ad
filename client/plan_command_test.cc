#include "client/plan_command.h"

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/process.h"
#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

constexpr char kTiny[] = "examples/tiny.toml";

TEST(PlanCommandTest, PlansTheExampleWithoutACluster) {
  const ClientResult result =
      RunClient({"plan", kTiny, "--equal-costs", "-o", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const Json json = result.document();
  EXPECT_EQ(json["schedule"], "1f1b");
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["workers"].size(), 2u);
  EXPECT_EQ(json["workers"][0]["stages"].dump(), "[0]");
  EXPECT_EQ(json["workers"][0]["layers"], 2);
  EXPECT_TRUE(json["bubble_ratio"].is_number());
  EXPECT_THAT(RunClient({"plan", kTiny, "--equal-costs"}).out,
              HasSubstr("1f1b: verified"));
}

TEST(PlanCommandTest, TakesOverridesBeforeAndAfterTheSpec) {
  const ClientResult result =
      RunClient({"plan", "--set", "pipeline.schedule=interleaved", "--set",
                 "pipeline.stages_per_worker=2", kTiny, "--set",
                 "training.microbatches=3", "--equal-costs", "-o", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.document()["schedule"], "interleaved");
  EXPECT_EQ(result.document()["workers"][1]["stages"].dump(), "[1,3]");
}

TEST(PlanCommandTest, ComparesAllSchedulesOnRequest) {
  EXPECT_FALSE(RunClient({"plan", kTiny, "--equal-costs", "-o", "json"})
                   .document()
                   .contains("alternatives"));
  const ClientResult result =
      RunClient({"plan", kTiny, "--compare", "--equal-costs", "-o", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const Json alternatives = result.document()["alternatives"];
  ASSERT_GT(alternatives.size(), 10u);
  EXPECT_EQ(alternatives.back()["schedule"], "auto");
  const std::string text =
      RunClient({"plan", kTiny, "--compare", "--equal-costs"}).out;
  EXPECT_THAT(text, HasSubstr("1f1b: verified"));
  EXPECT_THAT(text, HasSubstr("\n1f1b *"));
  EXPECT_THAT(text, HasSubstr("; takes "));
}

// ---- measured ---------------------------------------------------------------

std::string FakeWorker() { return ExecutableFolder() + "/fake_daemon"; }

TEST(MeasuredPlanTest, UsesWhatAWorkerMeasures) {
  const ClientResult result =
      RunClient({"plan", kTiny, "-o", "json", "--compare"},
                {{"STAGECOACH_WORKER_BINARY", FakeWorker()}});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("measuring one microbatch"));
  const Json json = result.document();
  EXPECT_EQ(json["measured"], true);
  // The fake worker's head costs as much as two of the four layers.
  EXPECT_EQ(json["stages"][0]["layers"], 3);
  EXPECT_DOUBLE_EQ(json["stages"][0]["forward_seconds"].get<double>(), 0.03);
  const Json alternatives = json["alternatives"];
  ASSERT_GT(alternatives.size(), 10u);
  for (const Json& row : alternatives) {
    if (row["verified"] == false) continue;
    EXPECT_GT(row["predicted_step_seconds"].get<double>(), 0) << row;
    EXPECT_GT(row["peak_in_flight_bytes"].get<int64_t>(), 0) << row;
    EXPECT_GE(row["predicted_step_seconds"].get<double>(),
              alternatives.back()["predicted_step_seconds"].get<double>());
  }
}

TEST(MeasuredPlanTest, AWorkerThatFailsIsQuoted) {
  const ClientResult result = RunClient(
      {"plan", kTiny},
      {{"STAGECOACH_WORKER_BINARY", FakeWorker()}, {"FAKE_WORKER", "exits"}});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error,
              HasSubstr("the worker that measures the model ended with exit "
                        "code 2; the end of its log:\nfake: "));
}

// ---- refused specs ----------------------------------------------------------

std::string Spec(const std::string& pipeline) {
  const std::string text = MakeFile("text.txt", std::string(1000, 'x'));
  return MakeFile("job.toml",
                  absl::StrCat("name = \"t\"\n[model]\nlayers = 4\nhidden = "
                               "32\nheads = 2\n[data]\npath = \"",
                               text, "\"\nsequence_length = 16\n[pipeline]\n",
                               pipeline, "\n"));
}

struct BadSpec {
  std::string pipeline;
  std::string place;  // line and column
  std::string message;
};

void PrintTo(const BadSpec& spec, std::ostream* out) { *out << spec.pipeline; }

class BadSpecTest : public testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecTest, EndsWith2AndThePlaceBeforeAnythingStarts) {
  const std::string file = Spec(GetParam().pipeline);
  // --local would start processes, a job would need a coordinator.
  for (const auto& verb : {std::vector<std::string>{"plan", file},
                           std::vector<std::string>{"run", file, "--local"},
                           std::vector<std::string>{"verify", file},
                           std::vector<std::string>{"job", "submit", file}}) {
    const ClientResult result =
        RunClient(verb, {{"STAGECOACH_COORDINATOR_BINARY", "/bin/false"},
                         {"STAGECOACH_WORKER_BINARY", "/bin/false"}});
    EXPECT_EQ(result.exit_code, 2) << verb[0] << ": " << result.error;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.error,
                HasSubstr(absl::StrCat(file, ":", GetParam().place)));
    EXPECT_THAT(result.error, HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadSpecTest,
    testing::Values(BadSpec{"wrokers = 2",
                            "10:1:", "did you mean \"pipeline.workers\"?"},
                    BadSpec{"workers = \"two\"", "10:1:", "pipeline.workers"},
                    BadSpec{"workers = 2\nsend_budget = 0",
                            "11:1:", "pipeline.send_budget"},
                    BadSpec{"workers = 5", "10:1:", "pipeline.workers"},
                    BadSpec{"workers = 2\nschedule = \"1fb1\"",
                            "11:1:", "did you mean \"1f1b\"?"},
                    BadSpec{"workers = = 2", "10:", ""}));

TEST(BadSpecFileTest, AFileThatIsNotThereEndsWith2) {
  const ClientResult result = RunClient({"run", "/no/such.toml", "-o", "json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("/no/such.toml"));
  EXPECT_EQ(result.document()["error"]["exit_code"], 2);
}

TEST(BadSpecFileTest, WrongOverridesAreNamed) {
  ClientResult result =
      RunClient({"plan", kTiny, "--set", "pipeline.sendbudget=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("pipeline.send_budget"));
  result = RunClient({"plan", kTiny, "--transport", "carrier-pigeon"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("pipeline.transport"));
}

}  // namespace
}  // namespace stagecoach::client

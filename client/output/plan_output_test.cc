#include "client/output/plan_output.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

job::JobSpec TinySpec() {
  job::JobSpec spec;
  spec.name = "tiny";
  spec.model.layers = 3;
  spec.model.hidden = 32;
  spec.model.heads = 2;
  spec.data.sequence_length = 16;
  spec.pipeline.workers = 2;
  return spec;
}

job::JobPlan PlanOf(const job::JobSpec& spec) {
  absl::StatusOr<job::JobPlan> plan = job::PlanJob(spec, nullptr);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST(PlanJsonTest, HasEveryKeyOfTheContract) {
  const job::JobSpec spec = TinySpec();
  const Json json = PlanJson(spec, PlanOf(spec));
  EXPECT_EQ(json["schedule"], "1f1b");
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["ascending_accumulation"], true);
  // (P-1)T idle of (M+P-1)T, M = 8, P = 2.
  EXPECT_DOUBLE_EQ(json["bubble_ratio"].get<double>(), 1.0 / 9);
  ASSERT_EQ(json["workers"].size(), 2u);
  EXPECT_EQ(json["workers"][0].dump(),
            R"({"worker":"w0","stages":[0],"layers":2,"peak_in_flight":2})");
  EXPECT_EQ(json["workers"][1].dump(),
            R"({"worker":"w1","stages":[1],"layers":1,"peak_in_flight":1})");
}

TEST(PlanJsonTest, StagesSayLayersParametersAndOutputs) {
  const job::JobSpec spec = TinySpec();
  const Json json = PlanJson(spec, PlanOf(spec));
  // A block has 12 h^2 + 13 h, the embeddings (256 + 16) h.
  constexpr int kBlock = 12 * 32 * 32 + 13 * 32;
  EXPECT_EQ(json["stages"][0]["layers"], 2);
  EXPECT_EQ(json["stages"][0]["layer_begin"], 0);
  EXPECT_EQ(json["stages"][0]["layer_end"], 2);
  EXPECT_EQ(json["stages"][0]["parameters"], 2 * kBlock + (256 + 16) * 32);
  EXPECT_EQ(json["stages"][0]["output_bytes"], 4 * 16 * 32 * 4);
  EXPECT_EQ(json["stages"][1]["output_bytes"], 0);
  EXPECT_EQ(json["parameters"], 3 * kBlock + (256 + 16) * 32 + 2 * 32);
  EXPECT_EQ(json["tokens_per_step"], 8 * 4 * 16);
}

TEST(PlanJsonTest, PredictionsHaveNotLanded) {
  const job::JobSpec spec = TinySpec();
  const Json json = PlanJson(spec, PlanOf(spec));
  EXPECT_FALSE(json.contains("predicted_step_seconds"));
  EXPECT_FALSE(json["workers"][0].contains("predicted_peak_bytes"));
  EXPECT_FALSE(json["workers"][0].contains("categories"));
}

// The head costs as much as two layers.
job::JobPlan MeasuredPlanOf(const job::JobSpec& spec) {
  job::LayerProfile layer;
  layer.forward_seconds = 0.010;
  layer.backward_seconds = 0.020;
  layer.backward_input_seconds = layer.backward_weight_seconds = 0.011;
  layer.in_flight_bytes = 1024;
  job::ModelProfile profile;
  profile.layers.assign(static_cast<size_t>(spec.model.layers), layer);
  profile.head = layer;
  profile.head.forward_seconds = 0.020;
  profile.head.backward_seconds = 0.040;
  profile.head.backward_input_seconds = 0.022;
  profile.head.backward_weight_seconds = 0.022;
  absl::StatusOr<job::JobPlan> plan = job::PlanJob(spec, &profile);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST(PlanJsonTest, AMeasuredPlanSaysWhatItPredictsAndWhy) {
  job::JobSpec spec = TinySpec();
  spec.model.layers = 6;
  const Json json = PlanJson(spec, MeasuredPlanOf(spec));
  EXPECT_EQ(json["measured"], true);
  EXPECT_EQ(json["stages"][0]["layers"], 4);
  EXPECT_EQ(json["stages"][1]["layers"], 2);
  EXPECT_DOUBLE_EQ(json["stages"][1]["forward_seconds"].get<double>(), 0.040);
  EXPECT_DOUBLE_EQ(json["stages"][1]["backward_seconds"].get<double>(), 0.080);
  EXPECT_EQ(json["stages"][1]["in_flight_bytes"], 3 * 1024);
  // 8 microbatches of 4 layers' 30 ms, and the first one's way.
  EXPECT_GT(json["predicted_step_seconds"].get<double>(), 8 * 0.120);
  EXPECT_LT(json["predicted_step_seconds"].get<double>(), 10 * 0.120);
  EXPECT_GT(json["even_split_seconds"].get<double>(),
            json["predicted_step_seconds"].get<double>());
  EXPECT_EQ(json["workers"][0]["peak_in_flight_bytes"], 2 * 4 * 1024);
}

TEST(PlanTextTest, AMeasuredPlanSaysWhatItGained) {
  job::JobSpec spec = TinySpec();
  spec.model.layers = 6;
  spec.pipeline.schedule = "auto";
  const std::string text = PlanText(spec, MeasuredPlanOf(spec));
  EXPECT_THAT(text, HasSubstr("at measured costs\npredicted step: "));
  EXPECT_THAT(text, HasSubstr("\nschedule \"auto\": the shortest of "));
  EXPECT_THAT(text, HasSubstr(" times as quick as an even split ("));
  EXPECT_THAT(text, HasSubstr("  kept for backward\n"));
}

TEST(PlanTextTest, ShowsStagesWorkersAndVerdict) {
  job::JobSpec spec = TinySpec();
  EXPECT_EQ(PlanText(spec, PlanOf(spec)),
            "tiny: 46,880 parameters, 512 tokens a step\n"
            "\n"
            "stage  worker  layers  parameters    output\n"
            "    0  w0      0-1         34,112  8.00 KiB\n"
            "    1  w1      2           20,960       0 B\n"
            "\n"
            "worker  stages  peak in flight    idle\n"
            "w0      0                    2  11.1 %\n"
            "w1      1                    1  11.1 %\n"
            "\n"
            "schedule 1f1b: verified, bubble 11.1 % at equal costs\n"
            "what is \"auto\" is decided once a worker has measured the model; "
            "until then this stands for it\n");
  spec.pipeline.workers = 1;
  EXPECT_THAT(PlanText(spec, PlanOf(spec)), HasSubstr("bubble 0.0 %"));
}

}  // namespace
}  // namespace stagecoach::client

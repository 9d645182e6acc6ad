#include "job/model_profile.h"

#include <limits>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "job/profile_proto.h"

namespace stagecoach::job {
namespace {

LayerProfile Layer(double seconds, int64_t bytes) {
  LayerProfile layer;
  layer.forward_seconds = seconds;
  layer.backward_seconds = 2 * seconds;
  layer.backward_input_seconds = 1.25 * seconds;
  layer.backward_weight_seconds = 1.5 * seconds;
  layer.in_flight_bytes = bytes;
  return layer;
}

ModelProfile Profile() {
  ModelProfile profile;
  profile.embedding = Layer(1, 10);
  profile.layers = {Layer(2, 20), Layer(4, 40), Layer(8, 80)};
  profile.head = Layer(16, 160);
  profile.copy_seconds = 0.5;
  return profile;
}

std::vector<StageLayers> Stages(std::vector<int64_t> counts) {
  std::vector<StageLayers> stages;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    StageLayers stage;
    stage.begin = begin;
    stage.end = begin += count;
    stages.push_back(stage);
  }
  return stages;
}

TEST(ModelProfileTest, TheEndsCarryEmbeddingAndHead) {
  // Forward and the cheaper backward: three times the forward.
  EXPECT_EQ(LayerCosts(Profile()), (std::vector<double>{9, 12, 72}));
  const auto costs = StageCostsOf(Profile(), Stages({2, 1}));
  ASSERT_EQ(costs.size(), size_t{2});
  EXPECT_DOUBLE_EQ(costs[0].forward, 7);
  EXPECT_DOUBLE_EQ(costs[0].FullBackward(), 14);
  EXPECT_DOUBLE_EQ(costs[1].backward_input, 30);
  EXPECT_DOUBLE_EQ(costs[1].backward_weight, 36);
  const auto bytes = StageBytesOf(Profile(), Stages({2, 1}), 7);
  EXPECT_EQ(bytes[0].in_flight, 70);
  EXPECT_EQ(bytes[1].in_flight, 240);
  EXPECT_EQ(bytes[1].output, 7);
}

TEST(ModelProfileTest, IsNeededWhereItWouldChangeThePlan) {
  JobSpec spec;
  spec.model.layers = 4;
  spec.pipeline.workers = 2;
  EXPECT_TRUE(NeedsProfile(spec));
  spec.pipeline.split = {2, 2};
  EXPECT_FALSE(NeedsProfile(spec));
  spec.pipeline.schedule = "auto";
  EXPECT_TRUE(NeedsProfile(spec));
  spec.pipeline.schedule = "gpipe";
  spec.pipeline.split.clear();
  spec.pipeline.workers = 4;
  EXPECT_FALSE(NeedsProfile(spec)) << "each stage has one layer";
  spec.pipeline.workers = 1;
  EXPECT_FALSE(NeedsProfile(spec)) << "one stage has them all";
}

TEST(ModelProfileTest, SurvivesTheWire) {
  v1::ModelProfile proto;
  ToProto(Profile(), &proto);
  const auto back = FromProto(proto, 3);
  ASSERT_TRUE(back.ok()) << back.status();
  v1::ModelProfile again;
  ToProto(*back, &again);
  EXPECT_EQ(again.SerializeAsString(), proto.SerializeAsString());
  EXPECT_DOUBLE_EQ(back->copy_seconds, 0.5);
}

TEST(ModelProfileTest, OneThatMakesNoSenseIsRefused) {
  v1::ModelProfile proto;
  ToProto(Profile(), &proto);
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(proto, 4).status()));
  v1::ModelProfile negative = proto;
  negative.mutable_head()->set_backward_seconds(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(negative, 3).status()));
  v1::ModelProfile endless = proto;
  endless.mutable_layers(1)->set_forward_seconds(
      std::numeric_limits<double>::infinity());
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(endless, 3).status()));
  v1::ModelProfile bytes = proto;
  bytes.mutable_embedding()->set_in_flight_bytes(-5);
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(bytes, 3).status()));
}

}  // namespace
}  // namespace stagecoach::job

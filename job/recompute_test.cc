#include "job/recompute.h"

#include <gtest/gtest.h>

#include <vector>

namespace stagecoach::job {
namespace {

std::vector<bool> LayersOf(const Recompute& recompute) {
  std::vector<bool> layers;
  for (int64_t layer = 0; layer < 5; ++layer) {
    layers.push_back(recompute.Layer(layer));
  }
  return layers;
}

TEST(RecomputeTest, OneWordIsForAllStages) {
  JobSpec spec;
  EXPECT_EQ(RecomputeOf(spec, StageIndex(3)), Recompute());
  spec.memory.recompute = "full";
  EXPECT_TRUE(RecomputeOf(spec, StageIndex(0)).full);
  EXPECT_TRUE(RecomputeOf(spec, StageIndex(3)).full);
  EXPECT_EQ(RecomputeOf(spec, StageIndex(3)).every, 0);
}

TEST(RecomputeTest, SeveralAreOneForEachStage) {
  JobSpec spec;
  spec.memory.recompute = "full, none,every-3";
  EXPECT_TRUE(RecomputeOf(spec, StageIndex(0)).full);
  EXPECT_EQ(RecomputeOf(spec, StageIndex(1)), Recompute());
  EXPECT_EQ(RecomputeOf(spec, StageIndex(2)).every, 3);
}

TEST(RecomputeTest, EveryNthLayerBeginsWithTheFirst) {
  EXPECT_EQ(LayersOf(ParseRecompute("every-1")->front()),
            (std::vector<bool>{true, true, true, true, true}));
  EXPECT_EQ(LayersOf(ParseRecompute("every-2")->front()),
            (std::vector<bool>{true, false, true, false, true}));
  EXPECT_EQ(LayersOf(ParseRecompute("none")->front()),
            (std::vector<bool>(5, false)));
}

TEST(RecomputeTest, RefusesWhatIsNeither) {
  for (const char* text :
       {"", "some", "every-", "every-0", "every--1", "every-2x",
        "every-99999999999999999999", "full,,none", "full none"}) {
    const auto parsed = ParseRecompute(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace stagecoach::job

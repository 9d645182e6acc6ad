#include "stage_worker/engine/model_profiler.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "memory/accounting_allocator.h"
#include "schedule/action.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"

namespace stagecoach::worker {
namespace {

using schedule::Action;
using schedule::ActionKind;

job::JobSpec Spec() {
  job::JobSpec spec;
  spec.model.layers = 5;
  spec.model.hidden = 32;
  spec.model.heads = 2;
  spec.data.sequence_length = 16;
  spec.training.microbatch_size = 2;
  return spec;
}

// Stage 0, 1, 2 stand for embedding, layer, head. Milliseconds.
int CostOf(const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward:
      return 1 + action.stage.value();
    case ActionKind::kBackward:
      return 10 + action.stage.value();
    case ActionKind::kBackwardInput:
      return 20 + action.stage.value();
    default:
      return 30 + action.stage.value();
  }
}

class ModelProfilerTest : public ::testing::Test {
 protected:
  ProfilerOptions Options(SyntheticOptions synthetic) {
    ProfilerOptions options;
    options.spec = Spec();
    options.allocator = &allocator_;
    options.clock = &clock_;
    options.engine_factory = [this, synthetic](const EngineOptions& engine) {
      return NewSyntheticEngine(synthetic, &allocator_, engine);
    };
    return options;
  }
  SyntheticOptions Costing() {
    SyntheticOptions synthetic;
    synthetic.before_action = [this](const Action& action) {
      clock_.Advance(absl::Milliseconds(CostOf(action)));
      return absl::OkStatus();
    };
    return synthetic;
  }

  memory::AccountingAllocator allocator_;
  SimulatedClock clock_;
};

TEST_F(ModelProfilerTest, MeasuresEachPieceByItself) {
  const auto profile = ProfileModel(Options(Costing()));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_NEAR(profile->embedding.forward_seconds, 0.001, 1e-9);
  EXPECT_NEAR(profile->head.forward_seconds, 0.003, 1e-9);
  ASSERT_EQ(profile->layers.size(), size_t{5});
  for (const job::LayerProfile& layer : profile->layers) {
    EXPECT_NEAR(layer.forward_seconds, 0.002, 1e-9);
    EXPECT_NEAR(layer.backward_seconds, 0.011, 1e-9);
    EXPECT_NEAR(layer.backward_input_seconds, 0.021, 1e-9);
    EXPECT_NEAR(layer.backward_weight_seconds, 0.031, 1e-9);
  }
  // The synthetic layer keeps nothing of its own; the first stage makes its
  // input: float32[2, 16, 32].
  EXPECT_EQ(profile->layers[0].in_flight_bytes, 0);
  EXPECT_EQ(profile->embedding.in_flight_bytes, 2 * 16 * 32 * 4);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

TEST_F(ModelProfilerTest, TheShortestRunCounts) {
  SyntheticOptions synthetic;
  int forwards = 0;
  synthetic.before_action = [&](const Action& action) {
    if (action.kind == ActionKind::kForward) {
      // Only the fourth forward of each engine is not disturbed.
      clock_.Advance(absl::Milliseconds(++forwards % 4 == 0 ? 2 : 50));
    }
    return absl::OkStatus();
  };
  const auto profile = ProfileModel(Options(synthetic));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_NEAR(profile->head.forward_seconds, 0.002, 1e-9);
}

TEST_F(ModelProfilerTest, WhatTakesLongIsRunOnce) {
  SyntheticOptions synthetic;
  int forwards = 0;
  synthetic.before_action = [&](const Action& action) {
    forwards += action.kind == ActionKind::kForward;
    clock_.Advance(absl::Seconds(5));
    return absl::OkStatus();
  };
  const auto profile = ProfileModel(Options(synthetic));
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(forwards, 3 * 2);  // pieces, each with a whole and a split backward
  EXPECT_NEAR(profile->head.forward_seconds, 5, 1e-9);
}

TEST_F(ModelProfilerTest, EndsBetweenTwoActionsWhenCancelled) {
  ProfilerOptions options = Options(Costing());
  int asked = 0;
  options.cancelled = [&] { return ++asked == 7; };
  EXPECT_TRUE(absl::IsCancelled(ProfileModel(options).status()));
  EXPECT_EQ(asked, 7);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

TEST_F(ModelProfilerTest, AnErrorNamesThePiece) {
  SyntheticOptions synthetic;
  synthetic.before_action = [](const Action& action) {
    return action.stage == StageIndex(2) ? absl::ResourceExhaustedError("full")
                                         : absl::OkStatus();
  };
  const absl::Status status = ProfileModel(Options(synthetic)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(), "profiling the head: full");
}

}  // namespace
}  // namespace stagecoach::worker

#include "stage_worker/engine/torch/output_placement.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "stage_worker/engine/torch/torch_test_util.h"

namespace stagecoach::worker {
namespace {

constexpr size_t kSlotBytes = 4096;

// The receiver's memory, and how many hold it.
class Slot {
 public:
  OutputSlot Offer() const {
    return OutputSlot{memory_.get(), kSlotBytes, memory_};
  }
  bool unused() const { return memory_.use_count() == 1; }
  const void* data() const { return memory_.get(); }

 private:
  const std::shared_ptr<void> memory_{std::aligned_alloc(64, kSlotBytes),
                                      std::free};
};

class OutputPlacementTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { StartTorchForTests(); }

  // A stage's call, as the engine makes it: the result is the only reference,
  // but for what `stage` keeps.
  at::Tensor Run(const std::function<at::Tensor()>& stage,
                 std::optional<OutputSlot> slot = std::nullopt) {
    OutputPlacement::Call call(&placement_, std::move(slot));
    at::Tensor output = stage();
    call.Stop();
    at::Tensor result = output.detach();
    output.reset();
    in_slot_ = call.HasInSlot(result);
    call.Finish(result);
    return result;
  }

  OutputPlacement placement_;
  bool in_slot_ = false;
  const at::Tensor x_ = at::arange(64, at::kFloat);
};

TEST_F(OutputPlacementTest, ServesTheOutputOnceTwoCallsWereAlike) {
  const Slot slot;
  const auto stage = [this] { return (x_ + 1).mul(3).sub(2); };
  const at::Tensor expected = Run(stage);
  Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
  EXPECT_TRUE(slot.unused());
  at::Tensor output = Run(stage, slot.Offer());
  EXPECT_TRUE(in_slot_);
  EXPECT_EQ(output.const_data_ptr(), slot.data());
  EXPECT_TRUE(at::equal(output, expected));
  EXPECT_FALSE(slot.unused());
  output.reset();
  EXPECT_TRUE(slot.unused());
}

TEST_F(OutputPlacementTest, AFirstCallThatFillsACacheIsNotTakenForTheRule) {
  const Slot slot;
  at::Tensor cache;
  const auto stage = [&] {
    if (!cache.defined()) cache = at::ones({64});
    return (x_ + cache).mul(3);
  };
  Run(stage);
  Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
  Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
  const at::Tensor output = Run(stage, slot.Offer());
  EXPECT_TRUE(in_slot_);
}

TEST_F(OutputPlacementTest, AnOutputThatAnOpSavedIsNeverInASlot) {
  const Slot slot;
  at::Tensor saved;
  const auto stage = [&] {
    saved = at::tanh(x_);
    return saved;
  };
  for (int i = 0; i < 4; ++i) Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
  EXPECT_TRUE(slot.unused());
}

// Its receiver will overwrite the slot: who saved the output must not see it.
TEST_F(OutputPlacementTest, AnOutputSavedAllOfASuddenIsMovedOutForAll) {
  const Slot slot;
  bool saves = false;
  at::Tensor saved;
  const auto stage = [&] {
    at::Tensor output = at::tanh(x_);
    if (saves) saved = output;
    return output;
  };
  const at::Tensor expected = Run(stage);
  Run(stage);
  saves = true;
  const at::Tensor output = Run(stage, slot.Offer());
  EXPECT_TRUE(in_slot_);  // before Finish()
  EXPECT_NE(output.const_data_ptr(), slot.data());
  EXPECT_EQ(saved.const_data_ptr(), output.const_data_ptr());
  EXPECT_TRUE(slot.unused());
  EXPECT_TRUE(at::equal(saved, expected));
  saves = false;
  saved.reset();
  Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
}

TEST_F(OutputPlacementTest, OtherSizesAreNotServed) {
  const Slot slot;
  int64_t rows = 4;
  const auto stage = [&] { return at::ones({rows, 8}).mul(2); };
  Run(stage);
  Run(stage);
  rows = 5;
  Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
  EXPECT_TRUE(slot.unused());
  rows = 4;
  const at::Tensor output = Run(stage, slot.Offer());
  EXPECT_TRUE(in_slot_);
}

TEST_F(OutputPlacementTest, AnOutputLargerThanTheSlotIsNotServed) {
  const Slot slot;
  const auto stage = [] { return at::ones({kSlotBytes / 4 + 1}).mul(2); };
  for (int i = 0; i < 3; ++i) Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
  EXPECT_TRUE(slot.unused());
}

TEST_F(OutputPlacementTest, ASlotServedToSomethingElseIsNotServedAgain) {
  const Slot slot;
  bool swapped = false;
  at::Tensor kept;
  const auto stage = [&] {
    at::Tensor first = x_.mul(2);
    at::Tensor second = x_.mul(3);
    if (!swapped) return second;
    kept = second;
    return first;
  };
  Run(stage);
  Run(stage);
  swapped = true;
  Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
  EXPECT_FALSE(slot.unused());  // `kept` lies there
  kept.reset();
  EXPECT_TRUE(slot.unused());
  swapped = false;
  Run(stage, slot.Offer());
  EXPECT_FALSE(in_slot_);
}

TEST_F(OutputPlacementTest, ExceptionsLeaveNothingBehind) {
  const Slot slot;
  const auto stage = [this] { return x_ + 1; };
  Run(stage);
  Run(stage);
  try {
    Run(
        [this]() -> at::Tensor {
          const at::Tensor used = x_ + 1;
          throw std::runtime_error("out of memory");
        },
        slot.Offer());
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(slot.unused());
  EXPECT_EQ(WatchAllocations(nullptr), nullptr);
}

}  // namespace
}  // namespace stagecoach::worker

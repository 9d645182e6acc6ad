#include "stage_worker/copies/state_vault.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace stagecoach::worker {
namespace {

StateTensor Tensor(const std::string& name, const std::vector<float>& values) {
  StateTensor tensor;
  tensor.name = name;
  tensor.descriptor.shape = {static_cast<int64_t>(values.size())};
  auto data = std::make_shared<std::vector<float>>(values);
  tensor.data = std::shared_ptr<const void>(data, data->data());
  return tensor;
}

StageState State(int32_t stage, float first) {
  StageState state;
  state.stage.stage = StageIndex(stage);
  state.parameters = {Tensor("weight", {first, first + 1, first + 2}),
                      Tensor("bias", {first + 3})};
  state.optimizer = {Tensor("weight.exp_avg", {first + 4, first + 5})};
  return state;
}

std::string BytesOf(const StageState& state) {
  return ReadState(state, 0, LayoutOf(state).bytes());
}

class StateVaultTest : public ::testing::Test {
 protected:
  StateVaultTest() { vault_.Begin("job-1", Epoch(1), /*keep=*/false); }
  absl::Status Receive(int64_t step, const StageState& state, int64_t offset,
                       int64_t size, int64_t epoch = 1) {
    const StateLayout layout = LayoutOf(state);
    return vault_.Receive("job-1", Epoch(epoch), {state.stage.stage, step},
                          offset == 0 ? &layout : nullptr, offset,
                          ReadState(state, offset, size));
  }
  std::shared_ptr<const StageState> Find(int32_t stage, int64_t step) {
    return vault_.Find("job-1", StageIndex(stage), step);
  }

  memory::AccountingAllocator allocator_;
  StateVault vault_{&allocator_};
};

TEST_F(StateVaultTest, ACopyInPiecesHasTheSameBitsOnceItIsWhole) {
  const StageState state = State(2, 7);
  const int64_t bytes = LayoutOf(state).bytes();
  ASSERT_EQ(bytes, 24);
  for (int64_t piece = 1; piece <= bytes; ++piece) {
    vault_.Begin("job-1", Epoch(1), /*keep=*/false);
    for (int64_t offset = 0; offset < bytes; offset += piece) {
      EXPECT_EQ(Find(2, 5), nullptr);
      ASSERT_TRUE(Receive(5, state, offset, piece).ok());
    }
    const auto kept = Find(2, 5);
    ASSERT_NE(kept, nullptr);
    EXPECT_EQ(BytesOf(*kept), BytesOf(state));
    ASSERT_EQ(kept->optimizer.size(), 1u);
    EXPECT_EQ(kept->optimizer[0].name, "weight.exp_avg");
    EXPECT_EQ(kept->parameters[1].descriptor.shape, std::vector<int64_t>{1});
  }
}

TEST_F(StateVaultTest, APieceThatIsHereAlreadyChangesNothing) {
  const StageState state = State(0, 1);
  ASSERT_TRUE(Receive(5, state, 0, 10).ok());
  ASSERT_TRUE(Receive(5, state, 10, 4).ok());
  ASSERT_TRUE(Receive(5, state, 10, 4).ok()) << "told again";
  ASSERT_TRUE(Receive(5, state, 14, 10).ok());
  ASSERT_TRUE(Receive(5, state, 14, 10).ok()) << "it is whole";
  EXPECT_EQ(BytesOf(*Find(0, 5)), BytesOf(state));
}

TEST_F(StateVaultTest, ACopyMayBeBegunAgain) {
  const StageState state = State(0, 1);
  ASSERT_TRUE(Receive(5, state, 0, 10).ok());
  ASSERT_TRUE(Receive(5, state, 0, 10).ok());
  ASSERT_TRUE(Receive(5, state, 10, 14).ok());
  EXPECT_EQ(BytesOf(*Find(0, 5)), BytesOf(state));
}

// A peer that has seen a step committed copies the next state at once, maybe
// before this worker hears of it and drops what it keeps.
TEST_F(StateVaultTest, OfAPeersStageTwoVersionsAreKept) {
  vault_.Put(5, State(1, 1));
  vault_.Put(6, State(1, 2));
  for (const int64_t step : {5, 6, 7}) {
    ASSERT_TRUE(Receive(step, State(0, 1), 0, 10).ok());
    ASSERT_TRUE(Receive(step, State(0, 1), 10, 14).ok());
  }
  EXPECT_EQ(Find(0, 5), nullptr);
  EXPECT_NE(Find(0, 6), nullptr);
  EXPECT_NE(Find(0, 7), nullptr);
  EXPECT_NE(Find(1, 5), nullptr) << "another stage's";
  EXPECT_EQ(allocator_.Stats().allocated_bytes.peak, 2 * 24);
}

TEST_F(StateVaultTest, ALatePieceOfAnOlderVersionChangesNothing) {
  const StageState state = State(0, 1);
  ASSERT_TRUE(Receive(5, state, 0, 10).ok());
  ASSERT_TRUE(Receive(6, state, 0, 10).ok());
  EXPECT_TRUE(Receive(5, state, 0, 10).ok());
  EXPECT_TRUE(Receive(5, state, 10, 14).ok());
  EXPECT_EQ(Find(0, 5), nullptr);
  ASSERT_TRUE(Receive(6, state, 10, 14).ok());
  EXPECT_TRUE(Receive(5, state, 0, 24).ok());
  EXPECT_EQ(Find(0, 5), nullptr);
  EXPECT_EQ(BytesOf(*Find(0, 6)), BytesOf(state));
  // Another placement may begin with an older state.
  vault_.Begin("job-1", Epoch(2), /*keep=*/true);
  ASSERT_TRUE(Receive(5, state, 0, 24, /*epoch=*/2).ok());
  EXPECT_NE(Find(0, 5), nullptr);
}

TEST_F(StateVaultTest, APieceThatDoesNotFitIsRefused) {
  const StageState state = State(0, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(5, state, 4, 4)))
      << "without a layout";
  ASSERT_TRUE(Receive(5, state, 0, 4).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(5, state, 8, 4))) << "a gap";
  const std::string more(21, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(
      vault_.Receive("job-1", Epoch(1), {StageIndex(0), 5}, nullptr, 4, more)));
  EXPECT_EQ(Find(0, 5), nullptr);
  EXPECT_TRUE(Receive(5, state, 4, 20).ok());
}

TEST_F(StateVaultTest, ALayoutThatCannotBeIsRefused) {
  StateLayout layout = LayoutOf(State(0, 1));
  layout.tensors.push_back(layout.tensors[0]);
  EXPECT_FALSE(layout.Validate().ok()) << "a parameter at the end";
  layout.tensors.back().optimizer = true;
  EXPECT_TRUE(layout.Validate().ok());
  layout.tensors.push_back(layout.tensors.back());
  EXPECT_FALSE(layout.Validate().ok()) << "a name twice";
  layout.tensors.back().name = "large";
  layout.tensors.back().descriptor.shape = {int64_t{1} << 61, 1};
  EXPECT_FALSE(layout.Validate().ok());
}

TEST_F(StateVaultTest, PiecesOfAnotherPlacementAreRefusedAndCounted) {
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Receive(5, State(0, 1), 0, 24, /*epoch=*/2)));
  const StateLayout layout = LayoutOf(State(0, 1));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      vault_.Receive("job-2", Epoch(1), {StageIndex(0), 5}, &layout, 0, "")));
  EXPECT_EQ(vault_.refused(), 2);
  EXPECT_TRUE(vault_.List("job-1").empty());
}

TEST_F(StateVaultTest, WhatIsNotNeededAnyMoreGivesItsMemoryBack) {
  for (const int64_t step : {4, 5}) {
    ASSERT_TRUE(Receive(step, State(0, 1), 0, 24).ok());
    ASSERT_TRUE(Receive(step, State(1, 1), 0, 24).ok());
  }
  EXPECT_EQ(vault_.List("job-1").size(), 4u);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 4 * 24);
  EXPECT_EQ(vault_.bytes(), 4 * 24);
  const auto category = static_cast<size_t>(memory::Category::kOther);
  EXPECT_EQ(allocator_.Stats().categories[category].current, 4 * 24);
  vault_.DropBefore(5);
  EXPECT_EQ(Find(0, 4), nullptr);
  EXPECT_NE(Find(0, 5), nullptr);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 2 * 24);
  vault_.Drop("job-2");
  EXPECT_EQ(vault_.List("job-1").size(), 2u);
  vault_.Drop("job-1");
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

// The next placement begins with what the last one left.
TEST_F(StateVaultTest, CopiesOutliveAPlacementThatIsToGoOn) {
  ASSERT_TRUE(Receive(5, State(0, 1), 0, 24).ok());
  ASSERT_TRUE(Receive(6, State(0, 2), 0, 8).ok()) << "not whole";
  vault_.Begin("job-1", Epoch(2), /*keep=*/true);
  EXPECT_NE(Find(0, 5), nullptr);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 24);
  vault_.Begin("job-2", Epoch(3), /*keep=*/true);
  EXPECT_TRUE(vault_.List("job-1").empty());
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

TEST_F(StateVaultTest, WithoutRoomACopyIsRefused) {
  allocator_.SetLimit(30);
  ASSERT_TRUE(Receive(5, State(0, 1), 0, 24).ok());
  const absl::Status status = Receive(6, State(0, 1), 0, 24);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(Find(0, 5), nullptr);
}

}  // namespace
}  // namespace stagecoach::worker

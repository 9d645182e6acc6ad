#include "transport/transport.h"

#include "gtest/gtest.h"

namespace stagecoach::transport {
namespace {

TEST(TransportTest, AHeaderNamesStageStepAndMicrobatch) {
  TransferHeader header;
  header.epoch = Epoch(2);
  header.step = StepIndex(37);
  header.microbatch = MicrobatchIndex(5);
  header.stage = StageIndex(1);
  header.direction = Direction::kGradient;
  EXPECT_EQ(ToString(header),
            "stage 1, step 37, microbatch 5 (gradient, epoch 2, replica 0)");
}

TEST(TransportTest, ASlotStartsEachTensorOnABoundary) {
  const TensorDescriptor small{DType::kFloat32, {1}};
  const TensorDescriptor empty{DType::kFloat32, {0}};
  const TensorDescriptor large{DType::kFloat32, {100}};
  EXPECT_EQ(SlotBytesFor({}), 0u);
  EXPECT_EQ(SlotBytesFor({small}), 4u);
  EXPECT_EQ(SlotBytesFor({small, large}), 464u);
  EXPECT_EQ(SlotBytesFor({large, empty, small}), 448u + 4u);
}

}  // namespace
}  // namespace stagecoach::transport

#include "stage_worker/engine/torch/torch_tensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <utility>

#include "stage_worker/engine/torch/dtypes.h"
#include "stage_worker/engine/torch/torch_test_util.h"

namespace stagecoach::worker {
namespace {

using absl::StatusCode;

std::shared_ptr<void> Slot() {
  return std::shared_ptr<void>(std::aligned_alloc(64, 256), std::free);
}

TensorDescriptor Floats(std::vector<int64_t> shape) {
  TensorDescriptor descriptor;
  descriptor.shape = std::move(shape);
  return descriptor;
}

class TorchTensorTest : public ::testing::Test {
 protected:
  void SetUp() override { StartTorchForTests(); }
  static at::Tensor Ready(const at::Tensor& tensor) {
    return WireReady(tensor, StageIndex(1), MicrobatchIndex(2));
  }
};

TEST_F(TorchTensorTest, DescribesItsTensor) {
  const at::Tensor tensor = at::ones({2, 3}, at::kBFloat16);
  const TorchTensor ref(tensor);
  EXPECT_EQ(ref.descriptor().ToString(), "bfloat16[2, 3]");
  EXPECT_EQ(ref.data(), tensor.const_data_ptr());
  EXPECT_EQ(ref.watch()->bytes(), 12);
  EXPECT_TRUE(ref.ready());
}

TEST_F(TorchTensorTest, EachDTypeIsItsScalarType) {
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16,
        DType::kInt64, DType::kInt32, DType::kUInt8, DType::kBool}) {
    EXPECT_EQ(DTypeOf(ScalarTypeOf(dtype)), dtype);
    EXPECT_EQ(c10::elementSize(ScalarTypeOf(dtype)), DTypeBytes(dtype));
  }
  EXPECT_THROW(TorchTensor(at::ones({1}, at::kComplexFloat)),
               std::invalid_argument);
}

TEST_F(TorchTensorTest, AnEmptyTensorHasNothingToWatch) {
  const TorchTensor ref(at::ones({0, 3}));
  EXPECT_EQ(ref.watch(), nullptr);
  EXPECT_EQ(ref.storage(), nullptr);
}

TEST_F(TorchTensorTest, AdoptsBytesInPlaceAndLetsThemGo) {
  std::shared_ptr<void> memory = Slot();
  void* const data = memory.get();
  static_cast<float*>(data)[5] = 7;
  const std::weak_ptr<void> held = memory;
  auto tensor = AdoptMemory(Floats({2, 3}), data, std::move(memory));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ((*tensor)[1][2].item<float>(), 7);
  EXPECT_FALSE(InOwnMemory(*tensor));
  at::Tensor view = tensor->flatten();
  tensor->reset();
  EXPECT_FALSE(held.expired()) << "a view still reads it";
  view.reset();
  EXPECT_TRUE(held.expired());
}

TEST_F(TorchTensorTest, AdoptsNothingAtAll) {
  std::shared_ptr<void> memory = Slot();
  const std::weak_ptr<void> held = memory;
  auto tensor = AdoptMemory(Floats({0, 3}), nullptr, std::move(memory));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->numel(), 0);
  tensor->reset();
  EXPECT_TRUE(held.expired());
}

TEST_F(TorchTensorTest, RefusesMemoryItCannotUse) {
  const std::shared_ptr<void> memory = Slot();
  char* const data = static_cast<char*>(memory.get());
  EXPECT_EQ(AdoptMemory(Floats({2}), data + 16, memory).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(AdoptMemory(Floats({2}), nullptr, memory).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(AdoptMemory(Floats({-1}), data, memory).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(TorchTensorTest, AWholeTensorIsReadyForTheWire) {
  const at::Tensor tensor = at::ones({2, 3}).requires_grad_(true);
  const at::Tensor ready = Ready(tensor);
  EXPECT_EQ(ready.const_data_ptr(), tensor.const_data_ptr());
  EXPECT_FALSE(ready.requires_grad());
}

TEST_F(TorchTensorTest, OtherTensorsAreCopiedForTheWire) {
  const at::Tensor base = at::arange(12, at::kFloat).view({3, 4});
  std::shared_ptr<void> memory = Slot();
  const at::Tensor received =
      AdoptMemory(Floats({3, 4}), memory.get(), memory).value().copy_(base);
  for (const at::Tensor& tensor : {base.t(), base[1], base.narrow(0, 0, 2),
                                   base[0].expand({5, 4}), received}) {
    const int64_t before = CurrentBytes(memory::Category::kWireSend);
    const at::Tensor ready = Ready(tensor);
    EXPECT_NE(ready.const_data_ptr(), tensor.const_data_ptr());
    EXPECT_TRUE(ready.is_contiguous());
    EXPECT_EQ(ready.storage().nbytes(), ready.nbytes());
    EXPECT_TRUE(at::equal(ready, tensor));
    EXPECT_EQ(CurrentBytes(memory::Category::kWireSend) - before,
              static_cast<int64_t>(tensor.nbytes()));
  }
}

}  // namespace
}  // namespace stagecoach::worker

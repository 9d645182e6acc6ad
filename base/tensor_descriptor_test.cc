#include "base/tensor_descriptor.h"

#include <limits>

#include "gtest/gtest.h"

namespace stagecoach {
namespace {

TensorDescriptor Make(DType dtype, std::vector<int64_t> shape) {
  TensorDescriptor descriptor;
  descriptor.dtype = dtype;
  descriptor.shape = std::move(shape);
  return descriptor;
}

TEST(TensorDescriptorTest, CountsElementsAndBytes) {
  const TensorDescriptor activation = Make(DType::kFloat32, {4, 128, 256});
  EXPECT_EQ(activation.elements(), 4 * 128 * 256);
  EXPECT_EQ(activation.bytes(), size_t{4 * 128 * 256 * 4});
  EXPECT_EQ(activation.ToString(), "float32[4, 128, 256]");
  const TensorDescriptor scalar = Make(DType::kFloat64, {});
  EXPECT_EQ(scalar.bytes(), size_t{8});
  EXPECT_EQ(scalar.ToString(), "float64[]");
  EXPECT_EQ(Make(DType::kInt64, {3, 0}).bytes(), size_t{0});
}

TEST(TensorDescriptorTest, DescriptorsFromOutsideAreChecked) {
  EXPECT_TRUE(Make(DType::kBFloat16, {2, 0}).IsValid());
  EXPECT_FALSE(Make(DType::kBFloat16, {2, -1}).IsValid());
  EXPECT_FALSE(Make(static_cast<DType>(0), {2}).IsValid());
  EXPECT_FALSE(Make(static_cast<DType>(9), {2}).IsValid());
  const int64_t huge = int64_t{1} << 40;
  EXPECT_FALSE(Make(DType::kUInt8, {huge, huge}).IsValid());
  EXPECT_FALSE(Make(DType::kFloat64, {int64_t{1} << 61}).IsValid());
  EXPECT_EQ(Make(DType::kFloat64, {huge, huge}).bytes(),
            size_t{std::numeric_limits<int64_t>::max()});
}

TEST(TensorDescriptorTest, EveryTypeHasASizeAndAName) {
  for (uint8_t code = 1; code <= 8; ++code) {
    EXPECT_GT(DTypeBytes(static_cast<DType>(code)), size_t{0}) << +code;
    EXPECT_STRNE(DTypeName(static_cast<DType>(code)), "unknown") << +code;
  }
}

TEST(TensorDescriptorTest, EqualMeansTypeAndShape) {
  EXPECT_EQ(Make(DType::kInt32, {2, 3}), Make(DType::kInt32, {2, 3}));
  EXPECT_FALSE(Make(DType::kInt32, {2, 3}) == Make(DType::kFloat32, {2, 3}));
  EXPECT_FALSE(Make(DType::kInt32, {2, 3}) == Make(DType::kInt32, {3, 2}));
}

}  // namespace
}  // namespace stagecoach

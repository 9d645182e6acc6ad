#include "transport/ring/wire_format.h"

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport::ring {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kSlotBytes = 1024;

OutgoingTensor Tensor(DType dtype, std::vector<int64_t> shape) {
  static const char data[kSlotBytes] = {};
  OutgoingTensor tensor;
  tensor.descriptor.dtype = dtype;
  tensor.descriptor.shape = std::move(shape);
  tensor.data = data;
  return tensor;
}

TransferHeader Header() {
  TransferHeader header;
  header.epoch = Epoch(-1);
  header.step = StepIndex(int64_t{1} << 50);
  header.replica = 3;
  header.microbatch = MicrobatchIndex(5);
  header.stage = StageIndex(2);
  header.direction = Direction::kGradient;
  return header;
}

EncodedTransfer Encoded() {
  return EncodeTransfer(Header(),
                        {Tensor(DType::kFloat32, {4, 5}),
                         Tensor(DType::kInt64, {0}), Tensor(DType::kBool, {7})})
      .value();
}

TEST(WireFormatTest, DecodesWhatItEncoded) {
  alignas(64) char slot[kSlotBytes];
  const EncodedTransfer encoded = Encoded();
  EXPECT_THAT(encoded.offsets, ElementsAre(0, 128, 128));
  EXPECT_EQ(encoded.bytes, 135u);
  const ReceivedTransfer decoded =
      DecodeTransfer(encoded.notice, slot, kSlotBytes).value();
  EXPECT_EQ(decoded.header, Header());
  ASSERT_EQ(decoded.tensors.size(), 3u);
  EXPECT_EQ(decoded.tensors[0].descriptor.ToString(), "float32[4, 5]");
  EXPECT_EQ(decoded.tensors[1].descriptor.ToString(), "int64[0]");
  EXPECT_EQ(decoded.tensors[2].descriptor.ToString(), "bool[7]");
  EXPECT_EQ(decoded.tensors[0].data, slot);
  EXPECT_EQ(decoded.tensors[2].data, slot + 128);
}

TEST(WireFormatTest, TheSlotMayBeFullToTheLastByte) {
  alignas(64) char slot[kSlotBytes];
  const EncodedTransfer encoded = Encoded();
  EXPECT_TRUE(DecodeTransfer(encoded.notice, slot, 135).ok());
  EXPECT_FALSE(DecodeTransfer(encoded.notice, slot, 134).ok());
}

struct Corruption {
  const char* what;
  std::function<void(PayloadNotice*)> apply;
  const char* message;
};

TEST(WireFormatTest, RefusesCorruptedNotices) {
  const std::vector<Corruption> corruptions = {
      {"count", [](PayloadNotice* n) { n->tensor_count = 17; }, "17 tensors"},
      {"huge count", [](PayloadNotice* n) { n->tensor_count = 0xFFFFFFFF; },
       "4294967295 tensors"},
      {"count past what was written",
       [](PayloadNotice* n) { n->tensor_count = 4; }, "unknown tensor type 0"},
      {"rank", [](PayloadNotice* n) { n->tensors[0].rank = 9; },
       "9 dimensions"},
      {"huge rank", [](PayloadNotice* n) { n->tensors[1].rank = 255; },
       "255 dimensions"},
      {"type", [](PayloadNotice* n) { n->tensors[0].dtype = 0; },
       "unknown tensor type 0"},
      {"unknown type", [](PayloadNotice* n) { n->tensors[2].dtype = 9; },
       "unknown tensor type 9"},
      {"negative dimension",
       [](PayloadNotice* n) { n->tensors[0].shape[1] = -5; }, "-5"},
      {"least dimension",
       [](PayloadNotice* n) { n->tensors[0].shape[0] = INT64_MIN; },
       "negative"},
      {"negative dimension behind an empty one",
       [](PayloadNotice* n) {
         n->tensors[0].shape[0] = 0;
         n->tensors[0].shape[1] = -1;
       },
       "negative"},
      {"product that overflows",
       [](PayloadNotice* n) {
         n->tensors[0].shape[0] = int64_t{1} << 32;
         n->tensors[0].shape[1] = int64_t{1} << 32;
       },
       "absurd"},
      {"greatest dimension",
       [](PayloadNotice* n) { n->tensors[0].shape[0] = INT64_MAX; }, "absurd"},
      {"more than the slot",
       [](PayloadNotice* n) { n->tensors[0].shape[0] = 1000; },
       "in a slot of 1024"},
      {"direction", [](PayloadNotice* n) { n->header.direction = 2; },
       "direction 2"},
  };
  alignas(64) char slot[kSlotBytes];
  for (const Corruption& corruption : corruptions) {
    PayloadNotice notice = Encoded().notice;
    corruption.apply(&notice);
    const auto decoded = DecodeTransfer(notice, slot, kSlotBytes);
    EXPECT_TRUE(absl::IsDataLoss(decoded.status())) << corruption.what;
    EXPECT_THAT(std::string(decoded.status().message()),
                HasSubstr(corruption.message))
        << corruption.what;
  }
}

// Whatever bytes a notice has: an error, or tensors that lie in the slot.
TEST(WireFormatTest, WhateverComesStaysInTheSlot) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  alignas(64) char slot[kSlotBytes];
  int accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    PayloadNotice notice = Encoded().notice;
    auto* const bytes = reinterpret_cast<unsigned char*>(&notice);
    const size_t interesting = offsetof(PayloadNotice, tensors) + 4 * 72;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      bytes[random() % interesting] = static_cast<unsigned char>(random());
    }
    const auto decoded = DecodeTransfer(notice, slot, kSlotBytes);
    if (!decoded.ok()) continue;
    ++accepted;
    for (const IncomingTensor& tensor : decoded->tensors) {
      const auto* const data = static_cast<const char*>(tensor.data);
      ASSERT_GE(data, slot);
      ASSERT_LE(tensor.descriptor.bytes(), kSlotBytes);
      // A tensor without bytes may stand at the very end.
      ASSERT_LE(data - slot + tensor.descriptor.bytes(), kSlotBytes);
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(WireFormatTest, RefusesToEncodeWhatCannotBeDescribed) {
  OutgoingTensor no_data = Tensor(DType::kInt64, {3});
  no_data.data = nullptr;
  const std::vector<std::vector<OutgoingTensor>> bad = {
      std::vector<OutgoingTensor>(17, Tensor(DType::kInt64, {1})),
      {Tensor(DType::kInt64, std::vector<int64_t>(9, 1))},
      {Tensor(DType::kInt64, {-1})},
      {Tensor(static_cast<DType>(77), {1})},
      {no_data}};
  for (const auto& tensors : bad) {
    const auto encoded = EncodeTransfer(Header(), tensors);
    EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument);
  }
  no_data.descriptor.shape = {0};
  EXPECT_TRUE(EncodeTransfer(Header(), {no_data}).ok());
}

}  // namespace
}  // namespace stagecoach::transport::ring

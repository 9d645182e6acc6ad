#include "transport/two_sided/control_message.h"

#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace stagecoach::transport::two_sided {
namespace {

TransferHeader HeaderOf(int microbatch) {
  TransferHeader header;
  header.epoch = Epoch(int64_t{1} << 40);
  header.step = StepIndex(-3);
  header.replica = 5;
  header.microbatch = MicrobatchIndex(microbatch);
  header.stage = StageIndex(7);
  header.direction = Direction::kGradient;
  return header;
}

TensorDescriptor Tensor(DType dtype, std::vector<int64_t> shape) {
  TensorDescriptor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

ControlMessage Announcement() {
  ControlMessage message;
  message.kind = ControlKind::kAnnounce;
  message.edge = "activation 0->1";
  message.connection = std::numeric_limits<uint64_t>::max() - 1;
  message.to_receiver = true;
  message.number = 12345678901;
  message.headers = {HeaderOf(-1)};
  message.tensors = {Tensor(DType::kBFloat16, {4, 128, 256}),
                     Tensor(DType::kInt64, {})};
  return message;
}

void ExpectSame(const ControlMessage& a, const ControlMessage& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.edge, b.edge);
  EXPECT_EQ(a.connection, b.connection);
  EXPECT_EQ(a.to_receiver, b.to_receiver);
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.headers, b.headers);
  EXPECT_EQ(a.tensors, b.tensors);
}

TEST(ControlMessageTest, RoundTripsAnAnnouncement) {
  ExpectSame(DecodeControl(EncodeControl(Announcement())).value(),
             Announcement());
}

TEST(ControlMessageTest, RoundTripsAWelcomeWithBytesOfEveryKind) {
  ControlMessage message;
  message.kind = ControlKind::kWelcome;
  message.edge = "e";
  message.number = size_t{1} << 40;
  for (int byte = 0; byte < 256; ++byte) {
    message.text.push_back(static_cast<char>(byte));
  }
  ExpectSame(DecodeControl(EncodeControl(message)).value(), message);
}

TEST(ControlMessageTest, RoundTripsAsManyAcknowledgementsAsFit) {
  ControlMessage message;
  message.kind = ControlKind::kAcknowledge;
  for (size_t i = 0; i < kMaxHeadersPerMessage; ++i) {
    message.headers.push_back(HeaderOf(static_cast<int>(i)));
  }
  ExpectSame(DecodeControl(EncodeControl(message)).value(), message);
  message.headers.push_back(HeaderOf(1));
  EXPECT_TRUE(absl::IsDataLoss(DecodeControl(EncodeControl(message)).status()));
}

TEST(ControlMessageTest, RefusesEveryCutAndWhatFollows) {
  const std::string whole = EncodeControl(Announcement());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeControl(whole.substr(0, size)).status()))
        << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeControl(whole + "x").status()));
}

TEST(ControlMessageTest, RefusesTensorsThatCannotBe) {
  for (const TensorDescriptor& tensor :
       {Tensor(static_cast<DType>(99), {1}), Tensor(DType::kInt64, {-1}),
        Tensor(DType::kInt64, std::vector<int64_t>(9, 1)),
        Tensor(DType::kInt64, {INT64_MAX, INT64_MAX})}) {
    ControlMessage message = Announcement();
    message.tensors = {tensor};
    EXPECT_TRUE(
        absl::IsDataLoss(DecodeControl(EncodeControl(message)).status()));
  }
  ControlMessage many = Announcement();
  many.tensors.assign(17, Tensor(DType::kInt64, {1}));
  EXPECT_TRUE(absl::IsDataLoss(DecodeControl(EncodeControl(many)).status()));
}

TEST(ControlMessageTest, RefusesListsWhereTheyDoNotBelong) {
  ControlMessage grant = Announcement();
  grant.kind = ControlKind::kGrant;
  EXPECT_TRUE(absl::IsDataLoss(DecodeControl(EncodeControl(grant)).status()));
  ControlMessage empty;
  empty.kind = ControlKind::kAcknowledge;
  EXPECT_TRUE(absl::IsDataLoss(DecodeControl(EncodeControl(empty)).status()));
}

TEST(ControlMessageTest, AnyBytesGiveAMessageOrAnError) {
  std::mt19937 random(20261130);
  const std::string whole = EncodeControl(Announcement());
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (int change = 0; change < 4; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<ControlMessage> message = DecodeControl(bytes);
    if (!message.ok()) continue;
    // What was accepted is written the same way again.
    ExpectSame(DecodeControl(EncodeControl(*message)).value(), *message);
  }
}

}  // namespace
}  // namespace stagecoach::transport::two_sided

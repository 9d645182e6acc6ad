#include "transport/tcp/frame.h"

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport::tcp {
namespace {

Announce SampleAnnounce() {
  static const int64_t somewhere = 0;
  OutgoingTensor tensor;
  tensor.descriptor.dtype = DType::kInt64;
  tensor.descriptor.shape = {2, 3};
  tensor.data = &somewhere;
  Announce announce;
  announce.sequence = 5;
  announce.payload_bytes = 96;
  announce.notice = ring::EncodeTransfer(testing::HeaderOf(4), {tensor, tensor})
                        .value()
                        .notice;
  return announce;
}

EdgeStatus SampleStatus() {
  EdgeStatus status;
  status.received = 3;
  status.granted = 9;
  status.first_ack = 2;
  for (int i = 0; i < 4; ++i) {
    status.acks.push_back(ring::EncodeHeader(testing::HeaderOf(i)));
  }
  return status;
}

Hello SampleHello() {
  Hello hello;
  hello.token[0] = 7;
  hello.instance[15] = 8;
  hello.connection = 0xFEEDFACECAFEBEEF;
  hello.epoch = int64_t{1} << 40;
  hello.checksum = true;
  return hello;
}

OpenEdge SampleOpen() {
  OpenEdge open;
  open.name = "activation 0->1";
  open.seen = 12;
  open.resume = true;
  return open;
}

TEST(FrameTest, DecodersReadWhatEncodersWrote) {
  EXPECT_EQ(Encode(DecodeHello(Encode(SampleHello())).value()),
            Encode(SampleHello()));
  EXPECT_EQ(Encode(DecodeOpenEdge(Encode(SampleOpen())).value()),
            Encode(SampleOpen()));
  EXPECT_EQ(Encode(DecodeAnnounce(Encode(SampleAnnounce())).value()),
            Encode(SampleAnnounce()));
  EXPECT_EQ(Encode(DecodeEdgeStatus(Encode(SampleStatus())).value()),
            Encode(SampleStatus()));
  EdgeOpened opened;
  opened.slot_bytes = 64;
  opened.received = 3;
  opened.granted = 5;
  EXPECT_EQ(Encode(DecodeEdgeOpened(Encode(opened)).value()), Encode(opened));
  EXPECT_EQ(DecodeNumber(EncodeNumber(77)).value(), 77u);
  EXPECT_TRUE(DecodeWelcome(EncodeWelcome(true)).value());
  absl::Status refusal;
  ASSERT_TRUE(
      DecodeStatus(EncodeStatus(absl::NotFoundError("edge x")), &refusal).ok());
  EXPECT_EQ(refusal, absl::NotFoundError("edge x"));
}

// Whether each decoder took it, for the next test to use what it may.
int DecodeAll(absl::string_view body) {
  absl::Status refusal;
  return DecodeHello(body).ok() + DecodeOpenEdge(body).ok() +
         DecodeAnnounce(body).ok() + DecodeEdgeStatus(body).ok() +
         DecodeEdgeOpened(body).ok() + DecodeNumber(body).ok() +
         DecodeWelcome(body).ok() + DecodeStatus(body, &refusal).ok();
}

TEST(FrameTest, ACutBodyIsRefused) {
  const std::string hello = Encode(SampleHello());
  const std::string open = Encode(SampleOpen());
  const std::string announce = Encode(SampleAnnounce());
  const std::string status = Encode(SampleStatus());
  for (size_t cut = 0; cut < announce.size(); ++cut) {
    EXPECT_FALSE(DecodeHello(hello.substr(0, cut)).ok() && cut < hello.size());
    EXPECT_FALSE(DecodeOpenEdge(open.substr(0, cut)).ok() && cut < open.size());
    EXPECT_FALSE(DecodeAnnounce(announce.substr(0, cut)).ok());
    EXPECT_FALSE(DecodeEdgeStatus(status.substr(0, cut)).ok() &&
                 cut < status.size());
  }
}

TEST(FrameTest, ImpossibleNumbersAreRefused) {
  EdgeStatus status = SampleStatus();
  status.received = status.granted + 1;
  EXPECT_FALSE(DecodeEdgeStatus(Encode(status)).ok());
  EdgeOpened opened;
  opened.granted = ~uint64_t{0};
  EXPECT_FALSE(DecodeEdgeOpened(Encode(opened)).ok());
  OpenEdge open = SampleOpen();
  open.name.assign(kMaxEdgeNameBytes + 1, 'x');
  EXPECT_FALSE(DecodeOpenEdge(Encode(open)).ok());
  open.name.clear();
  EXPECT_FALSE(DecodeOpenEdge(Encode(open)).ok());
  std::string announce = Encode(SampleAnnounce());
  announce[48] = 17;  // tensors
  EXPECT_FALSE(DecodeAnnounce(announce).ok());
}

TEST(FrameTest, NoiseIsDecodedOrRefusedAndNothingElse) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::string samples[] = {Encode(SampleHello()), Encode(SampleOpen()),
                                 Encode(SampleAnnounce()),
                                 Encode(SampleStatus())};
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string body = samples[random() % 4];
    for (uint64_t i = random() % 6; i > 0; --i) {
      body[random() % body.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) body.resize(random() % (body.size() + 20));
    taken += DecodeAll(body);
  }
  EXPECT_GT(taken, 0);
}

TEST(FrameTest, EveryFlippedBitOfAFrameIsSeen) {
  std::string frame;
  AppendFrame(FrameType::kOpenEdge, 3, Encode(SampleOpen()), &frame);
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    std::string damaged = frame;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    FrameHeader header;
    damaged.copy(reinterpret_cast<char*>(&header), sizeof(header));
    const absl::string_view body =
        absl::string_view(damaged).substr(sizeof(header));
    EXPECT_TRUE(CheckHeader(header) != HeaderFault::kNone ||
                !CheckIntegrity(header, body))
        << bit;
  }
}

}  // namespace
}  // namespace stagecoach::transport::tcp

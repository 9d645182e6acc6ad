// Peers that are broken or mean harm: turned away with a counted reason, and
// everybody else is served as before.
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/tcp/crc32c.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/testing/raw_peer.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport {
namespace {

using tcp::Counters;
using tcp::EdgeOpened;
using tcp::FrameType;
using tcp::RawPeer;
using tcp::Refusal;
using testing::EdgeNamed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using testing::kTestDeadline;
using testing::LostEdges;
using testing::Outcome;
using testing::PoolNamed;
using testing::TensorOver;
using testing::ValuesOf;

// An endpoint with the edge "e" of one granted slot for eight values, of which
// a raw peer is the sender.
class TcpHostileTest : public ::testing::Test {
 protected:
  TcpHostileTest() : bell_(Doorbell::Create().value()) {
    options_.counters = std::make_shared<Counters>();
    options_.reconnect.deadline = absl::Milliseconds(50);
    Open();
  }
  void Open() {
    edge_.reset();
    received_ = Outcome();
    EndpointOptions endpoint = testing::OptionsFor(bell_.get(), &lost_);
    endpoint.epoch = Epoch(7);
    endpoint_ = NewTcpEndpoint(endpoint, options_).value();
    edge_ = endpoint_->OpenReceive(PoolNamed("e", 1, 64)).value();
    edge_->PostReceive(IntoReceive(&received_));
  }
  std::unique_ptr<RawPeer> Peer() {
    return std::make_unique<RawPeer>(endpoint_->Describe());
  }
  static tcp::Hello HelloOf(const RawPeer& peer) {
    tcp::Hello hello = peer.hello();
    hello.epoch = 7;
    return hello;
  }
  EdgeOpened GreetAndOpen(RawPeer* peer, bool resume = false) {
    peer->Send(FrameType::kHello, 0, Encode(HelloOf(*peer)));
    EXPECT_EQ(peer->Receive().type, FrameType::kWelcome);
    tcp::OpenEdge open;
    open.name = "e";
    open.resume = resume;
    peer->Send(FrameType::kOpenEdge, 0, Encode(open));
    const RawPeer::Received answer = peer->Receive();
    EXPECT_EQ(answer.type, FrameType::kEdgeOpened);
    return tcp::DecodeEdgeOpened(answer.body).value_or(EdgeOpened());
  }
  int64_t Refused(Refusal reason) const {
    return options_.counters->Refused(reason);
  }
  bool Until(const std::function<bool()>& done) {
    return testing::Until(bell_.get(), {endpoint_.get()}, done);
  }
  // The greeting is refused with a status of this code.
  void ExpectRefused(const tcp::Hello& hello, absl::StatusCode code) {
    const auto peer = Peer();
    peer->Send(FrameType::kHello, 0, Encode(hello));
    const RawPeer::Received answer = peer->Receive();
    ASSERT_EQ(answer.type, FrameType::kRefused);
    absl::Status refusal;
    ASSERT_TRUE(tcp::DecodeStatus(answer.body, &refusal).ok());
    EXPECT_EQ(refusal.code(), code) << refusal;
    peer->AwaitEnd();
  }
  // After whatever came before, a proper sender gets through.
  void ExpectServiceAsBefore() {
    LostEdges lost;
    EndpointOptions options = testing::OptionsFor(bell_.get(), &lost);
    options.epoch = Epoch(7);
    const auto sender = NewTcpEndpoint(options, options_).value();
    const auto receive = endpoint_->OpenReceive(PoolNamed("f", 1, 64)).value();
    const auto send = sender->OpenSend(EdgeNamed("f"), endpoint_->Describe(),
                                       nullptr, kTestDeadline);
    ASSERT_TRUE(send.ok()) << send.status();
    Outcome sent;
    Outcome received;
    const std::vector<int64_t> values = {1, 2, 3};
    receive->PostReceive(IntoReceive(&received));
    (*send)->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
    ASSERT_TRUE(
        testing::Until(bell_.get(), {endpoint_.get(), sender.get()},
                       [&] { return received.calls == 1 && sent.calls == 1; }));
    EXPECT_EQ(ValuesOf(received.transfer), values);
  }
  static std::string Values(std::vector<int64_t> values) {
    return std::string(reinterpret_cast<const char*>(values.data()),
                       8 * values.size());
  }

  std::unique_ptr<Doorbell> bell_;
  LostEdges lost_;
  TcpOptions options_;
  Outcome received_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<ReceiveEdge> edge_;
};

TEST_F(TcpHostileTest, SomethingElseThanFramesIsCut) {
  const auto peer = Peer();
  peer->SendBytes("GET / HTTP/1.1\r\nHost: stagecoach.example\r\n\r\n");
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kNotOurs), 1);
  ExpectServiceAsBefore();
}

TEST_F(TcpHostileTest, AnotherVersionIsCut) {
  const auto peer = Peer();
  std::string frame;
  AppendFrame(FrameType::kHello, 0, Encode(HelloOf(*peer)), &frame);
  frame[4] = 99;
  peer->SendBytes(frame);
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kVersion), 1);
}

TEST_F(TcpHostileTest, AbsurdLengthsAreCutBeforeAnythingIsRead) {
  for (const size_t field : {12, 16}) {  // body_bytes, payload_bytes
    const auto peer = Peer();
    std::string frame;
    AppendFrame(FrameType::kHello, 0, Encode(HelloOf(*peer)), &frame);
    frame.replace(field, 4, "\xFF\xFF\xFF\x7F");
    peer->SendBytes(frame);
    peer->AwaitEnd();
  }
  EXPECT_EQ(Refused(Refusal::kTooLong), 2);
  ExpectServiceAsBefore();
}

TEST_F(TcpHostileTest, ADamagedFrameIsCut) {
  const auto peer = Peer();
  std::string frame;
  AppendFrame(FrameType::kHello, 0, Encode(HelloOf(*peer)), &frame);
  frame.back() = static_cast<char>(frame.back() ^ 1);
  peer->SendBytes(frame);
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kChecksum), 1);
}

TEST_F(TcpHostileTest, AGreetingOfAnotherEpochIsRefused) {
  tcp::Hello hello = HelloOf(*Peer());
  hello.epoch = 6;
  ExpectRefused(hello, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Refused(Refusal::kEpoch), 1);
  ExpectServiceAsBefore();
}

TEST_F(TcpHostileTest, AGreetingForAnotherEndpointIsRefused) {
  tcp::Hello hello = HelloOf(*Peer());
  hello.instance[3] ^= 1;
  ExpectRefused(hello, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Refused(Refusal::kInstance), 1);
}

TEST_F(TcpHostileTest, AGreetingWithoutTheTokenIsRefused) {
  tcp::Hello hello = HelloOf(*Peer());
  hello.token[15] ^= 1;
  ExpectRefused(hello, absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Refused(Refusal::kToken), 1);
}

TEST_F(TcpHostileTest, WhoConnectsAndSaysNothingIsCut) {
  options_.greeting_time = absl::Milliseconds(20);
  Open();
  const auto peer = Peer();
  peer->SendBytes("S");  // a part of a header only
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kSilent), 1);
  ExpectServiceAsBefore();
}

TEST_F(TcpHostileTest, AnUnknownEdgeIsRefusedAndNothingElse) {
  const auto peer = Peer();
  EXPECT_EQ(GreetAndOpen(peer.get()).granted, 1u);
  tcp::OpenEdge open;
  open.name = "no such edge";
  peer->Send(FrameType::kOpenEdge, 1, Encode(open));
  const RawPeer::Received answer = peer->Receive();
  EXPECT_EQ(answer.type, FrameType::kEdgeRefused);
  EXPECT_EQ(answer.edge, 1u);
  EXPECT_THAT(answer.body, HasSubstr("no such edge"));
  EXPECT_EQ(Refused(Refusal::kUnknownEdge), 1);
  // The other one goes on.
  peer->AnnounceValues(0, 0, 2);
  peer->SendPayload(0, 0, Values({8, 9}));
  ASSERT_TRUE(Until([&] { return received_.calls == 1; }));
  EXPECT_THAT(ValuesOf(received_.transfer), ElementsAre(8, 9));
}

TEST_F(TcpHostileTest, AFrameForAnEdgeThatNeverWasIsCut) {
  const auto peer = Peer();
  GreetAndOpen(peer.get());
  peer->AnnounceValues(77, 0, 2);
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kUnknownEdge), 1);
}

TEST_F(TcpHostileTest, AnAnnouncementThatDoesNotFitTheSlotIsCut) {
  const auto peer = Peer();
  GreetAndOpen(peer.get());
  peer->AnnounceValues(0, 0, 9);
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kTooLong), 1);
  EXPECT_EQ(received_.calls, 0);
}

TEST_F(TcpHostileTest, MoreBytesThanAnnouncedAreCut) {
  const auto peer = Peer();
  GreetAndOpen(peer.get());
  peer->AnnounceValues(0, 0, 2);
  peer->SendPayload(0, 0, Values({1, 2, 3}));
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kTooLong), 1);
  // Nobody comes back: the edge is lost, and nothing was delivered.
  ASSERT_TRUE(Until([&] { return received_.calls == 1; }));
  EXPECT_FALSE(received_.status.ok());
  EXPECT_EQ(lost_.all().size(), 1u);
}

TEST_F(TcpHostileTest, APayloadWithoutGrantOrAnnouncementIsCut) {
  for (const uint64_t sequence : {0, 1}) {
    Open();
    const auto peer = Peer();
    GreetAndOpen(peer.get());
    if (sequence == 1) {  // announced, but only transfer 0 is granted
      peer->AnnounceValues(0, 0, 1);
      peer->AnnounceValues(0, 1, 1);
      peer->SendPayload(0, 0, Values({1}));
    }
    peer->SendPayload(0, sequence, Values({1}));
    peer->AwaitEnd();
  }
  EXPECT_EQ(Refused(Refusal::kProtocol), 2);
}

TEST_F(TcpHostileTest, ADamagedPayloadIsNotDelivered) {
  options_.checksum = true;
  options_.reconnect.deadline = kTestDeadline;
  Open();
  const auto peer = Peer();
  GreetAndOpen(peer.get());
  peer->AnnounceValues(0, 0, 2);
  tcp::Trailer trailer;
  trailer.flags = tcp::kTrailerHasCrc;
  const std::string bytes = Values({1, 2});
  trailer.crc = tcp::Crc32c(bytes.data(), bytes.size()) ^ 1;
  peer->SendPayload(0, 0, bytes, trailer);
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kChecksum), 1);
  EXPECT_EQ(options_.counters->transfers_received, 0);
  // Sent again, whole, on a new connection it is.
  const auto again = Peer();
  EXPECT_EQ(GreetAndOpen(again.get(), true).received, 0u);
  again->AnnounceValues(0, 0, 2);
  trailer.crc ^= 1;
  again->SendPayload(0, 0, bytes, trailer);
  ASSERT_TRUE(Until([&] { return received_.calls == 1; }));
  EXPECT_THAT(ValuesOf(received_.transfer), ElementsAre(1, 2));
}

TEST_F(TcpHostileTest, APayloadWithoutADemandedChecksumIsCut) {
  options_.checksum = true;
  Open();
  const auto peer = Peer();
  GreetAndOpen(peer.get());
  peer->AnnounceValues(0, 0, 1);
  peer->SendPayload(0, 0, Values({1}));
  peer->AwaitEnd();
  EXPECT_EQ(Refused(Refusal::kProtocol), 1);
}

TEST_F(TcpHostileTest, ADuplicateIsReadDroppedAndCounted) {
  Outcome second;
  edge_->PostReceive(IntoReceive(&second));
  const auto peer = Peer();
  GreetAndOpen(peer.get());
  peer->AnnounceValues(0, 0, 2);
  peer->SendPayload(0, 0, Values({1, 2}));
  ASSERT_TRUE(Until([&] { return received_.calls == 1; }));
  peer->SendPayload(0, 0, Values({3, 4}));
  received_.transfer = ReceivedTransfer();  // gives the slot back: a grant
  peer->AnnounceValues(0, 1, 2);
  uint64_t granted = 0;
  while (granted < 2) {
    const RawPeer::Received frame = peer->Receive();
    ASSERT_FALSE(frame.end);
    if (frame.type == FrameType::kStatus) {
      granted = tcp::DecodeEdgeStatus(frame.body).value().granted;
    }
  }
  peer->SendPayload(0, 1, Values({5, 6}));
  ASSERT_TRUE(Until([&] { return second.calls == 1; }));
  EXPECT_THAT(ValuesOf(second.transfer), ElementsAre(5, 6));
  EXPECT_EQ(received_.calls, 1);
  EXPECT_EQ(options_.counters->duplicate_transfers, 1);
}

TEST_F(TcpHostileTest, APayloadThatWasTakenBackIsNotDelivered) {
  const auto peer = Peer();
  GreetAndOpen(peer.get());
  peer->AnnounceValues(0, 0, 2);
  tcp::Trailer trailer;
  trailer.flags = tcp::kTrailerCancelled;
  peer->SendPayload(0, 0, Values({0, 0}), trailer);
  peer->Send(FrameType::kCloseEdge, 0, {});
  ASSERT_TRUE(Until([&] { return received_.calls == 1; }));
  EXPECT_TRUE(absl::IsAborted(received_.status)) << received_.status;
  EXPECT_TRUE(lost_.all().empty());
}

// The peer's machine has gone and come back, and this end has not noticed.
TEST_F(TcpHostileTest, ANewConnectionReplacesAHalfOpenOne) {
  options_.reconnect.deadline = kTestDeadline;
  Open();
  const auto old_one = Peer();
  GreetAndOpen(old_one.get());
  old_one->AnnounceValues(0, 0, 2);
  old_one->SendBytes("Sc");  // half a header
  const auto new_one = Peer();
  EXPECT_EQ(GreetAndOpen(new_one.get(), /*resume=*/true).granted, 1u);
  old_one->AwaitEnd();
  new_one->AnnounceValues(0, 0, 2);
  new_one->SendPayload(0, 0, Values({1, 2}));
  ASSERT_TRUE(Until([&] { return received_.calls == 1; }));
  EXPECT_THAT(ValuesOf(received_.transfer), ElementsAre(1, 2));
  EXPECT_TRUE(lost_.all().empty());
}

// Proper conversations with a few bytes changed, and plain noise.
TEST_F(TcpHostileTest, NoiseNeverHarmsTheEndpoint) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; ++round) {
    const auto peer = Peer();
    std::string bytes;
    AppendFrame(FrameType::kHello, 0, Encode(HelloOf(*peer)), &bytes);
    const size_t greeting = bytes.size();
    peer->SendBytes(bytes);
    if (peer->Receive().type != FrameType::kWelcome) continue;
    bytes.clear();
    tcp::OpenEdge open;
    open.name = "e";
    AppendFrame(FrameType::kOpenEdge, 0, Encode(open), &bytes);
    for (int i = 0; i < 5; ++i) {
      std::string body(random() % 200, '\0');
      for (char& byte : body) byte = static_cast<char>(random());
      AppendFrame(static_cast<FrameType>(random() % 14), random() % 3, body,
                  &bytes, random() % 4 == 0 ? random() % 64 : 0);
    }
    const size_t flips = random() % 4;
    for (size_t i = 0; i < flips; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    ASSERT_GT(greeting, 0u);
    peer->SendBytes(bytes);
  }
  ExpectServiceAsBefore();
}

}  // namespace
}  // namespace stagecoach::transport

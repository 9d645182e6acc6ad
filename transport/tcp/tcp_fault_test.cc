// Links that break, and peers that go.
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/certificates.h"
#include "base/tls_identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/testing/cutting_relay.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport {
namespace {

using tcp::Counters;
using tcp::CuttingRelay;
using testing::EdgeNamed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using ::testing::IsEmpty;
using testing::kTestDeadline;
using testing::LostEdges;
using testing::Outcome;
using testing::PoolNamed;
using testing::TensorOver;
using testing::ValuesOf;

std::shared_ptr<const TlsIdentity> NewIdentity() {
  stagecoach::testing::TestAuthority authority(::testing::TempDir(), "faults");
  return TlsIdentity::Load(authority.Issue("node")).value();
}

// `a` sends to `b` through a relay.
class TcpLinkTest : public ::testing::Test {
 protected:
  explicit TcpLinkTest(bool tls = false) : bell_(Doorbell::Create().value()) {
    options_.counters = std::make_shared<Counters>();
    if (tls) options_.tls = NewIdentity();
    b_ = NewEndpoint(&lost_b_);
  }

  std::unique_ptr<Endpoint> NewEndpoint(LostEdges* lost) {
    return NewTcpEndpoint(testing::OptionsFor(bell_.get(), lost), options_)
        .value();
  }
  void Relay(std::function<int64_t()> cut_after) {
    relay_ =
        std::make_unique<CuttingRelay>(b_->Describe(), std::move(cut_after));
    a_ = NewEndpoint(&lost_a_);
  }
  std::unique_ptr<SendEdge> OpenSend(const std::string& name) {
    auto edge = a_->OpenSend(
        EdgeNamed(name), relay_->Describe(),
        [this](const TransferHeader& header) {
          acknowledged_.push_back(header.microbatch.value());
        },
        kTestDeadline);
    EXPECT_TRUE(edge.ok()) << edge.status();
    return edge.ok() ? *std::move(edge) : nullptr;
  }
  bool Until(const std::function<bool()>& done) {
    std::vector<Endpoint*> all;
    if (a_ != nullptr) all.push_back(a_.get());
    if (b_ != nullptr) all.push_back(b_.get());
    return testing::Until(bell_.get(), all, done);
  }

  std::unique_ptr<Doorbell> bell_;
  LostEdges lost_a_;
  LostEdges lost_b_;
  TcpOptions options_;
  std::vector<int64_t> acknowledged_;
  std::unique_ptr<Endpoint> b_;
  std::unique_ptr<CuttingRelay> relay_;
  std::unique_ptr<Endpoint> a_;
};

// With plain streams and with TLS.
class TcpFaultTest : public TcpLinkTest,
                     public ::testing::WithParamInterface<bool> {
 protected:
  TcpFaultTest() : TcpLinkTest(GetParam()) {}
};
std::string NameOfStreams(const ::testing::TestParamInfo<bool>& streams) {
  return streams.param ? "tls" : "plain";
}
INSTANTIATE_TEST_SUITE_P(Tcp, TcpFaultTest, ::testing::Bool(), NameOfStreams);

// Transfers of many sizes over a link that is cut fifty times, at any byte:
// within greetings, headers, payloads, acknowledgements.
TEST_P(TcpFaultTest, ALinkCutFiftyTimesDeliversEverythingOnceAndInOrder) {
  constexpr int kCuts = 50;
  constexpr size_t kMostValues = 6000;
  const uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  Relay([this, cuts = std::mt19937_64(seed + 1)]() mutable -> int64_t {
    if (relay_ != nullptr && relay_->cuts() >= kCuts) return -1;
    // A tenth before the greeting is over.
    if (cuts() % 10 == 0) return static_cast<int64_t>(1 + cuts() % 200);
    return static_cast<int64_t>(1 + cuts() % 150'000);
  });
  options_.reconnect.deadline = kTestDeadline;
  a_ = NewEndpoint(&lost_a_);

  const auto receive =
      b_->OpenReceive(PoolNamed("e", 3, 8 * kMostValues)).value();
  std::unique_ptr<SendEdge> send;
  // The very first connection may be cut too; opening is not repeated.
  while (send == nullptr) {
    auto opened = a_->OpenSend(
        EdgeNamed("e"), relay_->Describe(),
        [this](const TransferHeader& header) {
          acknowledged_.push_back(header.microbatch.value());
        },
        kTestDeadline);
    if (opened.ok()) send = *std::move(opened);
  }

  std::vector<int64_t> order;
  bool intact = true;
  ReceiveEdge::Completion on_receive =
      [&](absl::StatusOr<ReceivedTransfer> transfer) {
        if (!transfer.ok()) return;
        const std::vector<int64_t> values = ValuesOf(*transfer);
        for (size_t i = 0; i < values.size(); ++i) {
          intact = intact && values[i] == values[0] + static_cast<int64_t>(i);
        }
        order.push_back(transfer->header.microbatch.value());
        receive->Acknowledge(transfer->header);
        receive->PostReceive(on_receive);
      };
  for (int i = 0; i < 3; ++i) receive->PostReceive(on_receive);

  std::vector<std::unique_ptr<std::vector<int64_t>>> sources;
  std::vector<std::unique_ptr<Outcome>> sent;
  const auto post = [&] {
    const size_t count = 1 + random() % kMostValues;
    auto values = std::make_unique<std::vector<int64_t>>(count);
    for (size_t i = 0; i < count; ++i) {
      (*values)[i] = static_cast<int64_t>(1000 * sources.size() + i);
    }
    sent.push_back(std::make_unique<Outcome>());
    send->PostSend(HeaderOf(static_cast<int>(sources.size())),
                   {TensorOver(*values)}, Into(sent.back().get()));
    sources.push_back(std::move(values));
  };
  while (relay_->cuts() < kCuts) {
    for (int i = 0; i < 8; ++i) post();
    ASSERT_TRUE(Until([&] { return order.size() == sources.size(); }))
        << "seed " << seed << ", " << order.size() << " of " << sources.size();
  }
  ASSERT_TRUE(Until([&] {
    return acknowledged_.size() == sources.size() && sent.back()->calls == 1;
  })) << "seed "
      << seed;

  std::vector<int64_t> expected(sources.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<int64_t>(i);
  }
  EXPECT_TRUE(intact) << "seed " << seed;
  EXPECT_EQ(order, expected) << "seed " << seed;
  EXPECT_EQ(acknowledged_, expected) << "seed " << seed;
  for (const auto& outcome : sent) {
    EXPECT_EQ(outcome->calls, 1);
    EXPECT_TRUE(outcome->status.ok()) << outcome->status;
  }
  EXPECT_THAT(lost_a_.all(), IsEmpty());
  EXPECT_THAT(lost_b_.all(), IsEmpty());
  EXPECT_EQ(options_.counters->transfers_received,
            static_cast<int64_t>(sources.size()));
  EXPECT_GT(options_.counters->transfers_resent, 0);
  std::printf(
      "seed %llu: %d cuts, %zu transfers, %lld resent, %lld duplicates of "
      "transfers, %lld of acknowledgements\n",
      static_cast<unsigned long long>(seed), relay_->cuts(), sources.size(),
      static_cast<long long>(options_.counters->transfers_resent),
      static_cast<long long>(options_.counters->duplicate_transfers),
      static_cast<long long>(options_.counters->duplicate_acknowledgements));
}

TEST_P(TcpFaultTest, ALinkThatStaysDownLosesTheEdgeOnBothSidesInTime) {
  options_.reconnect.deadline = absl::Milliseconds(100);
  b_ = NewEndpoint(&lost_b_);
  Relay([] { return -1; });
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {1};
  const auto receive = b_->OpenReceive(PoolNamed("e", 1, 64)).value();
  const auto send = OpenSend("e");
  ASSERT_NE(send, nullptr);
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  relay_->Close();
  receive->PostReceive(IntoReceive(&received));
  ASSERT_TRUE(Until([&] { return sent.calls == 1 && received.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(sent.status)) << sent.status;
  EXPECT_TRUE(absl::IsUnavailable(received.status)) << received.status;
  ASSERT_EQ(lost_a_.all().size(), 1u);
  ASSERT_EQ(lost_b_.all().size(), 1u);
  EXPECT_EQ(lost_a_.all()[0].edge, "e");
  EXPECT_THAT(std::string(lost_b_.all()[0].status.message()),
              HasSubstr("did not come back"));
}

// Nobody listens where the peer was: no need to wait for the deadline.
TEST_P(TcpFaultTest, APeerThatIsGoneIsLostAtOnce) {
  options_.reconnect.deadline = absl::Hours(1);
  Relay([] { return -1; });
  auto receive = b_->OpenReceive(PoolNamed("e", 1, 64)).value();
  const auto send = OpenSend("e");
  ASSERT_NE(send, nullptr);
  relay_->Close();
  ASSERT_TRUE(Until([&] { return !lost_a_.all().empty(); }));
  EXPECT_THAT(std::string(lost_a_.all()[0].status.message()),
              HasSubstr("process is gone"));
}

TEST_P(TcpFaultTest, AnEdgeClosedWhileTheLinkIsDownIsAnEndAndNoLoss) {
  Relay([] { return -1; });
  Outcome received;
  const auto first = b_->OpenReceive(PoolNamed("first", 1, 64)).value();
  auto second = b_->OpenReceive(PoolNamed("second", 1, 64)).value();
  auto send_first = OpenSend("first");
  const auto send_second = OpenSend("second");
  ASSERT_NE(send_second, nullptr);
  first->PostReceive(IntoReceive(&received));
  relay_->Hold();
  send_first.reset();
  relay_->Release();
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsAborted(received.status)) << received.status;
  // The other way round.
  relay_->Hold();
  second.reset();
  relay_->Release();
  Outcome sent;
  send_second->PostSend(HeaderOf(0), {}, Into(&sent));
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_TRUE(absl::IsAborted(sent.status)) << sent.status;
  EXPECT_THAT(lost_a_.all(), IsEmpty());
  EXPECT_THAT(lost_b_.all(), IsEmpty());
}

// The sender's buffer is not looked at any more once the send has failed, also
// if half of it had gone out.
TEST_P(TcpFaultTest, AnAbortedSendLetsGoOfItsBytes) {
  constexpr size_t kValues = 4 << 20;
  Relay([] { return -1; });
  auto values = std::make_unique<std::vector<int64_t>>(kValues, 7);
  Outcome sent;
  Outcome received;
  auto receive = b_->OpenReceive(PoolNamed("e", 1, 8 * kValues)).value();
  auto other = b_->OpenReceive(PoolNamed("other", 1, 64)).value();
  auto send = OpenSend("e");
  auto send_other = OpenSend("other");
  ASSERT_NE(send_other, nullptr);
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(0), {TensorOver(*values)}, Into(&sent));
  send.reset();
  EXPECT_EQ(sent.calls, 1);
  values.reset();
  // The connection is whole: its other edge goes on.
  Outcome other_sent;
  Outcome other_received;
  const std::vector<int64_t> small = {5};
  other->PostReceive(IntoReceive(&other_received));
  send_other->PostSend(HeaderOf(1), {TensorOver(small)}, Into(&other_sent));
  // All of them: what has not completed would, when the edges go, say so to
  // outcomes that have gone before.
  ASSERT_TRUE(Until([&] {
    return other_received.calls == 1 && received.calls == 1 &&
           other_sent.calls == 1;
  }));
  EXPECT_THAT(ValuesOf(other_received.transfer), ElementsAre(5));
  EXPECT_EQ(options_.counters->reconnections, 0);
}

TEST_F(TcpLinkTest, ListensBeyondLoopbackOnlyWhenAllowed) {
  options_.listen_host = "0.0.0.0";
  const auto refused =
      NewTcpEndpoint(testing::OptionsFor(bell_.get(), &lost_a_), options_);
  EXPECT_TRUE(absl::IsPermissionDenied(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("--allow-plaintext"));
  options_.tls = NewIdentity();
  EXPECT_TRUE(
      NewTcpEndpoint(testing::OptionsFor(bell_.get(), &lost_a_), options_)
          .ok());
  options_.listen_host = "no-such-host.invalid";
  EXPECT_TRUE(absl::IsInvalidArgument(
      NewTcpEndpoint(testing::OptionsFor(bell_.get(), &lost_a_), options_)
          .status()));
}

TEST_F(TcpLinkTest, ACertificateOfAnotherAuthorityGetsNoEdge) {
  options_.tls = NewIdentity();
  b_ = NewEndpoint(&lost_b_);
  stagecoach::testing::TestAuthority stranger(::testing::TempDir(), "stranger");
  options_.tls = TlsIdentity::Load(stranger.Issue("node")).value();
  options_.counters = std::make_shared<Counters>();
  a_ = NewEndpoint(&lost_a_);
  const auto receive = b_->OpenReceive(PoolNamed("e", 1, 64)).value();
  const auto send = a_->OpenSend(
      EdgeNamed("e"), b_->Describe(), [](const TransferHeader&) {},
      kTestDeadline);
  EXPECT_TRUE(absl::IsUnavailable(send.status())) << send.status();
  EXPECT_THAT(std::string(send.status().message()),
              HasSubstr("certificate verify failed"));
  EXPECT_THAT(lost_b_.all(), IsEmpty());
}

TEST_F(TcpLinkTest, APeerOnAnotherHostWithLoopbackAddressesIsOutOfReach) {
  a_ = NewEndpoint(&lost_a_);
  std::string elsewhere = b_->Describe();
  const size_t host = elsewhere.find("host=") + 5;
  elsewhere.replace(host, 4, "beef");
  const absl::Status viable = a_->IsViable(elsewhere);
  EXPECT_TRUE(absl::IsFailedPrecondition(viable)) << viable;
  EXPECT_THAT(std::string(viable.message()), HasSubstr("--allow-plaintext"));
}

}  // namespace
}  // namespace stagecoach::transport

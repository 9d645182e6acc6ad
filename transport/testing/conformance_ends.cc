// How edges and endpoints end.
#include <array>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

using testing::EdgeNamed;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using ::testing::IsEmpty;
using testing::kTestDeadline;
using testing::Outcome;
using testing::PoolNamed;
using testing::TensorOver;
using testing::ValuesOf;

}  // namespace

TEST_P(TransportConformance, AbortCompletesEveryOperationOnce) {
  std::array<Outcome, 4> sent;
  std::array<Outcome, 4> received;
  Outcome late_send;
  Outcome late_receive;
  const std::vector<int64_t> values = {1};
  const auto receive = OpenReceive(PoolNamed("e", 2, 64));
  const auto send = OpenSend();
  // Without a grant, or granted and not yet copied.
  for (Outcome& outcome : sent) {
    send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&outcome));
  }
  for (Outcome& outcome : received) receive->PostReceive(IntoReceive(&outcome));
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  b_->Abort(absl::AbortedError("epoch 7 is over"));
  send->PostSend(HeaderOf(1), {TensorOver(values)}, Into(&late_send));
  receive->PostReceive(IntoReceive(&late_receive));
  ASSERT_TRUE(Until([&] { return late_send.calls + late_receive.calls == 2; }));
  a_->Abort(absl::InternalError("again"));
  // A transport that works on its own may have some under way, which end when
  // that is over.
  ASSERT_TRUE(Until([&] {
    int calls = 0;
    for (const Outcome& outcome : sent) calls += outcome.calls;
    for (const Outcome& outcome : received) calls += outcome.calls;
    return calls >= 8;
  }));
  Settle();
  const auto is_over = [](const Outcome& outcome) {
    return outcome.status == absl::AbortedError("epoch 7 is over");
  };
  // The other end may have heard of it before it was told.
  const auto heard = [](const Outcome& outcome) {
    return outcome.status ==
           absl::AbortedError("edge \"e\": closed by its peer");
  };
  EXPECT_TRUE(is_over(late_send)) << late_send.status;
  EXPECT_TRUE(is_over(late_receive) || heard(late_receive))
      << late_receive.status;
  for (size_t i = 0; i < sent.size(); ++i) {
    for (const Outcome* outcome : {&sent[i], &received[i]}) {
      EXPECT_EQ(outcome->calls, 1) << i;
      // Threads of the transport may have finished those with a slot before.
      const bool may_be_done = i < 2 && outcome->status.ok();
      const bool peer_first = outcome == &received[i] && heard(*outcome);
      EXPECT_TRUE(may_be_done || peer_first || is_over(*outcome))
          << i << outcome->status;
    }
  }
  EXPECT_EQ(late_send.calls, 1);
  EXPECT_EQ(late_receive.calls, 1);
  EXPECT_THAT(lost_a_.all(), IsEmpty());
  EXPECT_THAT(lost_b_.all(), IsEmpty());
}

TEST_P(TransportConformance, APayloadThatLiesUnseenAtAbortIsNotDelivered) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {1};
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(
      testing::Until(bell_.get(), {a_.get()}, [&] { return sent.calls == 1; }));
  b_->Abort(absl::AbortedError("epoch 7 is over"));
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsAborted(received.status)) << received.status;
}

TEST_P(TransportConformance, AnAbortedEndpointOpensNothing) {
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  EXPECT_TRUE(absl::IsAborted(a_->OpenReceive(PoolNamed("e", 1, 64)).status()));
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  EXPECT_TRUE(absl::IsAborted(
      a_->OpenSend(EdgeNamed("e"), b_->Describe(), nullptr, kTestDeadline)
          .status()));
}

TEST_P(TransportConformance, ClosingAnEdgeCompletesItsOperationsOnce) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {1};
  auto receive = OpenReceive(PoolNamed("e", 1, 64));
  auto send = OpenSend();
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  send.reset();
  EXPECT_EQ(sent.calls, 1);
  EXPECT_TRUE(absl::IsCancelled(sent.status)) << sent.status;
  receive->PostReceive(IntoReceive(&received));
  receive.reset();
  EXPECT_EQ(received.calls, 1);
  EXPECT_FALSE(received.status.ok());
  Settle();
  EXPECT_EQ(sent.calls + received.calls, 2);
}

TEST_P(TransportConformance, ASenderThatClosesIsAnEndAndNoLoss) {
  Outcome received;
  Outcome later;
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  Settle();
  send.reset();
  a_ = NewEndpoint(bell_.get(), &lost_a_);
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsAborted(received.status)) << received.status;
  EXPECT_THAT(lost_b_.all(), IsEmpty());
  // Later ones fail too.
  receive->PostReceive(IntoReceive(&later));
  ASSERT_TRUE(Until([&] { return later.calls == 1; }));
  EXPECT_FALSE(later.status.ok());
}

TEST_P(TransportConformance, AReceiverThatClosesIsAnEndAndNoLoss) {
  Outcome sent;
  const std::vector<int64_t> values = {1};
  auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  Settle();
  receive.reset();
  b_ = NewEndpoint(bell_.get(), &lost_b_);
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_TRUE(absl::IsAborted(sent.status)) << sent.status;
  EXPECT_THAT(lost_a_.all(), IsEmpty());
}

TEST_P(TransportConformance, WhatWasSentBeforeAnEndIsDelivered) {
  Outcome sent;
  std::array<Outcome, 2> received;
  const std::vector<int64_t> values = {1, 2, 3};
  const auto receive = OpenReceive(PoolNamed("e", 2, 64));
  auto send = OpenSend();
  for (Outcome& outcome : received) receive->PostReceive(IntoReceive(&outcome));
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(
      testing::Until(bell_.get(), {a_.get()}, [&] { return sent.calls == 1; }));
  send.reset();
  a_ = NewEndpoint(bell_.get(), &lost_a_);
  ASSERT_TRUE(Until([&] { return received[1].calls == 1; }));
  ASSERT_TRUE(received[0].status.ok()) << received[0].status;
  EXPECT_EQ(ValuesOf(received[0].transfer), values);
  EXPECT_FALSE(received[1].status.ok());
}

TEST_P(TransportConformance, AnEdgeMayBeClosedFromItsOwnCallback) {
  std::array<Outcome, 2> received;
  const auto receive = OpenReceive(PoolNamed("e", 2, 64));
  auto send = OpenSend();
  for (Outcome& outcome : received) receive->PostReceive(IntoReceive(&outcome));
  int calls = 0;
  send->PostSend(HeaderOf(0), {}, [&](absl::Status) {
    ++calls;
    send.reset();
  });
  ASSERT_TRUE(Until([&] { return received[1].calls == 1; }));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(received[0].status.ok()) << received[0].status;
}

}  // namespace stagecoach::transport

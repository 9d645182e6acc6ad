// Outputs that are produced in the receiver's memory. A path whose sender has
// no such memory gives no slot, and then nothing is to be tested.
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

using ::testing::ElementsAre;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using testing::Outcome;
using testing::PoolNamed;
using testing::TensorOver;
using testing::ValuesOf;

TensorDescriptor OneInteger() {
  TensorDescriptor tensor;
  tensor.dtype = DType::kInt64;
  tensor.shape = {1};
  return tensor;
}

void Write(const WritableSlot& slot, int64_t value) {
  std::memcpy(slot.data, &value, sizeof(value));
}

}  // namespace

TEST_P(TransportConformance, WhatIsProducedInASlotArrivesThere) {
  Outcome sent;
  Outcome received;
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  EXPECT_FALSE(send->TakeSlot().has_value());  // nothing is granted
  receive->PostReceive(IntoReceive(&received));
  Settle();
  const std::optional<WritableSlot> slot = send->TakeSlot();
  if (!slot) GTEST_SKIP() << "the path has no slots";
  EXPECT_EQ(slot->bytes, 64u);
  EXPECT_FALSE(send->TakeSlot().has_value());
  Write(*slot, 42);
  send->PostSendFromSlot(HeaderOf(5), OneInteger(), *slot, Into(&sent));
  ASSERT_TRUE(Until([&] { return received.calls + sent.calls == 2; }));
  EXPECT_TRUE(sent.status.ok()) << sent.status;
  ASSERT_TRUE(received.status.ok()) << received.status;
  EXPECT_EQ(received.transfer.header, HeaderOf(5));
  EXPECT_EQ(received.transfer.tensors[0].descriptor, OneInteger());
  EXPECT_THAT(ValuesOf(received.transfer), ElementsAre(42));
}

TEST_P(TransportConformance, TransfersInSlotsAndOthersKeepTheirOrder) {
  std::array<Outcome, 3> sent;
  std::array<Outcome, 3> received;
  const std::vector<int64_t> first = {0};
  const std::vector<int64_t> last = {2};
  const auto receive = OpenReceive(PoolNamed("e", 3, 64));
  const auto send = OpenSend();
  for (Outcome& outcome : received) receive->PostReceive(IntoReceive(&outcome));
  Settle();
  const std::optional<WritableSlot> slot = send->TakeSlot();
  if (!slot) GTEST_SKIP() << "the path has no slots";
  Write(*slot, 1);
  send->PostSend(HeaderOf(0), {TensorOver(first)}, Into(&sent[0]));
  send->PostSendFromSlot(HeaderOf(1), OneInteger(), *slot, Into(&sent[1]));
  send->PostSend(HeaderOf(2), {TensorOver(last)}, Into(&sent[2]));
  ASSERT_TRUE(Until([&] { return received[2].calls == 1; }));
  for (int64_t i = 0; i < 3; ++i) {
    const Outcome& outcome = received[static_cast<size_t>(i)];
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(ValuesOf(outcome.transfer), ElementsAre(i));
  }
}

TEST_P(TransportConformance, AReturnedSlotServesATransferThatWaits) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {7};
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  Settle();
  const std::optional<WritableSlot> slot = send->TakeSlot();
  if (!slot) GTEST_SKIP() << "the path has no slots";
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  Settle();
  EXPECT_EQ(received.calls, 0);
  send->ReturnSlot(*slot);
  send->ReturnSlot(*slot);  // once is enough
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_THAT(ValuesOf(received.transfer), ElementsAre(7));
}

TEST_P(TransportConformance, ASlotIsNotTakenFromATransferThatWaits) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {7};
  const auto receive = OpenReceive(PoolNamed("e", 2, 64));
  const auto send = OpenSend();
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  Settle();
  receive->PostReceive(IntoReceive(&received));
  EXPECT_FALSE(send->TakeSlot().has_value());
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
}

TEST_P(TransportConformance, ASlotIsSentOnceAndOnlyIfItWasTaken) {
  std::array<Outcome, 2> sent;
  std::array<Outcome, 2> received;
  const auto receive = OpenReceive(PoolNamed("e", 2, 64));
  const auto send = OpenSend();
  for (Outcome& outcome : received) receive->PostReceive(IntoReceive(&outcome));
  Settle();
  const std::optional<WritableSlot> slot = send->TakeSlot();
  if (!slot) GTEST_SKIP() << "the path has no slots";
  Write(*slot, 1);
  send->PostSendFromSlot(HeaderOf(0), OneInteger(), *slot, Into(&sent[0]));
  send->PostSendFromSlot(HeaderOf(1), OneInteger(), *slot, Into(&sent[1]));
  ASSERT_TRUE(Until([&] { return sent[0].calls + sent[1].calls == 2; }));
  EXPECT_TRUE(sent[0].status.ok()) << sent[0].status;
  EXPECT_TRUE(absl::IsInvalidArgument(sent[1].status)) << sent[1].status;
}

// Its memory stays mapped for who is writing into it.
TEST_P(TransportConformance, ATakenSlotOutlivesItsEdge) {
  Outcome received;
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  Settle();
  const std::optional<WritableSlot> slot = send->TakeSlot();
  if (!slot) GTEST_SKIP() << "the path has no slots";
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  send.reset();
  Write(*slot, 1);
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_FALSE(received.status.ok());
}

}  // namespace stagecoach::transport

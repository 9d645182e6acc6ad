#include "transport/testing/conformance.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"

namespace stagecoach::transport {
namespace {

using ::testing::Each;
using testing::EdgeNamed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using ::testing::IsEmpty;
using testing::kTestDeadline;
using testing::Outcome;
using testing::PoolNamed;
using testing::TensorOver;
using testing::ValuesOf;

template <typename T>
OutgoingTensor TensorOf(DType dtype, std::vector<int64_t> shape,
                        const std::vector<T>& values) {
  OutgoingTensor tensor;
  tensor.descriptor.dtype = dtype;
  tensor.descriptor.shape = std::move(shape);
  tensor.data = values.data();
  return tensor;
}

bool SameBytes(const OutgoingTensor& sent, const IncomingTensor& received) {
  const size_t bytes = sent.descriptor.bytes();
  return bytes == 0 || std::memcmp(sent.data, received.data, bytes) == 0;
}

bool IsAligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % kTensorAlignment == 0;
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportConformance);

TransportConformance::TransportConformance()
    : bell_(Doorbell::Create().value()),
      factory_(GetParam().make()),
      a_(NewEndpoint(bell_.get(), &lost_a_)),
      b_(NewEndpoint(bell_.get(), &lost_b_)) {}

std::unique_ptr<Endpoint> TransportConformance::NewEndpoint(
    Doorbell* bell, testing::LostEdges* lost) {
  return factory_(testing::OptionsFor(bell, lost)).value();
}

std::unique_ptr<ReceiveEdge> TransportConformance::OpenReceive(
    const EdgeOptions& options) {
  return b_->OpenReceive(options).value();
}

std::unique_ptr<SendEdge> TransportConformance::OpenSend(
    const std::string& name) {
  return a_
      ->OpenSend(
          EdgeNamed(name), b_->Describe(),
          [this](const TransferHeader& header) {
            acknowledged_.push_back(header);
          },
          kTestDeadline)
      .value();
}

bool TransportConformance::Until(const std::function<bool()>& done) {
  return testing::Until(bell_.get(), {a_.get(), b_.get()}, done);
}

void TransportConformance::Settle() {
  for (int quiet = 0; quiet < 10;) {
    const bool a = a_->Progress();
    const bool b = b_->Progress();
    quiet = a || b ? 0 : quiet + 1;
  }
}

// --- transfers ---------------------------------------------------------------

TEST_P(TransportConformance, RoundTripsSeveralTensors) {
  Outcome sent_outcome;
  Outcome received;
  const std::vector<float> floats = {1.5f, -2, 3, 4, 5, 6};
  const std::vector<int64_t> integers = {1, -1, INT64_MAX, INT64_MIN, 0};
  const std::vector<uint8_t> bytes(13, 0xA5);
  const std::vector<double> scalar = {0.1};
  const std::vector<OutgoingTensor> sent = {
      TensorOf(DType::kFloat32, {2, 3}, floats),
      TensorOf(DType::kInt64, {5}, integers),
      TensorOf(DType::kBFloat16, {0, 7}, std::vector<float>()),
      TensorOf(DType::kUInt8, {13, 1, 1}, bytes),
      TensorOf(DType::kFloat64, {}, scalar)};
  const auto receive = OpenReceive(PoolNamed("e", 2, 4096));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(5), sent, Into(&sent_outcome));
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  ASSERT_TRUE(Until([&] { return sent_outcome.calls == 1; }));
  EXPECT_TRUE(sent_outcome.status.ok()) << sent_outcome.status;
  ASSERT_TRUE(received.status.ok()) << received.status;
  EXPECT_EQ(received.transfer.header, HeaderOf(5));
  ASSERT_EQ(received.transfer.tensors.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    const IncomingTensor& tensor = received.transfer.tensors[i];
    EXPECT_EQ(tensor.descriptor, sent[i].descriptor) << i;
    EXPECT_TRUE(SameBytes(sent[i], tensor)) << i;
    EXPECT_TRUE(IsAligned(tensor.data)) << i;
  }
}

TEST_P(TransportConformance, CarriesEveryFieldOfTheHeader) {
  Outcome sent;
  Outcome received;
  TransferHeader header = HeaderOf(3);
  header.epoch = Epoch(int64_t{1} << 40);
  header.step = StepIndex(int64_t{1} << 41);
  header.replica = 5;
  header.direction = Direction::kGradient;
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(header, {}, Into(&sent));
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_EQ(received.transfer.header, header);
  EXPECT_THAT(received.transfer.tensors, IsEmpty());
}

TEST_P(TransportConformance, TheShapeMayChangeFromTransferToTransfer) {
  std::array<Outcome, 2> sent;
  std::array<Outcome, 2> received;
  const std::vector<int64_t> values = {1, 2, 3, 4, 5, 6};
  const auto receive = OpenReceive(PoolNamed("e", 2, 64));
  const auto send = OpenSend();
  for (Outcome& outcome : received) receive->PostReceive(IntoReceive(&outcome));
  send->PostSend(HeaderOf(0), {TensorOf(DType::kInt64, {2, 3}, values)},
                 Into(&sent[0]));
  send->PostSend(HeaderOf(1), {TensorOf(DType::kInt64, {1, 3}, values)},
                 Into(&sent[1]));
  ASSERT_TRUE(Until([&] { return received[1].calls == 1; }));
  EXPECT_THAT(received[0].transfer.tensors[0].descriptor.shape,
              ElementsAre(2, 3));
  EXPECT_THAT(received[1].transfer.tensors[0].descriptor.shape,
              ElementsAre(1, 3));
}

TEST_P(TransportConformance, KeepsTheOrderOfManyTransfersAtEveryDepth) {
  constexpr int kTransfers = 1000;
  for (int depth = 1; depth <= 4; ++depth) {
    const std::string name = "depth " + std::to_string(depth);
    const auto receive = OpenReceive(PoolNamed(name, depth, 64));
    const auto send = OpenSend(name);
    std::vector<std::vector<int64_t>> values;
    for (int i = 0; i < kTransfers; ++i) values.push_back({i, -i});
    std::vector<Outcome> sent(kTransfers);
    std::vector<int64_t> order;
    ReceiveEdge::Completion on_receive =
        [&](absl::StatusOr<ReceivedTransfer> transfer) {
          if (!transfer.ok()) return;
          EXPECT_EQ(transfer->header.microbatch.value(),
                    ValuesOf(*transfer)[0]);
          order.push_back(ValuesOf(*transfer)[0]);
          receive->PostReceive(on_receive);
        };
    for (int i = 0; i < depth; ++i) receive->PostReceive(on_receive);
    for (int i = 0; i < kTransfers; ++i) {
      send->PostSend(HeaderOf(i), {TensorOver(values[i])}, Into(&sent[i]));
    }
    ASSERT_TRUE(Until([&] {
      return order.size() == kTransfers && sent.back().calls == 1;
    })) << depth;
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << depth;
    for (const Outcome& outcome : sent) {
      EXPECT_EQ(outcome.calls, 1);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    }
  }
}

TEST_P(TransportConformance, MovesNothingBeforeTheReceiveIsPosted) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {1};
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  Settle();
  EXPECT_EQ(sent.calls, 0);
  receive->PostReceive(IntoReceive(&received));
  ASSERT_TRUE(Until([&] { return received.calls == 1 && sent.calls == 1; }));
}

TEST_P(TransportConformance, NeverCompletesInsideAPost) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {1};
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  Settle();
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  EXPECT_EQ(sent.calls, 0);
  EXPECT_EQ(received.calls, 0);
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
}

// The source may be written over as soon as the send has completed.
TEST_P(TransportConformance, LocalCompletionFreesTheSource) {
  Outcome sent;
  Outcome received;
  std::vector<int64_t> values = {1, 2};
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(
      testing::Until(bell_.get(), {a_.get()}, [&] { return sent.calls == 1; }));
  values = {-1, -1};
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_THAT(ValuesOf(received.transfer), ElementsAre(1, 2));
}

TEST_P(TransportConformance, HoldsTheSenderBackWhileNoSlotIsFree) {
  std::array<Outcome, 5> sent;
  std::array<Outcome, 5> received;
  const std::vector<int64_t> values = {1};
  const auto receive = OpenReceive(PoolNamed("e", 2, 64));
  const auto send = OpenSend();
  for (int i = 0; i < 5; ++i) {
    receive->PostReceive(IntoReceive(&received[i]));
    send->PostSend(HeaderOf(i), {TensorOver(values)}, Into(&sent[i]));
  }
  ASSERT_TRUE(Until([&] { return received[1].calls == 1; }));
  Settle();
  EXPECT_EQ(sent[2].calls, 0);
  EXPECT_EQ(received[2].calls, 0);
  for (int i = 2; i < 5; ++i) {
    received[i - 2].transfer = ReceivedTransfer();
    ASSERT_TRUE(Until([&] {
      return received[i].calls == 1 && sent[i].calls == 1;
    })) << i;
    EXPECT_EQ(received[i].transfer.header, HeaderOf(i));
    if (i < 4) {
      EXPECT_EQ(sent[i + 1].calls, 0);
    }
  }
}

TEST_P(TransportConformance, OppositeEdgesDoNotBlockEachOther) {
  Outcome blocked;
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {1};
  const auto there = OpenReceive(PoolNamed("there", 1, 64));
  const auto back = a_->OpenReceive(PoolNamed("back", 1, 64)).value();
  const auto send_there = OpenSend("there");
  const auto send_back =
      b_->OpenSend(EdgeNamed("back"), a_->Describe(), nullptr, kTestDeadline)
          .value();
  send_there->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&blocked));
  back->PostReceive(IntoReceive(&received));
  send_back->PostSend(HeaderOf(1), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_EQ(blocked.calls, 0);
}

// --- acknowledgements --------------------------------------------------------

TEST_P(TransportConformance, AnAcknowledgementReachesTheSenderWithItsHeader) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {1};
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(5), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  Settle();
  EXPECT_THAT(acknowledged_, IsEmpty());
  receive->Acknowledge(received.transfer.header);
  ASSERT_TRUE(Until([&] { return !acknowledged_.empty(); }));
  EXPECT_THAT(acknowledged_, ElementsAre(HeaderOf(5)));
}

TEST_P(TransportConformance, AcknowledgementsForWhatWasNeverSentArePassedOn) {
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  receive->Acknowledge(HeaderOf(8));
  receive->Acknowledge(HeaderOf(8));
  ASSERT_TRUE(Until([&] { return acknowledged_.size() == 2; }));
}

// More than any control channel buffers, while the sender looks elsewhere.
TEST_P(TransportConformance, NoAcknowledgementIsLostWhenTheSenderIsSlow) {
  constexpr int kAcknowledgements = 5000;
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  const auto send = OpenSend();
  for (int i = 0; i < kAcknowledgements; ++i) {
    receive->Acknowledge(HeaderOf(i));
  }
  ASSERT_TRUE(Until([&] { return acknowledged_.size() == kAcknowledgements; }));
  for (int i = 0; i < kAcknowledgements; ++i) {
    ASSERT_EQ(acknowledged_[i], HeaderOf(i));
  }
}

// --- memory ------------------------------------------------------------------

TEST_P(TransportConformance, MemoryIsValidUntilDroppedAndThenReused) {
  std::array<Outcome, 2> sent;
  std::array<Outcome, 2> received;
  const std::vector<int64_t> first = {11, 12, 13};
  const std::vector<int64_t> second = {21, 22, 23};
  EdgeOptions pool = PoolNamed("e", 1, 64);
  pool.poison_returned = true;
  const auto receive = OpenReceive(pool);
  const auto send = OpenSend();
  for (Outcome& outcome : received) receive->PostReceive(IntoReceive(&outcome));
  send->PostSend(HeaderOf(0), {TensorOver(first)}, Into(&sent[0]));
  ASSERT_TRUE(Until([&] { return received[0].calls == 1; }));
  Settle();
  EXPECT_EQ(ValuesOf(received[0].transfer), first);
  const auto* const bytes =
      static_cast<const uint8_t*>(received[0].transfer.tensors[0].data);
  received[0].transfer.memory.reset();
  EXPECT_THAT(std::vector<uint8_t>(bytes, bytes + 64), Each(0xFF));

  send->PostSend(HeaderOf(1), {TensorOver(second)}, Into(&sent[1]));
  ASSERT_TRUE(Until([&] { return received[1].calls == 1; }));
  EXPECT_EQ(ValuesOf(received[1].transfer), second);
  EXPECT_EQ(received[1].transfer.tensors[0].data, bytes);
}

TEST_P(TransportConformance, MemoryOutlivesAbortEdgeAndEndpoint) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {11, 12, 13};
  auto receive = OpenReceive(PoolNamed("e", 1, 64));
  auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  b_->Abort(absl::AbortedError("epoch 7 is over"));
  a_->Abort(absl::AbortedError("epoch 7 is over"));
  Settle();
  EXPECT_EQ(ValuesOf(received.transfer), values);
  send.reset();
  receive.reset();
  a_.reset();
  b_.reset();
  EXPECT_EQ(ValuesOf(received.transfer), values);
}

TEST_P(TransportConformance, PoolBytesAreAllSlots) {
  EXPECT_EQ(OpenReceive(PoolNamed("e", 3, 100))->pool_bytes(), 3 * 128);
  EXPECT_EQ(OpenReceive(PoolNamed("f", 1, 4096))->pool_bytes(), 4096);
}

TEST_P(TransportConformance, ASlotOfTheStatedSizeHoldsItsTransfer) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values = {1};
  const std::vector<OutgoingTensor> tensors(3, TensorOver(values));
  const size_t bytes = SlotBytesFor(
      {tensors[0].descriptor, tensors[1].descriptor, tensors[2].descriptor});
  EXPECT_EQ(bytes, 64 + 64 + 8);
  const auto receive = OpenReceive(PoolNamed("e", 1, bytes));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(0), tensors, Into(&sent));
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_THAT(ValuesOf(received.transfer), ElementsAre(1, 1, 1));
}

// --- refusals ----------------------------------------------------------------

TEST_P(TransportConformance, RefusesATransferLargerThanASlotNamingBothSizes) {
  Outcome sent;
  Outcome received;
  const std::vector<int64_t> values(20);
  const auto receive = OpenReceive(PoolNamed("e", 1, 100));
  const auto send = OpenSend();
  receive->PostReceive(IntoReceive(&received));
  send->PostSend(HeaderOf(5), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_EQ(sent.status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"\"e\"", "microbatch 5", "160 bytes", "100"}) {
    EXPECT_THAT(std::string(sent.status.message()), HasSubstr(part));
  }
  EXPECT_EQ(received.calls, 0);
}

TEST_P(TransportConformance, RefusesTensorsThatCannotBeDescribed) {
  const std::vector<int64_t> one = {1};
  const auto receive = OpenReceive(PoolNamed("e", 1, 1 << 16));
  const auto send = OpenSend();
  OutgoingTensor no_data = TensorOver(one);
  no_data.data = nullptr;
  const std::vector<std::vector<OutgoingTensor>> bad = {
      std::vector<OutgoingTensor>(17, TensorOver(one)),
      {TensorOf(DType::kInt64, std::vector<int64_t>(9, 1), one)},
      {TensorOf(DType::kInt64, {-1}, one)},
      {TensorOf(DType::kInt64, {INT64_MAX, INT64_MAX}, one)},
      {no_data}};
  for (const auto& tensors : bad) {
    Outcome sent;
    send->PostSend(HeaderOf(0), tensors, Into(&sent));
    ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
    EXPECT_EQ(sent.status.code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(TransportConformance, AnUnknownEdgeIsNotFound) {
  const auto receive = OpenReceive(PoolNamed("activation 0->1", 1, 64));
  const auto send = a_->OpenSend(EdgeNamed("activation 1->2"), b_->Describe(),
                                 nullptr, kTestDeadline);
  EXPECT_TRUE(absl::IsNotFound(send.status())) << send.status();
  EXPECT_THAT(std::string(send.status().message()),
              HasSubstr("activation 0->1"));
}

TEST_P(TransportConformance, APeerThatIsGoneIsUnavailable) {
  const std::string description = b_->Describe();
  b_.reset();
  const auto send =
      a_->OpenSend(EdgeNamed("e"), description, nullptr, kTestDeadline);
  EXPECT_TRUE(absl::IsUnavailable(send.status())) << send.status();
}

TEST_P(TransportConformance, RefusesASecondEndOfTheSameEdge) {
  const auto receive = OpenReceive(PoolNamed("e", 1, 64));
  EXPECT_TRUE(
      absl::IsAlreadyExists(b_->OpenReceive(PoolNamed("e", 1, 64)).status()));
  const auto send = OpenSend();
  EXPECT_TRUE(absl::IsFailedPrecondition(
      a_->OpenSend(EdgeNamed("e"), b_->Describe(), nullptr, kTestDeadline)
          .status()));
}

TEST_P(TransportConformance, AClosedEdgeCanBeOpenedAgain) {
  for (int i = 0; i < 3; ++i) {
    // They outlive the edges, whose end may bring the last completion.
    Outcome sent;
    Outcome received;
    const auto receive = OpenReceive(PoolNamed("e", 1, 64));
    const auto send = OpenSend();
    receive->PostReceive(IntoReceive(&received));
    send->PostSend(HeaderOf(i), {}, Into(&sent));
    ASSERT_TRUE(Until([&] { return received.calls == 1; }));
    EXPECT_EQ(received.transfer.header, HeaderOf(i));
  }
}

TEST_P(TransportConformance, RefusesAPoolWithoutRoom) {
  for (const EdgeOptions& pool :
       {PoolNamed("e", 0, 64), PoolNamed("e", -1, 64), PoolNamed("e", 1, 0),
        PoolNamed("e", 1 << 20, 64)}) {
    EXPECT_EQ(b_->OpenReceive(pool).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(TransportConformance, DescribesItselfAndKnowsItsLikes) {
  EXPECT_EQ(a_->kind(), b_->kind());
  EXPECT_NE(a_->Describe(), b_->Describe());
  for (const char c : a_->Describe()) {
    EXPECT_TRUE(absl::ascii_isprint(static_cast<unsigned char>(c)));
  }
  EXPECT_TRUE(a_->IsViable(b_->Describe()).ok())
      << a_->IsViable(b_->Describe());
  for (const char* nonsense : {"", "carrier pigeon", "shm/", "loopback/"}) {
    EXPECT_FALSE(a_->IsViable(nonsense).ok()) << nonsense;
    EXPECT_FALSE(
        a_->OpenSend(EdgeNamed("e"), nonsense, nullptr, kTestDeadline).ok());
  }
}

}  // namespace stagecoach::transport

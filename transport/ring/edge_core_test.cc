// Both ends of one edge without an endpoint: their lives, and what they do when
// the other end writes nonsense.
#include "transport/ring/edge_core.h"

#include <fcntl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/ring/receive_core.h"
#include "transport/ring/send_core.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport::ring {
namespace {

using ::testing::HasSubstr;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using ::testing::IsEmpty;
using testing::Lost;
using testing::LostEdges;
using testing::Outcome;
using ::testing::SizeIs;
using testing::TensorOver;

class CountingLink final : public PeerLink {
 public:
  explicit CountingLink(int* byes) : byes_(byes) {}
  void SayBye() override { ++*byes_; }

 private:
  int* const byes_;
};

class EdgeCoreTest : public ::testing::Test {
 protected:
  // The same, but `on_lost` is called instead of keeping lost_.
  EdgeContext ContextWith(std::function<void()> on_lost) {
    EdgeContext context = Context();
    context.on_edge_lost = [on_lost](const std::string&, absl::Status) {
      on_lost();
    };
    return context;
  }
  EdgeContext Context() {
    EdgeContext context;
    context.name = "e";
    context.doorbell = bell_.get();
    context.on_edge_lost = [this](const std::string& edge,
                                  absl::Status status) {
      lost_.Add(edge, status);
    };
    return context;
  }
  std::shared_ptr<ReceiveCore> NewReceiver() {
    auto core = std::make_shared<ReceiveCore>(Context(), memory_, false);
    EXPECT_TRUE(core->Attach(Doorbell::Create().value(),
                             std::make_unique<CountingLink>(&byes_))
                    .ok());
    return core;
  }
  std::shared_ptr<SendCore> NewSender() {
    return std::make_shared<SendCore>(
        Context(), memory_, Doorbell::Create().value(),
        std::make_unique<CountingLink>(&byes_),
        [this](const TransferHeader&) { ++acknowledged_; });
  }
  // What an honest sender would announce for slot 0.
  static PayloadNotice Notice() {
    static const std::vector<int64_t> values = {1, 2, 3};
    PayloadNotice notice =
        EncodeTransfer(HeaderOf(0), {TensorOver(values)}).value().notice;
    notice.sequence = 0;
    notice.slot = 0;
    return notice;
  }

  const std::unique_ptr<Doorbell> bell_ = Doorbell::Create().value();
  LostEdges lost_;
  int byes_ = 0;
  int acknowledged_ = 0;
  const std::shared_ptr<EdgeMemory> memory_ = EdgeMemory::Create(2, 64).value();
};

// --- lives -------------------------------------------------------------------

TEST_F(EdgeCoreTest, APeerThatClosedFailsTheRestAtTheNextProgress) {
  Outcome received;
  const auto core = NewReceiver();
  core->PostReceive(IntoReceive(&received));
  core->PeerEnded(absl::AbortedError("closed"), /*lost=*/false);
  EXPECT_EQ(received.calls, 0);
  EXPECT_TRUE(core->Progress());
  EXPECT_EQ(received.calls, 1);
  EXPECT_TRUE(absl::IsAborted(received.status));
  EXPECT_THAT(lost_.all(), IsEmpty());
  core->Close();
  EXPECT_EQ(byes_, 1);
}

// The sender sent its last and left before the receiver looked.
TEST_F(EdgeCoreTest, AReceiveAfterThePeersEndFailsAloneAndTheLastIsDelivered) {
  Outcome before;
  Outcome after;
  const auto core = NewReceiver();
  core->PostReceive(IntoReceive(&before));
  memory_->notice_producer().TryPush(Notice());
  core->PeerEnded(absl::AbortedError("closed"), /*lost=*/false);
  core->PostReceive(IntoReceive(&after));
  core->Progress();
  EXPECT_EQ(before.calls, 1);
  EXPECT_TRUE(before.status.ok()) << before.status;
  EXPECT_EQ(after.calls, 1);
  EXPECT_TRUE(absl::IsAborted(after.status)) << after.status;
  core->Close();
  EXPECT_EQ(before.calls, 1);
}

TEST_F(EdgeCoreTest, ALostPeerIsReportedOnceAndAtOnce) {
  Outcome received;
  const auto core = NewReceiver();
  core->PostReceive(IntoReceive(&received));
  const uint32_t seen = bell_->Count();
  core->PeerEnded(absl::UnavailableError("gone"), /*lost=*/true);
  ASSERT_THAT(lost_.all(), SizeIs(1));
  EXPECT_EQ(lost_.all()[0].edge, "e");
  EXPECT_NE(bell_->Count(), seen);
  core->PeerEnded(absl::UnavailableError("gone"), /*lost=*/true);
  core->Progress();
  EXPECT_THAT(lost_.all(), SizeIs(1));
  EXPECT_TRUE(absl::IsUnavailable(received.status));
  core->Close();
}

// Whoever sees an operation fail can already name the cause.
TEST_F(EdgeCoreTest, ALossIsReportedBeforeAnythingFails) {
  Outcome received;
  int failed_at_report = -1;
  std::shared_ptr<ReceiveCore> core;
  core = std::make_shared<ReceiveCore>(ContextWith([&] {
                                         core->Progress();
                                         failed_at_report = received.calls;
                                       }),
                                       memory_, false);
  core->PostReceive(IntoReceive(&received));
  core->PeerEnded(absl::UnavailableError("gone"), /*lost=*/true);
  EXPECT_EQ(failed_at_report, 0);
  core->Progress();
  EXPECT_EQ(received.calls, 1);
  core->Close();
}

TEST_F(EdgeCoreTest, ACorruptPeerIsReportedBeforeAnythingFails) {
  Outcome received;
  int failed_at_report = -1;
  const auto core = std::make_shared<ReceiveCore>(
      ContextWith([&] { failed_at_report = received.calls; }), memory_, false);
  core->PostReceive(IntoReceive(&received));
  PayloadNotice notice = Notice();
  notice.sequence = 9;
  memory_->notice_producer().TryPush(notice);
  core->Progress();
  EXPECT_EQ(failed_at_report, 0);
  EXPECT_EQ(received.calls, 1);
  core->Close();
}

// The sender was killed, and what it left in the ring is nonsense, too.
TEST_F(EdgeCoreTest, ALossIsReportedOnceWhateverIsFoundAfterwards) {
  const auto core = NewReceiver();
  core->PeerEnded(absl::UnavailableError("gone"), /*lost=*/true);
  memory_->notice_producer().TryPush(Notice());  // for a slot never granted
  core->Progress();
  EXPECT_THAT(lost_.all(), SizeIs(1));
  core->Close();
}

TEST_F(EdgeCoreTest, ASenderThatMadeRoomRingsTheReceiverThatWaitsForIt) {
  constexpr int kAcknowledgements = 1000;
  const auto receiver_bell = Doorbell::Create().value();
  const auto receiver = NewReceiver();
  const auto sender = std::make_shared<SendCore>(
      Context(), memory_,
      Doorbell::FromFd(fcntl(receiver_bell->fd(), F_DUPFD_CLOEXEC, 0)).value(),
      nullptr, [this](const TransferHeader&) { ++acknowledged_; });
  for (int i = 0; i < kAcknowledgements; ++i) {
    receiver->Acknowledge(HeaderOf(i));
  }
  while (acknowledged_ < kAcknowledgements) {
    const uint32_t seen = receiver_bell->Count();
    ASSERT_TRUE(sender->Progress());
    if (acknowledged_ == kAcknowledgements) break;
    ASSERT_NE(receiver_bell->Count(), seen) << acknowledged_;
    receiver->Progress();
  }
  sender->Close();
  receiver->Close();
}

TEST_F(EdgeCoreTest, AfterAbortALossIsNoNews) {
  const auto core = NewReceiver();
  core->Abort(absl::AbortedError("epoch 7 is over"));
  core->PeerEnded(absl::UnavailableError("gone"), /*lost=*/true);
  EXPECT_THAT(lost_.all(), IsEmpty());
  core->Close();
}

TEST_F(EdgeCoreTest, AfterCloseNothingIsReported) {
  const auto core = NewSender();
  core->Close();
  core->Close();
  EXPECT_EQ(byes_, 1);
  core->PeerEnded(absl::UnavailableError("gone"), /*lost=*/true);
  core->Abort(absl::AbortedError("late"));
  EXPECT_FALSE(core->Progress());
  EXPECT_THAT(lost_.all(), IsEmpty());
}

TEST_F(EdgeCoreTest, TheFirstReasonForAnEndStays) {
  Outcome sent;
  const auto core = NewSender();
  core->PeerEnded(absl::UnavailableError("gone"), /*lost=*/true);
  core->Abort(absl::AbortedError("epoch 7 is over"));
  core->PostSend(HeaderOf(0), {}, Into(&sent));
  core->Progress();
  EXPECT_TRUE(absl::IsUnavailable(sent.status)) << sent.status;
  core->Close();
}

TEST_F(EdgeCoreTest, AnEndedReceiverLetsNoSenderIn) {
  const auto core = std::make_shared<ReceiveCore>(Context(), memory_, false);
  core->Abort(absl::AbortedError("epoch 7 is over"));
  EXPECT_TRUE(absl::IsFailedPrecondition(core->Attach(
      Doorbell::Create().value(), std::make_unique<CountingLink>(&byes_))));
  core->Close();
}

// --- a corrupt sender --------------------------------------------------------

struct CorruptNotice {
  const char* message;
  std::function<void(PayloadNotice*)> apply;
};

TEST_F(EdgeCoreTest, ACorruptedNoticeEndsTheEdgeWithAnError) {
  const std::vector<CorruptNotice> table = {
      {"slot 2 of 2", [](PayloadNotice* n) { n->slot = 2; }},
      {"slot 4294967295", [](PayloadNotice* n) { n->slot = 0xFFFFFFFF; }},
      {"not granted", [](PayloadNotice* n) { n->slot = 1; }},
      {"transfer 1 instead of 0", [](PayloadNotice* n) { n->sequence = 1; }},
      {"tensors", [](PayloadNotice* n) { n->tensor_count = 99; }},
      {"slot of 64", [](PayloadNotice* n) { n->tensors[0].shape[0] = 9; }},
      {"negative", [](PayloadNotice* n) { n->tensors[0].shape[0] = -1; }},
      {"type", [](PayloadNotice* n) { n->tensors[0].dtype = 200; }},
      {"dimensions", [](PayloadNotice* n) { n->tensors[0].rank = 200; }},
      {"direction", [](PayloadNotice* n) { n->header.direction = 7; }},
  };
  for (const CorruptNotice& corrupt : table) {
    SCOPED_TRACE(corrupt.message);
    const auto memory = EdgeMemory::Create(2, 64).value();
    LostEdges lost;
    EdgeContext context = Context();
    context.on_edge_lost = [&lost](const std::string& edge,
                                   absl::Status status) {
      lost.Add(edge, status);
    };
    const auto core = std::make_shared<ReceiveCore>(context, memory, false);
    Outcome received;
    core->PostReceive(IntoReceive(&received));  // grants slot 0
    PayloadNotice notice = Notice();
    corrupt.apply(&notice);
    memory->notice_producer().TryPush(notice);
    core->Progress();
    EXPECT_EQ(received.calls, 1);
    EXPECT_TRUE(absl::IsDataLoss(received.status)) << received.status;
    EXPECT_THAT(std::string(received.status.message()),
                HasSubstr(corrupt.message));
    ASSERT_THAT(lost.all(), SizeIs(1));
    EXPECT_TRUE(absl::IsDataLoss(lost.all()[0].status));
    core->Progress();
    core->Close();
    EXPECT_THAT(lost.all(), SizeIs(1));
  }
}

TEST_F(EdgeCoreTest, AnHonestNoticePasses) {
  Outcome received;
  const auto core = NewReceiver();
  core->PostReceive(IntoReceive(&received));
  memory_->notice_producer().TryPush(Notice());
  core->Progress();
  EXPECT_TRUE(received.status.ok()) << received.status;
  core->Close();
}

TEST_F(EdgeCoreTest, ASlotCannotBeAnnouncedTwice) {
  Outcome first;
  Outcome second;
  const auto core = NewReceiver();
  core->PostReceive(IntoReceive(&first));
  core->PostReceive(IntoReceive(&second));
  auto producer = memory_->notice_producer();
  PayloadNotice notice = Notice();
  producer.TryPush(notice);
  notice.sequence = 1;
  producer.TryPush(notice);
  core->Progress();
  EXPECT_TRUE(first.status.ok()) << first.status;
  EXPECT_TRUE(absl::IsDataLoss(second.status)) << second.status;
  core->Close();
}

TEST_F(EdgeCoreTest, ANoticeWithoutAnyGrantEndsTheEdge) {
  const auto core = NewReceiver();
  memory_->notice_producer().TryPush(Notice());
  core->Progress();
  EXPECT_THAT(lost_.all(), SizeIs(1));
  core->Close();
}

// --- a corrupt receiver ------------------------------------------------------

TEST_F(EdgeCoreTest, ACorruptedControlMessageEndsTheEdgeWithAnError) {
  ControlMessage far_slot{};
  far_slot.kind = static_cast<uint32_t>(ControlKind::kGrant);
  far_slot.slot = 2;
  ControlMessage unknown{};
  unknown.kind = 77;
  ControlMessage direction{};
  direction.kind = static_cast<uint32_t>(ControlKind::kAcknowledgement);
  direction.header.direction = 5;
  for (const ControlMessage& message : {far_slot, unknown, direction}) {
    const auto memory = EdgeMemory::Create(2, 64).value();
    const auto core = std::make_shared<SendCore>(
        Context(), memory, Doorbell::Create().value(), nullptr, nullptr);
    Outcome sent;
    core->PostSend(HeaderOf(0), {}, Into(&sent));
    memory->control_producer().TryPush(message);
    core->Progress();
    EXPECT_TRUE(absl::IsDataLoss(sent.status)) << sent.status;
    core->Close();
  }
  EXPECT_THAT(lost_.all(), SizeIs(3));
}

TEST_F(EdgeCoreTest, AGrantThatComesTwiceEndsTheEdge) {
  ControlMessage grant{};
  grant.kind = static_cast<uint32_t>(ControlKind::kGrant);
  auto producer = memory_->control_producer();
  producer.TryPush(grant);
  producer.TryPush(grant);
  const auto core = NewSender();
  core->Progress();
  EXPECT_THAT(lost_.all(), SizeIs(1));
  core->Close();
}

// The test writes the cursors where the peer would.
class CorruptCursors : public EdgeCoreTest {
 protected:
  // Far more than anybody wrote or read.
  void CorruptEverything() {
    auto* words =
        reinterpret_cast<std::atomic<uint32_t>*>(memory_->slot(0) - Offset());
    for (size_t i = 16; i < 16 + 2 * sizeof(RingCursors) / 4; i += 16) {
      words[i].store(0x40000000);
    }
  }

 private:
  // From the start of the memory to its first slot.
  size_t Offset() const {
    const auto whole = SharedMemory::FromFd(
        UniqueFd(fcntl(memory_->fd(), F_DUPFD_CLOEXEC, 0)));
    return (*whole)->bytes() - memory_->arena_bytes();
  }
};

TEST_F(CorruptCursors, EndTheSender) {
  Outcome sent;
  const auto core = NewSender();
  core->PostSend(HeaderOf(0), {}, Into(&sent));
  CorruptEverything();
  core->Progress();
  EXPECT_TRUE(absl::IsDataLoss(sent.status)) << sent.status;
  EXPECT_THAT(lost_.all(), SizeIs(1));
  core->Close();
}

TEST_F(CorruptCursors, EndTheReceiver) {
  Outcome received;
  const auto core = NewReceiver();
  core->PostReceive(IntoReceive(&received));
  CorruptEverything();
  core->Acknowledge(HeaderOf(0));
  core->Progress();
  EXPECT_TRUE(absl::IsDataLoss(received.status)) << received.status;
  EXPECT_THAT(lost_.all(), SizeIs(1));
  core->Close();
}

}  // namespace
}  // namespace stagecoach::transport::ring

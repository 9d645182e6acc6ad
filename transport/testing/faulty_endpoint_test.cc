#include "transport/testing/faulty_endpoint.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/loopback/loopback.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport {
namespace {

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
using ::testing::SizeIs;
using testing::TensorOver;
using testing::ValuesOf;

// One edge from a_ to b_, both ends wrapped.
class FaultyEndpointTest : public ::testing::Test {
 protected:
  void Open(const FaultPlan& plan) {
    a_ = Wrapped(plan, &lost_a_);
    b_ = Wrapped(plan, &lost_b_);
    receive_ = b_->OpenReceive(PoolNamed("e", 8, 64)).value();
    send_ = a_->OpenSend(
                  EdgeNamed("e"), b_->Describe(),
                  [this](const TransferHeader& header) {
                    acknowledged_.push_back(header);
                  },
                  kTestDeadline)
                .value();
  }
  void TearDown() override {
    send_.reset();
    receive_.reset();
  }
  std::unique_ptr<Endpoint> Wrapped(const FaultPlan& plan, LostEdges* lost) {
    const EndpointOptions options = testing::OptionsFor(bell_.get(), lost);
    return MakeFaultyEndpoint(hub_.NewEndpoint(options).value(), options, plan);
  }
  bool Until(const std::function<bool()>& done) {
    return testing::Until(bell_.get(), {a_.get(), b_.get()}, done);
  }
  void AcknowledgeTransfers(int count) {
    for (int i = 0; i < count; ++i) receive_->Acknowledge(HeaderOf(i));
  }
  // The microbatches that were acknowledged, in order.
  std::vector<int> Microbatches() const {
    std::vector<int> microbatches;
    for (const TransferHeader& header : acknowledged_) {
      microbatches.push_back(header.microbatch.value());
    }
    return microbatches;
  }

  const std::vector<int64_t> values_ = {1, 2, 3};
  std::array<Outcome, 4> sent_;
  std::array<Outcome, 4> received_;
  const std::unique_ptr<Doorbell> bell_ = Doorbell::Create().value();
  LoopbackHub hub_;
  LostEdges lost_a_;
  LostEdges lost_b_;
  std::vector<TransferHeader> acknowledged_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
  std::unique_ptr<ReceiveEdge> receive_;
  std::unique_ptr<SendEdge> send_;
};

TEST_F(FaultyEndpointTest, DelaysWhatIsReceivedByThatManyPolls) {
  FaultPlan plan;
  plan.delay_receive_polls = 3;
  Open(plan);
  receive_->PostReceive(IntoReceive(&received_[0]));
  send_->PostSend(HeaderOf(0), {TensorOver(values_)}, Into(&sent_[0]));
  a_->Progress();
  EXPECT_EQ(sent_[0].calls, 1);
  b_->Progress();  // it arrives
  b_->Progress();
  b_->Progress();
  EXPECT_EQ(received_[0].calls, 0);
  b_->Progress();
  ASSERT_EQ(received_[0].calls, 1);
  EXPECT_EQ(ValuesOf(received_[0].transfer), values_);
}

// A consumer that sleeps on its bell polls again in time.
TEST_F(FaultyEndpointTest, ADelayKeepsRingingTheBell) {
  FaultPlan plan;
  plan.delay_receive_polls = 1000;
  plan.delay_ack_polls = 1000;
  Open(plan);
  receive_->PostReceive(IntoReceive(&received_[0]));
  send_->PostSend(HeaderOf(0), {TensorOver(values_)}, Into(&sent_[0]));
  ASSERT_TRUE(Until([&] { return received_[0].calls == 1; }));
  receive_->Acknowledge(HeaderOf(0));
  ASSERT_TRUE(Until([&] { return acknowledged_.size() == 1; }));
}

TEST_F(FaultyEndpointTest, DelayedTransfersKeepTheirOrderAndSlots) {
  FaultPlan plan;
  plan.delay_receive_polls = 5;
  Open(plan);
  for (int i = 0; i < 4; ++i) {
    receive_->PostReceive(IntoReceive(&received_[i]));
    send_->PostSend(HeaderOf(i), {TensorOver(values_)}, Into(&sent_[i]));
  }
  ASSERT_TRUE(Until([&] { return received_[3].calls == 1; }));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(received_[i].transfer.header, HeaderOf(i));
    EXPECT_EQ(ValuesOf(received_[i].transfer), values_);
  }
}

TEST_F(FaultyEndpointTest, AbortFailsWhatIsDelayed) {
  FaultPlan plan;
  plan.delay_receive_polls = 1000000;
  Open(plan);
  receive_->PostReceive(IntoReceive(&received_[0]));
  send_->PostSend(HeaderOf(0), {TensorOver(values_)}, Into(&sent_[0]));
  a_->Progress();
  b_->Progress();
  b_->Abort(absl::AbortedError("epoch 7 is over"));
  b_->Progress();
  EXPECT_EQ(received_[0].calls, 1);
  EXPECT_TRUE(absl::IsAborted(received_[0].status));
}

TEST_F(FaultyEndpointTest, ClosingFailsWhatIsDelayed) {
  FaultPlan plan;
  plan.delay_receive_polls = 1000000;
  Open(plan);
  receive_->PostReceive(IntoReceive(&received_[0]));
  send_->PostSend(HeaderOf(0), {TensorOver(values_)}, Into(&sent_[0]));
  a_->Progress();
  b_->Progress();
  receive_.reset();
  EXPECT_EQ(received_[0].calls, 1);
  EXPECT_TRUE(absl::IsCancelled(received_[0].status));
}

TEST_F(FaultyEndpointTest, DelaysAcknowledgementsByThatManyPolls) {
  FaultPlan plan;
  plan.delay_ack_polls = 2;
  Open(plan);
  AcknowledgeTransfers(1);
  a_->Progress();
  a_->Progress();
  EXPECT_THAT(Microbatches(), IsEmpty());
  a_->Progress();
  EXPECT_THAT(Microbatches(), ElementsAre(0));
}

TEST_F(FaultyEndpointTest, DuplicatesEveryNthAcknowledgement) {
  FaultPlan plan;
  plan.duplicate_ack_every = 2;
  Open(plan);
  AcknowledgeTransfers(4);
  a_->Progress();
  EXPECT_THAT(Microbatches(), ElementsAre(0, 1, 1, 2, 3, 3));
}

TEST_F(FaultyEndpointTest, SwapsNeighbouringAcknowledgements) {
  FaultPlan plan;
  plan.reorder_acks = true;
  Open(plan);
  AcknowledgeTransfers(5);
  a_->Progress();
  EXPECT_THAT(Microbatches(), ElementsAre(1, 0, 3, 2, 4));
}

TEST_F(FaultyEndpointTest, LosesTheNthAcknowledgementForEver) {
  FaultPlan plan;
  plan.lose_ack_at = 2;
  Open(plan);
  AcknowledgeTransfers(4);
  while (a_->Progress()) {
  }
  EXPECT_THAT(Microbatches(), ElementsAre(0, 2, 3));
}

TEST_F(FaultyEndpointTest, SendsAnAcknowledgementOfAnOlderEpoch) {
  FaultPlan plan;
  plan.stale_ack_every = 2;
  Open(plan);
  AcknowledgeTransfers(2);
  a_->Progress();
  ASSERT_THAT(Microbatches(), ElementsAre(0, 1, 1));
  EXPECT_LT(acknowledged_[1].epoch, HeaderOf(1).epoch);
  EXPECT_EQ(acknowledged_[2], HeaderOf(1));
}

TEST_F(FaultyEndpointTest, SendsAnAcknowledgementOfAnUnknownMicrobatch) {
  FaultPlan plan;
  plan.unknown_ack_every = 1;
  Open(plan);
  AcknowledgeTransfers(1);
  a_->Progress();
  ASSERT_THAT(acknowledged_, SizeIs(2));
  EXPECT_GE(acknowledged_[0].microbatch.value(), 1000000);
  EXPECT_EQ(acknowledged_[1], HeaderOf(0));
}

TEST_F(FaultyEndpointTest, TheSeedDecidesAndNothingElse) {
  FaultPlan plan;
  plan.unknown_ack_every = 1;
  plan.stale_ack_every = 1;
  std::vector<std::vector<TransferHeader>> runs;
  for (const uint64_t seed : {3, 3, 4}) {
    send_.reset();
    receive_.reset();
    acknowledged_.clear();
    plan.seed = seed;
    Open(plan);
    AcknowledgeTransfers(20);
    a_->Progress();
    runs.push_back(acknowledged_);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_FALSE(runs[0] == runs[2]);
}

TEST_F(FaultyEndpointTest, DropsTheLinkAtTheNthSend) {
  FaultPlan plan;
  plan.drop_link_at_send = 2;
  Open(plan);
  for (int i = 0; i < 4; ++i) {
    receive_->PostReceive(IntoReceive(&received_[i]));
  }
  send_->PostSend(HeaderOf(0), {TensorOver(values_)}, Into(&sent_[0]));
  ASSERT_TRUE(Until([&] { return received_[0].calls == 1; }));
  for (int i = 1; i < 4; ++i) {
    send_->PostSend(HeaderOf(i), {TensorOver(values_)}, Into(&sent_[i]));
    EXPECT_EQ(sent_[i].calls, 0);
  }
  ASSERT_TRUE(Until([&] { return received_[3].calls == 1; }));
  EXPECT_TRUE(sent_[0].status.ok()) << sent_[0].status;
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(sent_[i].calls, 1);
    EXPECT_THAT(std::string(sent_[i].status.message()),
                HasSubstr("dropped the link at send 2"));
    EXPECT_FALSE(received_[i].status.ok());
  }
  ASSERT_THAT(lost_a_.all(), SizeIs(1));
  EXPECT_EQ(lost_a_.all()[0].edge, "e");
}

TEST_F(FaultyEndpointTest, ADroppedLinkFailsWhatWaitsAfterTheReport) {
  FaultPlan plan;
  plan.drop_link_at_send = 2;
  Open(plan);
  size_t reported = 0;
  send_->PostSend(HeaderOf(0), {TensorOver(values_)}, [&](absl::Status status) {
    reported = lost_a_.all().size();
    Into (&sent_[0])(std::move(status));
  });
  send_->PostSend(HeaderOf(1), {TensorOver(values_)}, Into(&sent_[1]));
  ASSERT_TRUE(Until([&] { return sent_[0].calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(sent_[0].status)) << sent_[0].status;
  EXPECT_EQ(reported, 1u);
}

}  // namespace
}  // namespace stagecoach::transport

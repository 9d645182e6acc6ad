// An abort in each state that a transfer goes through, on either side.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

using testing::EdgeNamed;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using testing::kTestDeadline;
using testing::Outcome;
using testing::PoolNamed;
using testing::TensorOver;
using testing::ValuesOf;

enum class Reached {
  kNothing,       // open, idle
  kGranted,       // a receive is posted, nothing is sent
  kAnnounced,     // a send is posted, nothing is granted
  kPosted,        // both, and neither side has looked
  kSent,          // the sender has done its part
  kReceived,      // delivered and held, not acknowledged
  kAcknowledged,  // acknowledged, and the sender has not looked
};
constexpr std::array<const char*, 7> kNames = {
    "nothing", "granted",  "announced",   "posted",
    "sent",    "received", "acknowledged"};

}  // namespace

// Which of the two aborts, or both: each operation completes exactly once, the
// other side's at the latest when the edge ends, and what was delivered stays.
TEST_P(TransportConformance, AbortInEveryStateCompletesEachOnce) {
  const absl::Status over = absl::AbortedError("epoch 7 is over");
  const std::vector<int64_t> values = {1, 2, 3};
  for (int reached = 0; reached < static_cast<int>(kNames.size()); ++reached) {
    for (const std::string who : {"sender", "receiver", "both"}) {
      SCOPED_TRACE(std::string(kNames[static_cast<size_t>(reached)]) + ", " +
                   who);
      const auto state = static_cast<Reached>(reached);
      Outcome sent;
      Outcome received;
      acknowledged_.clear();
      auto a = NewEndpoint(bell_.get(), &lost_a_);
      auto b = NewEndpoint(bell_.get(), &lost_b_);
      const auto until = [&](const std::function<bool()>& done) {
        return testing::Until(bell_.get(), {a.get(), b.get()}, done);
      };
      auto receive = b->OpenReceive(PoolNamed("e", 2, 64)).value();
      auto send = a->OpenSend(
                       EdgeNamed("e"), b->Describe(),
                       [this](const TransferHeader& header) {
                         acknowledged_.push_back(header);
                       },
                       kTestDeadline)
                      .value();
      const bool grants =
          state != Reached::kNothing && state != Reached::kAnnounced;
      const bool sends = state >= Reached::kAnnounced;
      if (grants) receive->PostReceive(IntoReceive(&received));
      if (sends) {
        send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
      }
      if (state == Reached::kSent) {
        ASSERT_TRUE(testing::Until(bell_.get(), {a.get()},
                                   [&] { return sent.calls == 1; }));
      }
      if (state >= Reached::kReceived) {
        ASSERT_TRUE(until([&] { return received.calls == 1; }));
        EXPECT_TRUE(received.status.ok()) << received.status;
      }
      if (state == Reached::kAcknowledged) receive->Acknowledge(HeaderOf(0));

      if (who != "receiver") a->Abort(over);
      if (who != "sender") b->Abort(over);
      if (sends && who != "receiver") {
        ASSERT_TRUE(until([&] { return sent.calls == 1; }));
        EXPECT_TRUE(sent.status.ok() || sent.status == over) << sent.status;
      }
      if (grants && who != "sender") {
        ASSERT_TRUE(until([&] { return received.calls == 1; }));
        // It may have heard of the sender's abort before it was told of its
        // own.
        const bool heard = who == "both" && absl::IsAborted(received.status);
        EXPECT_TRUE(received.status.ok() || received.status == over || heard)
            << received.status;
      }
      // The end of the aborted side's edge is what ends the other's.
      if (who != "receiver") {
        send.reset();
        ASSERT_TRUE(until([&] { return !grants || received.calls == 1; }));
      }
      if (who != "sender") {
        receive.reset();
        ASSERT_TRUE(until([&] { return !sends || sent.calls == 1; }));
      }
      send.reset();
      receive.reset();
      EXPECT_EQ(sent.calls, sends ? 1 : 0);
      EXPECT_EQ(received.calls, grants ? 1 : 0);
      EXPECT_LE(acknowledged_.size(), 1u);
      a.reset();
      b.reset();
      if (received.calls == 1 && received.status.ok()) {
        EXPECT_EQ(ValuesOf(received.transfer), values);
      }
      received.transfer = ReceivedTransfer();
    }
  }
}

}  // namespace stagecoach::transport

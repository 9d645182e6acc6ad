// Edges between this process and one it starts, which may be killed.
#include <signal.h>
#include <sys/wait.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/testing/harness.h"
#include "transport/ucx/testing/endpoints.h"

namespace stagecoach::transport {
namespace {

using testing::EdgeNamed;
using ::testing::ElementsAre;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using ::testing::IsEmpty;
using testing::kTestDeadline;
using testing::Outcome;
using testing::PoolNamed;
using ::testing::SizeIs;
using testing::TensorOver;
using testing::ValuesOf;

class UcxTwoProcessTest : public ::testing::Test {
 protected:
  ChildProcess Spawn(std::vector<std::string> arguments) {
    SpawnOptions options;
    options.program = absl::StrCat(ExecutableFolder(), "/ucx_test_peer");
    options.arguments = std::move(arguments);
    options.pipe_stdout = true;
    return ChildProcess::Spawn(options).value();
  }
  std::unique_ptr<SendEdge> OpenSend(const std::string& peer) {
    return endpoint_
        ->OpenSend(
            EdgeNamed("e"), peer,
            [this](const TransferHeader& header) {
              acknowledged_.push_back(header);
            },
            kTestDeadline)
        .value();
  }
  bool Until(const std::function<bool()>& done) {
    return testing::Until(bell_.get(), {endpoint_.get()}, done);
  }
  void ExpectLost() {
    ASSERT_TRUE(Until([&] { return !lost_.all().empty(); }));
    ASSERT_THAT(lost_.all(), SizeIs(1));
    EXPECT_EQ(lost_.all()[0].edge, "e");
    EXPECT_TRUE(absl::IsUnavailable(lost_.all()[0].status));
  }

  std::vector<TransferHeader> acknowledged_;
  testing::LostEdges lost_;
  std::unique_ptr<Doorbell> bell_ = Doorbell::Create().value();
  std::unique_ptr<Endpoint> endpoint_ =
      ucx::testing::NewTestEndpoint(testing::OptionsFor(bell_.get(), &lost_))
          .value();
};

TEST_F(UcxTwoProcessTest, ReceivesFromAnotherProcess) {
  constexpr int kTransfers = 500;
  int received = 0;
  bool ended = false;
  const auto receive = endpoint_->OpenReceive(PoolNamed("e", 3, 64)).value();
  ReceiveEdge::Completion on_receive =
      [&](absl::StatusOr<ReceivedTransfer> transfer) {
        if (!transfer.ok()) {
          ended = true;
          return;
        }
        EXPECT_THAT(ValuesOf(*transfer), ElementsAre(received, -received, 7));
        ++received;
        receive->Acknowledge(transfer->header);
        receive->PostReceive(on_receive);
      };
  for (int i = 0; i < 3; ++i) receive->PostReceive(on_receive);
  ChildProcess child =
      Spawn({"send", absl::StrCat(kTransfers), endpoint_->Describe()});
  ASSERT_TRUE(Until([&] { return ended; }));
  EXPECT_EQ(received, kTransfers);
  EXPECT_EQ(child.ReadLine(kTestDeadline).value(), "done");
  EXPECT_EQ(child.Wait(kTestDeadline).value(), 0);
  EXPECT_THAT(lost_.all(), IsEmpty());
}

TEST_F(UcxTwoProcessTest, SendsToAnotherProcess) {
  const std::vector<int64_t> values = {1, 2, 3};
  Outcome sent;
  ChildProcess child = Spawn({"receive"});
  const auto send = OpenSend(child.ReadLine(kTestDeadline).value());
  send->PostSend(HeaderOf(5), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(Until([&] { return !acknowledged_.empty(); }));
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_EQ(acknowledged_[0], HeaderOf(5));
}

TEST_F(UcxTwoProcessTest, AKilledSenderIsReportedOnce) {
  Outcome received;
  const auto receive = endpoint_->OpenReceive(PoolNamed("e", 2, 64)).value();
  receive->PostReceive(IntoReceive(&received));
  ChildProcess child = Spawn({"hold", endpoint_->Describe()});
  ASSERT_TRUE(child.ReadLine(kTestDeadline).ok());
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ExpectLost();
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(received.status)) << received.status;
}

TEST_F(UcxTwoProcessTest, AKilledReceiverIsReportedOnce) {
  const std::vector<int64_t> values = {1, 2, 3};
  Outcome sent;
  ChildProcess child = Spawn({"mute"});
  const auto send = OpenSend(child.ReadLine(kTestDeadline).value());
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  EXPECT_EQ(sent.calls, 0);
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ExpectLost();
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(sent.status)) << sent.status;
}

TEST_F(UcxTwoProcessTest, ReceivedMemoryOutlivesItsKilledSender) {
  Outcome received;
  const auto receive = endpoint_->OpenReceive(PoolNamed("e", 1, 64)).value();
  receive->PostReceive(IntoReceive(&received));
  // It waits for a second grant, which never comes.
  ChildProcess child = Spawn({"send", "2", endpoint_->Describe()});
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  ASSERT_TRUE(received.status.ok()) << received.status;
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ASSERT_TRUE(Until([&] { return !lost_.all().empty(); }));
  EXPECT_THAT(ValuesOf(received.transfer), ElementsAre(0, 0, 7));
}

TEST_F(UcxTwoProcessTest, AStoppedPeerCannotBlockOpeningForEver) {
  ChildProcess child = Spawn({"receive"});
  const std::string description = child.ReadLine(kTestDeadline).value();
  ASSERT_TRUE(child.Signal(SIGSTOP).ok());
  siginfo_t stopped;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &stopped,
                   WSTOPPED | WNOWAIT),
            0);
  const auto send = endpoint_->OpenSend(EdgeNamed("e"), description, nullptr,
                                        absl::Milliseconds(50));
  EXPECT_TRUE(absl::IsUnavailable(send.status())) << send.status();
}

}  // namespace
}  // namespace stagecoach::transport

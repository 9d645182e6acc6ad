// Edges over tcp between this process and one it starts, which may be killed.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/tcp/tcp.h"
#include "transport/testing/harness.h"
#include "transport/testing/two_processes.h"

namespace stagecoach::transport {
namespace {

using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using ::testing::IsEmpty;
using testing::kTestDeadline;
using testing::Outcome;
using testing::PoolNamed;
using ::testing::SizeIs;
using testing::TensorOver;

constexpr int kLarge = 8 << 20;
constexpr int kPartOfLarge = 1 << 20;

absl::StatusOr<std::unique_ptr<Endpoint>> NewEndpoint(
    const EndpointOptions& endpoint) {
  TcpOptions options;
  // Nobody comes back in these tests.
  options.reconnect.deadline = absl::Milliseconds(200);
  return NewTcpEndpoint(endpoint, options);
}

const PathOfTwo kTcp = {"tcp", "tcp_test_peer", NewEndpoint};

INSTANTIATE_TEST_SUITE_P(Tcp, TransportTwoProcesses, ::testing::Values(kTcp));

class TcpTwoProcessTest : public TwoProcessTest {
 protected:
  TcpTwoProcessTest() : TwoProcessTest(kTcp) {}
};

TEST_F(TcpTwoProcessTest, ASenderThatDiesAmidATransferDeliversNothing) {
  Outcome received;
  const auto receive =
      endpoint_->OpenReceive(PoolNamed("e", 1, kLarge)).value();
  receive->PostReceive(IntoReceive(&received));
  ChildProcess child =
      Spawn({absl::StrCat("--die-after=", kPartOfLarge), "send-large",
             absl::StrCat(kLarge), endpoint_->Describe()});
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(received.status)) << received.status;
  EXPECT_THAT(lost_.all(), SizeIs(1));
  EXPECT_NE(child.Wait(kTestDeadline).value(), 0);
}

TEST_F(TcpTwoProcessTest, AReceiverThatDiesAmidATransferFailsTheSend) {
  const std::vector<int64_t> values(kLarge / 8, 7);
  Outcome sent;
  ChildProcess child = Spawn({absl::StrCat("--die-after=", kPartOfLarge),
                              "receive", absl::StrCat(kLarge)});
  const auto send = OpenSend(child.ReadLine(kTestDeadline).value());
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ExpectLost();
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(sent.status)) << sent.status;
  EXPECT_THAT(acknowledged_, IsEmpty());
  EXPECT_NE(child.Wait(kTestDeadline).value(), 0);
}

}  // namespace
}  // namespace stagecoach::transport

// Edges between this process and one it starts, which may be killed, over the
// host emulator.
#include <signal.h>

#include <string>
#include <vector>

#include "base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/nccl/testing/emulator.h"
#include "transport/nccl/testing/no_misuse.h"
#include "transport/testing/harness.h"
#include "transport/testing/two_processes.h"

namespace stagecoach::transport {
namespace {

using ::testing::HasSubstr;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using testing::kTestDeadline;
using testing::Outcome;
using testing::PoolNamed;
using testing::TensorOver;

::testing::Environment* const kNoMisuse =
    ::testing::AddGlobalTestEnvironment(new nccl::testing::NoMisuse);

const PathOfTwo kNccl = {"nccl", "nccl_test_peer",
                         [](const EndpointOptions& options) {
                           return nccl::testing::NewEmulatedEndpoint(
                               options, nccl::testing::EmulatorSettings(0));
                         }};

INSTANTIATE_TEST_SUITE_P(Nccl, TransportTwoProcesses, ::testing::Values(kNccl));

class NcclTwoProcessTest : public TwoProcessTest {
 protected:
  NcclTwoProcessTest() : TwoProcessTest(kNccl) {}
  void ExpectPeerGone() {
    ExpectLost();
    EXPECT_THAT(std::string(lost_.all()[0].status.message()),
                HasSubstr("its peer is gone"));
  }

  nccl::testing::Emulator emulator_;
};

// NCCL waits for a rank that will never come; the end of the control channel
// tells.
TEST_F(NcclTwoProcessTest, AReceiverThatDiesAmidATransferFailsTheSend) {
  const std::vector<int64_t> values = {1, 2, 3};
  Outcome sent;
  ChildProcess child = Spawn({"receive"});
  const auto send = OpenSend(child.ReadLine(kTestDeadline).value());
  emulator_.Set("ncclSend=hang");
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(emulator_.AwaitCalls("ncclSend", 1));
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ExpectPeerGone();
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_FALSE(sent.status.ok());
}

TEST_F(NcclTwoProcessTest, ASenderThatDiesAmidATransferDeliversNothing) {
  Outcome received;
  const auto receive = endpoint_->OpenReceive(PoolNamed("e", 1, 64)).value();
  receive->PostReceive(IntoReceive(&received));
  ChildProcess child =
      Spawn({"--fault=ncclSend=hang", "send", "1", endpoint_->Describe()});
  ASSERT_TRUE(emulator_.AwaitCalls("ncclRecv", 1));
  endpoint_->Progress();
  EXPECT_EQ(received.calls, 0);
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ExpectPeerGone();
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(received.status)) << received.status;
}

}  // namespace
}  // namespace stagecoach::transport

// Edges between this process and one it starts, which may be killed.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/shm/descriptor.h"
#include "transport/shm/shm.h"
#include "transport/testing/harness.h"

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
using testing::LostEdges;
using ::testing::Not;
using testing::Outcome;
using testing::PoolNamed;
using ::testing::SizeIs;
using testing::TensorOver;
using testing::ValuesOf;

// A death is seen at once; this is for a machine that is very busy.
constexpr absl::Duration kLossBound = absl::Seconds(5);

std::vector<std::string> ListFolder(const char* path) {
  std::vector<std::string> names;
  DIR* const folder = opendir(path);
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) names.push_back(entry->d_name);
  closedir(folder);
  return names;
}

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string SocketOf(const std::string& description) {
  return shm::ParseDescriptor(description).value().socket_name;
}

class ShmTwoProcessTest : public ::testing::Test {
 protected:
  ChildProcess Spawn(std::vector<std::string> arguments) {
    SpawnOptions options;
    options.program = absl::StrCat(ExecutableFolder(), "/shm_test_peer");
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
  // Waits for the report of the one edge, and that it came soon.
  void ExpectLost(absl::Time killed) {
    ASSERT_TRUE(Until([&] { return !lost_.all().empty(); }));
    EXPECT_LT(absl::Now() - killed, kLossBound);
    ASSERT_THAT(lost_.all(), SizeIs(1));
    EXPECT_EQ(lost_.all()[0].edge, "e");
    EXPECT_TRUE(absl::IsUnavailable(lost_.all()[0].status));
  }

  std::vector<TransferHeader> acknowledged_;
  LostEdges lost_;
  std::unique_ptr<Doorbell> bell_ = Doorbell::Create().value();
  std::unique_ptr<Endpoint> endpoint_ =
      NewShmEndpoint(testing::OptionsFor(bell_.get(), &lost_)).value();
};

TEST_F(ShmTwoProcessTest, ReceivesFromAnotherProcess) {
  constexpr int kTransfers = 1000;
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

TEST_F(ShmTwoProcessTest, SendsToAnotherProcess) {
  const std::vector<int64_t> values = {1, 2, 3};
  Outcome sent;
  ChildProcess child = Spawn({"receive"});
  const auto send = OpenSend(child.ReadLine(kTestDeadline).value());
  send->PostSend(HeaderOf(5), {TensorOver(values)}, Into(&sent));
  ASSERT_TRUE(Until([&] { return !acknowledged_.empty(); }));
  EXPECT_EQ(sent.calls, 1);
  EXPECT_EQ(acknowledged_[0], HeaderOf(5));
}

TEST_F(ShmTwoProcessTest, AKilledSenderIsReportedOnce) {
  Outcome received;
  const auto receive = endpoint_->OpenReceive(PoolNamed("e", 2, 64)).value();
  receive->PostReceive(IntoReceive(&received));
  ChildProcess child = Spawn({"hold", endpoint_->Describe()});
  ASSERT_TRUE(child.ReadLine(kTestDeadline).ok());
  const absl::Time killed = absl::Now();
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ExpectLost(killed);
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(received.status)) << received.status;
}

TEST_F(ShmTwoProcessTest, AKilledReceiverIsReportedOnce) {
  const std::vector<int64_t> values = {1, 2, 3};
  Outcome sent;
  ChildProcess child = Spawn({"mute"});
  const auto send = OpenSend(child.ReadLine(kTestDeadline).value());
  send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&sent));
  endpoint_->Progress();
  EXPECT_EQ(sent.calls, 0);
  const absl::Time killed = absl::Now();
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ExpectLost(killed);
  ASSERT_TRUE(Until([&] { return sent.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(sent.status)) << sent.status;
}

// The notice follows the last byte, so half a transfer is never delivered.
TEST_F(ShmTwoProcessTest, ASenderThatDiesAmidATransferDeliversNothing) {
  Outcome received;
  EdgeOptions pool = PoolNamed("e", 1, 1 << 16);
  const auto receive = endpoint_->OpenReceive(pool).value();
  receive->PostReceive(IntoReceive(&received));
  ChildProcess child = Spawn({"die-in-copy", endpoint_->Describe()});
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(received.status)) << received.status;
  EXPECT_THAT(lost_.all(), SizeIs(1));
  EXPECT_NE(child.Wait(kTestDeadline).value(), 0);
}

// Stopped, it takes nothing any more: what was written into its memory is
// neither received nor acknowledged, and what had no slot fails.
TEST_F(ShmTwoProcessTest, AReceiverThatDiesAmidATransferFailsTheSend) {
  const std::vector<int64_t> values = {1, 2, 3};
  std::vector<Outcome> sent(3);
  ChildProcess child = Spawn({"receive"});
  const auto send = OpenSend(child.ReadLine(kTestDeadline).value());
  ASSERT_TRUE(child.Signal(SIGSTOP).ok());
  siginfo_t stopped;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &stopped,
                   WSTOPPED | WNOWAIT),
            0);
  for (Outcome& outcome : sent) {
    send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&outcome));
  }
  // Both slots were granted before.
  ASSERT_TRUE(Until([&] { return sent[1].calls == 1; }));
  EXPECT_TRUE(sent[1].status.ok()) << sent[1].status;
  const absl::Time killed = absl::Now();
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ExpectLost(killed);
  ASSERT_TRUE(Until([&] { return sent[2].calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(sent[2].status)) << sent[2].status;
  EXPECT_THAT(acknowledged_, IsEmpty());
}

TEST_F(ShmTwoProcessTest, ReceivedMemoryOutlivesItsKilledSender) {
  Outcome received;
  const auto receive = endpoint_->OpenReceive(PoolNamed("e", 1, 64)).value();
  receive->PostReceive(IntoReceive(&received));
  // It waits for a second slot, which is never granted.
  ChildProcess child = Spawn({"send", "2", endpoint_->Describe()});
  ASSERT_TRUE(Until([&] { return received.calls == 1; }));
  ASSERT_TRUE(received.status.ok()) << received.status;
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ASSERT_TRUE(Until([&] { return !lost_.all().empty(); }));
  EXPECT_THAT(ValuesOf(received.transfer), ElementsAre(0, 0, 7));
}

TEST_F(ShmTwoProcessTest, AStoppedPeerCannotBlockOpeningForEver) {
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

TEST_F(ShmTwoProcessTest, AKilledProcessLeavesNothing) {
  auto receive = endpoint_->OpenReceive(PoolNamed("e", 2, 64)).value();
  ChildProcess child = Spawn({"hold", endpoint_->Describe()});
  const std::string description = child.ReadLine(kTestDeadline).value();
  EXPECT_THAT(ReadAll("/proc/net/unix"), HasSubstr(SocketOf(description)));
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ASSERT_TRUE(child.Wait(kTestDeadline).ok());
  EXPECT_THAT(ReadAll("/proc/net/unix"), Not(HasSubstr(SocketOf(description))));
  EXPECT_THAT(ListFolder("/dev/shm"), Each(Not(HasSubstr("stagecoach"))));
  const auto send =
      endpoint_->OpenSend(EdgeNamed("e"), description, nullptr, kTestDeadline);
  EXPECT_TRUE(absl::IsUnavailable(send.status())) << send.status();
}

TEST_F(ShmTwoProcessTest, AnEndpointGivesBackItsDescriptorsAndMappings) {
  endpoint_.reset();
  const size_t descriptors = ListFolder("/proc/self/fd").size();
  for (int round = 0; round < 2; ++round) {
    endpoint_ =
        NewShmEndpoint(testing::OptionsFor(bell_.get(), &lost_)).value();
    Outcome received;
    auto receive = endpoint_->OpenReceive(PoolNamed("e", 1, 64)).value();
    receive->PostReceive(IntoReceive(&received));
    {
      ChildProcess child = Spawn({"send", "2", endpoint_->Describe()});
      ASSERT_TRUE(Until([&] { return received.calls == 1; }));
    }
    received.transfer = ReceivedTransfer();
    receive.reset();
    endpoint_.reset();
    EXPECT_EQ(ListFolder("/proc/self/fd").size(), descriptors);
    EXPECT_THAT(ReadAll("/proc/self/maps"), Not(HasSubstr("stagecoach-edge")));
  }
}

}  // namespace
}  // namespace stagecoach::transport

// Edges in shared memory between this process and one it starts, which may be
// killed.
#include <dirent.h>
#include <signal.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/shm/descriptor.h"
#include "transport/shm/shm.h"
#include "transport/testing/harness.h"
#include "transport/testing/two_processes.h"

namespace stagecoach::transport {
namespace {

using ::testing::Each;
using testing::EdgeNamed;
using ::testing::HasSubstr;
using testing::HeaderOf;
using testing::Into;
using testing::IntoReceive;
using ::testing::IsEmpty;
using testing::kTestDeadline;
using ::testing::Not;
using testing::Outcome;
using testing::PoolNamed;
using ::testing::SizeIs;
using testing::TensorOver;

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

const PathOfTwo kShm = {"shm", "shm_test_peer", NewShmEndpoint};

INSTANTIATE_TEST_SUITE_P(Shm, TransportTwoProcesses, ::testing::Values(kShm));

class ShmTwoProcessTest : public TwoProcessTest {
 protected:
  ShmTwoProcessTest() : TwoProcessTest(kShm) {}
};

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
  ASSERT_NO_FATAL_FAILURE(Stop(&child));
  for (Outcome& outcome : sent) {
    send->PostSend(HeaderOf(0), {TensorOver(values)}, Into(&outcome));
  }
  // Both slots were granted before.
  ASSERT_TRUE(Until([&] { return sent[1].calls == 1; }));
  EXPECT_TRUE(sent[1].status.ok()) << sent[1].status;
  ASSERT_TRUE(child.Signal(SIGKILL).ok());
  ExpectLost();
  ASSERT_TRUE(Until([&] { return sent[2].calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(sent[2].status)) << sent[2].status;
  EXPECT_THAT(acknowledged_, IsEmpty());
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

// Strangers at the door, and lost connections, within one process.
#include "transport/shm/shm.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/shm/descriptor.h"
#include "transport/shm/greeting.h"
#include "transport/shm/socket.h"
#include "transport/testing/harness.h"

namespace stagecoach::transport::shm {
namespace {

using testing::EdgeNamed;
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

// An endpoint with the receiving end "e", and whoever the test makes of its
// description.
class ShmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    receive_ = endpoint_->OpenReceive(PoolNamed("e", 2, 64)).value();
  }
  std::shared_ptr<Socket> Connect() {
    return Socket::Connect(descriptor_.socket_name, kTestDeadline).value();
  }
  std::string GoodHello() const {
    return EncodeHello({descriptor_.token, "e"}).value();
  }
  // What the endpoint answers to this packet.
  absl::Status Greet(const std::string& packet, const std::vector<int>& fds) {
    const auto socket = Connect();
    EXPECT_TRUE(socket->Send(packet, fds).ok());
    const auto answer = socket->Receive(kTestDeadline);
    if (!answer.ok() || answer->end) return absl::CancelledError("hung up");
    return DecodeAnswer(answer->bytes);
  }
  // That a sender who knows the token still gets in.
  void ExpectServes() {
    LostEdges lost;
    const auto peer =
        NewShmEndpoint(testing::OptionsFor(bell_.get(), &lost)).value();
    const auto send = peer->OpenSend(EdgeNamed("e"), endpoint_->Describe(),
                                     nullptr, kTestDeadline);
    EXPECT_TRUE(send.ok()) << send.status();
  }

  const std::unique_ptr<Doorbell> bell_ = Doorbell::Create().value();
  LostEdges lost_;
  const std::unique_ptr<Endpoint> endpoint_ =
      NewShmEndpoint(testing::OptionsFor(bell_.get(), &lost_)).value();
  const ShmDescriptor descriptor_ =
      ParseDescriptor(endpoint_->Describe()).value();
  std::unique_ptr<ReceiveEdge> receive_;
};

TEST_F(ShmTest, AWrongTokenIsRefused) {
  Token wrong = descriptor_.token;
  wrong[15] ^= 1;
  const absl::Status status =
      Greet(EncodeHello({wrong, "e"}).value(), {bell_->fd()});
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  ExpectServes();
}

TEST_F(ShmTest, ABadGreetingIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Greet("hello", {bell_->fd()})));
  EXPECT_TRUE(absl::IsInvalidArgument(Greet(GoodHello() + "x", {bell_->fd()})));
  EXPECT_TRUE(absl::IsDataLoss(Greet(std::string(4000, 'x'), {})));
  ExpectServes();
}

TEST_F(ShmTest, AGreetingWithoutADoorbellIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Greet(GoodHello(), {})));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Greet(GoodHello(), {bell_->fd(), bell_->fd()})));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(absl::IsInvalidArgument(Greet(GoodHello(), {null.get()})));
  ExpectServes();
}

TEST_F(ShmTest, AVisitorWhoHangsUpIsForgotten) {
  for (int i = 0; i < 20; ++i) Connect();
  ExpectServes();
}

TEST_F(ShmTest, AGreeterWhoHangsUpIsALostSender) {
  Outcome received;
  receive_->PostReceive(IntoReceive(&received));
  EXPECT_TRUE(Greet(GoodHello(), {bell_->fd()}).ok());
  ASSERT_TRUE(testing::Until(bell_.get(), {endpoint_.get()},
                             [&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(received.status)) << received.status;
  ASSERT_THAT(lost_.all(), SizeIs(1));
  EXPECT_EQ(lost_.all()[0].edge, "e");
  EXPECT_THAT(std::string(lost_.all()[0].status.message()),
              HasSubstr("ended without closing"));
  receive_.reset();
}

TEST_F(ShmTest, AnUnknownPacketOnAnEdgeIsALoss) {
  const auto socket = Connect();
  ASSERT_TRUE(socket->Send(GoodHello(), {bell_->fd()}).ok());
  ASSERT_TRUE(socket->Receive(kTestDeadline).ok());
  ASSERT_TRUE(socket->Send("good day").ok());
  ASSERT_TRUE(testing::Until(bell_.get(), {endpoint_.get()},
                             [&] { return !lost_.all().empty(); }));
  EXPECT_TRUE(absl::IsDataLoss(lost_.all()[0].status));
}

TEST_F(ShmTest, AGoodbyeIsNoLoss) {
  Outcome received;
  receive_->PostReceive(IntoReceive(&received));
  const auto socket = Connect();
  ASSERT_TRUE(socket->Send(GoodHello(), {bell_->fd()}).ok());
  ASSERT_TRUE(socket->Receive(kTestDeadline).ok());
  ASSERT_TRUE(socket->Send(kBye).ok());
  ASSERT_TRUE(testing::Until(bell_.get(), {endpoint_.get()},
                             [&] { return received.calls == 1; }));
  EXPECT_TRUE(absl::IsAborted(received.status)) << received.status;
  EXPECT_THAT(lost_.all(), IsEmpty());
  receive_.reset();
}

// Also if the peer takes its time to leave.
TEST_F(ShmTest, ClosingAnEdgeSaysGoodbyeAndClosesItsSocket) {
  const auto socket = Connect();
  ASSERT_TRUE(socket->Send(GoodHello(), {bell_->fd()}).ok());
  ASSERT_TRUE(socket->Receive(kTestDeadline).ok());
  receive_.reset();
  EXPECT_EQ(socket->Receive(kTestDeadline).value().bytes, kBye);
  EXPECT_TRUE(socket->Receive(kTestDeadline).value().end);
}

std::set<int> OpenDescriptors() {
  std::set<int> open;
  for (int fd = 0; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) open.insert(fd);
  }
  return open;
}

// A child that inherits one would hide this process's death from its peers.
TEST_F(ShmTest, NoDescriptorIsInheritedByChildren) {
  const std::set<int> before = OpenDescriptors();
  LostEdges lost;
  const auto peer =
      NewShmEndpoint(testing::OptionsFor(bell_.get(), &lost)).value();
  const auto send = peer->OpenSend(EdgeNamed("e"), endpoint_->Describe(),
                                   nullptr, kTestDeadline);
  ASSERT_TRUE(send.ok()) << send.status();
  int opened = 0;
  for (const int fd : OpenDescriptors()) {
    if (before.count(fd) != 0) continue;
    ++opened;
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
  }
  // Listener, wake-up, spare; a socket, the memory, and a bell at each end.
  EXPECT_GE(opened, 6);
}

TEST_F(ShmTest, EdgeNamesThatDoNotFitAreRefusedAtBothEnds) {
  const std::string name(kMaxEdgeNameBytes + 1, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(
      endpoint_->OpenReceive(PoolNamed(name, 1, 64)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(endpoint_
                                          ->OpenSend(EdgeNamed(name),
                                                     endpoint_->Describe(),
                                                     nullptr, kTestDeadline)
                                          .status()));
}

// --- a receiver that is none -------------------------------------------------

// Answers one greeting as the test says.
class ImpostorTest : public ShmTest {
 protected:
  absl::Status Open(const std::string& answer, const std::vector<int>& fds,
                    absl::Duration timeout = kTestDeadline) {
    ShmDescriptor impostor = NewDescriptor().value();
    const auto listener = Socket::Listen(impostor.socket_name).value();
    std::thread thread([&] {
      pollfd visitor{listener->fd(), POLLIN, 0};
      EXPECT_EQ(poll(&visitor, 1, /*timeout=*/-1), 1);
      const auto socket = listener->Accept().value();
      EXPECT_TRUE(socket->Receive(kTestDeadline).ok());
      if (!answer.empty()) {
        EXPECT_TRUE(socket->Send(answer, fds).ok());
      }
      // Until the other side has had enough.
      (void)socket->Receive(kTestDeadline);
    });
    const auto send = endpoint_->OpenSend(
        EdgeNamed("e"), FormatDescriptor(impostor), nullptr, timeout);
    thread.join();
    return send.status();
  }
};

TEST_F(ImpostorTest, AnAnswerThatIsNoneIsRefused) {
  EXPECT_TRUE(absl::IsDataLoss(Open("welcome", {})));
}

TEST_F(ImpostorTest, ARefusalIsPassedOn) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      Open(EncodeAnswer(absl::ResourceExhaustedError("full")), {})));
}

TEST_F(ImpostorTest, AnEarlyGoodbyeIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(Open(std::string(kBye), {})));
}

TEST_F(ImpostorTest, AWelcomeWithoutMemoryIsRefused) {
  const std::string welcome = EncodeAnswer(absl::OkStatus());
  EXPECT_TRUE(absl::IsDataLoss(Open(welcome, {})));
  EXPECT_TRUE(absl::IsDataLoss(Open(welcome, {bell_->fd()})));
  // A bell is sealed memory, but holds no edge.
  EXPECT_TRUE(absl::IsDataLoss(Open(welcome, {bell_->fd(), bell_->fd()})));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(Open(welcome, {null.get(), bell_->fd()}).ok());
}

TEST_F(ImpostorTest, SilenceEndsAtTheTimeout) {
  const absl::Status status = Open("", {}, absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("did not answer within"));
}

}  // namespace
}  // namespace stagecoach::transport::shm

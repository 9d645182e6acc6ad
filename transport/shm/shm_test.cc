// Strangers at the door, and lost connections, within one process.
#include "transport/shm/shm.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/ring/edge_memory.h"
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
  int64_t Refused(Refusal reason) const {
    return endpoint_->counters().refused_by[static_cast<size_t>(reason)];
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
  EXPECT_EQ(Refused(Refusal::kToken), 1);
  ExpectServes();
}

// A worker of a placement that has been given up meanwhile.
TEST_F(ShmTest, AGreetingOfAnotherEpochIsRefused) {
  const absl::Status status =
      Greet(EncodeHello({descriptor_.token, "e", -1}).value(), {bell_->fd()});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("epoch -1"));
  EXPECT_EQ(Refused(Refusal::kEpoch), 1);
  ExpectServes();
}

TEST_F(ShmTest, AnUnknownEdgeIsRefusedAndNothingElse) {
  const absl::Status status =
      Greet(EncodeHello({descriptor_.token, "f"}).value(), {bell_->fd()});
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(Refused(Refusal::kUnknownEdge), 1);
  ExpectServes();
}

TEST_F(ShmTest, AnotherVersionIsRefused) {
  std::string hello = GoodHello();
  hello[8] = 99;
  EXPECT_TRUE(absl::IsFailedPrecondition(Greet(hello, {bell_->fd()})));
  EXPECT_EQ(Refused(Refusal::kVersion), 1);
  ExpectServes();
}

TEST_F(ShmTest, ABadGreetingIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Greet("hello", {bell_->fd()})));
  EXPECT_TRUE(absl::IsInvalidArgument(Greet(GoodHello() + "x", {bell_->fd()})));
  EXPECT_TRUE(absl::IsDataLoss(Greet(std::string(4000, 'x'), {})));
  EXPECT_EQ(Refused(Refusal::kNotOurs), 2);
  EXPECT_EQ(Refused(Refusal::kTooLong), 1);
  ExpectServes();
}

TEST_F(ShmTest, AGreetingWithoutADoorbellIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Greet(GoodHello(), {})));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Greet(GoodHello(), {bell_->fd(), bell_->fd()})));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(absl::IsInvalidArgument(Greet(GoodHello(), {null.get()})));
  EXPECT_EQ(Refused(Refusal::kProtocol), 2);
  EXPECT_EQ(Refused(Refusal::kMemory), 1);
  ExpectServes();
}

TEST_F(ShmTest, AVisitorWhoHangsUpIsForgotten) {
  for (int i = 0; i < 20; ++i) Connect();
  ExpectServes();
}

// Half-open: it is there and says nothing. Everybody else is served meanwhile.
TEST_F(ShmTest, AVisitorWhoSaysNothingIsCutInTheEnd) {
  const auto silent = Connect();
  ExpectServes();
  EXPECT_TRUE(silent->Receive(kTestDeadline).value().end);
  EXPECT_EQ(Refused(Refusal::kSilent), 1);
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
  EXPECT_EQ(Refused(Refusal::kProtocol), 1);
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
  EXPECT_EQ(Refused(Refusal::kNotOurs), 1);
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
  EXPECT_EQ(Refused(Refusal::kProtocol), 2);
  EXPECT_EQ(Refused(Refusal::kMemory), 2);
}

// Mapped, either would take the host's memory page by page: the second keeps
// what its header says, which is a lie too.
TEST_F(ImpostorTest, AWelcomeWithMemoryThatLiesAboutItsSizeIsRefused) {
  const std::string welcome = EncodeAnswer(absl::OkStatus());
  const auto edge = ring::EdgeMemory::Create(5, 1024).value();
  std::string first(24, '\0');
  ASSERT_EQ(pread(edge->fd(), &first[0], first.size(), 0), 24);
  const uint64_t slot_bytes = uint64_t{1} << 40;
  std::memcpy(&first[16], &slot_bytes, sizeof(slot_bytes));
  struct stat file;
  ASSERT_EQ(fstat(edge->fd(), &file), 0);
  for (const off_t bytes :
       {off_t{1} << 50,
        file.st_size + static_cast<off_t>(5 * (slot_bytes - 1024))}) {
    const UniqueFd sparse(
        memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(sparse.get(), bytes), 0);
    ASSERT_EQ(pwrite(sparse.get(), first.data(), first.size(), 0), 24);
    ASSERT_EQ(fcntl(sparse.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    const absl::Status status = Open(welcome, {sparse.get(), bell_->fd()});
    EXPECT_THAT(std::string(status.message()), HasSubstr("claims"));
  }
  // The bell, likewise.
  const UniqueFd bell(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(bell.get(), off_t{1} << 50), 0);
  ASSERT_EQ(fcntl(bell.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(Open(welcome, {edge->fd(), bell.get()}).ok());
  EXPECT_EQ(Refused(Refusal::kMemory), 3);
}

TEST_F(ImpostorTest, SilenceEndsAtTheTimeout) {
  const absl::Status status = Open("", {}, absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("did not answer within"));
}

}  // namespace
}  // namespace stagecoach::transport::shm

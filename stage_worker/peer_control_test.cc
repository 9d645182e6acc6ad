#include "stage_worker/peer_control.h"

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"
#include "stage_worker/peer_directory.h"
#include "stage_worker/peer_service.h"

namespace stagecoach::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using transport::ControlChannel;

constexpr absl::Duration kDeadline = absl::Seconds(60);

// What a channel has heard. Thread-safe.
class Heard {
 public:
  ControlChannel::Handlers Handlers() {
    ControlChannel::Handlers handlers;
    handlers.on_message = [this](const std::string& from, std::string message) {
      Add(&messages_, from + ": " + message);
    };
    handlers.on_lost = [this](const std::string& peer, absl::Status why) {
      Add(&lost_, peer + ": " + std::string(why.message()));
    };
    return handlers;
  }
  // At least so many, or what there is at the deadline.
  std::vector<std::string> Messages(size_t count) {
    return Await(&messages_, count);
  }
  std::vector<std::string> Lost(size_t count) { return Await(&lost_, count); }

 private:
  using Lines = std::vector<std::string>;
  void Add(Lines* lines, std::string line) {
    MutexLock lock(&mu_);
    lines->push_back(std::move(line));
    changed_.NotifyAll();
  }
  Lines Await(const Lines* lines, size_t count) {
    const CondVar::TimePoint deadline = CondVar::DeadlineAfter(kDeadline);
    MutexLock lock(&mu_);
    while (lines->size() < count && changed_.WaitUntil(&mu_, deadline)) {
    }
    return *lines;
  }

  Mutex mu_;
  CondVar changed_;
  Lines messages_;
  Lines lost_;
};

// A worker as far as its peers' streams go.
struct Peer {
  Peer(const std::string& name, uint64_t incarnation)
      : control(Incarnation(incarnation)),
        service(name, Incarnation(incarnation), &directory, &control, &vault) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    server = rpc::Listen(builder, rpc::ListenOptions()).value();
    address.worker = name;
    address.incarnation = Incarnation(incarnation);
    address.address = server.address;
  }
  ~Peer() { Die(); }
  void Die() {
    if (server.server == nullptr) return;
    server.server->Shutdown(std::chrono::system_clock::now());
    server.server->Wait();
    server.server.reset();
  }

  PeerDirectory directory;
  PeerControl control;
  StateVault vault{&memory::AccountingAllocator::Process()};
  PeerService service;
  rpc::ListeningServer server;
  PeerAddress address;
};

class PeerControlTest : public ::testing::Test {
 protected:
  std::unique_ptr<ControlChannel> Channel(Peer* peer, Heard* heard,
                                          int64_t epoch = 7) {
    ControlledPlacement placement;
    placement.worker = peer->address.worker;
    placement.job_id = "job-1";
    placement.epoch = Epoch(epoch);
    placement.peers = {a_.address, b_.address};
    return peer->control.ChannelsOf(std::move(placement))(heard->Handlers())
        .value();
  }

  Peer a_{"w0", 100};
  Peer b_{"w1", 101};
  Heard at_a_;
  Heard at_b_;
};

TEST_F(PeerControlTest, MessagesArriveOnceInOrderAndWhole) {
  const auto a = Channel(&a_, &at_a_);
  const auto b = Channel(&b_, &at_b_);
  EXPECT_EQ(a->address(), "w0");
  constexpr int kMessages = 1000;
  for (int i = 0; i < kMessages; ++i) a->Send("w1", std::to_string(i));
  const std::string bytes("\0\xff x", 4);
  b->Send("w0", bytes);
  const std::vector<std::string> heard = at_b_.Messages(kMessages);
  ASSERT_EQ(heard.size(), kMessages);
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(heard[static_cast<size_t>(i)], "w0: " + std::to_string(i));
  }
  EXPECT_THAT(at_a_.Messages(1), ElementsAre("w1: " + bytes));
}

TEST_F(PeerControlTest, AChannelThatEndsIsHeardAfterItsLastMessage) {
  auto a = Channel(&a_, &at_a_);
  const auto b = Channel(&b_, &at_b_);
  for (int i = 0; i < 100; ++i) a->Send("w1", "x");
  a->Send("w1", "bye");
  a.reset();
  ASSERT_EQ(at_b_.Lost(1).size(), 1u);
  EXPECT_EQ(at_b_.Messages(101).back(), "w0: bye");
}

TEST_F(PeerControlTest, APeerThatDiesIsLost) {
  const auto a = Channel(&a_, &at_a_);
  const auto b = Channel(&b_, &at_b_);
  a->Send("w1", "x");
  ASSERT_EQ(at_b_.Messages(1).size(), 1u);
  b_.Die();
  EXPECT_THAT(at_a_.Lost(1)[0], HasSubstr("w1: worker w1"));
}

TEST_F(PeerControlTest, AnotherEpochIsRefusedAndLost) {
  const auto a = Channel(&a_, &at_a_, /*epoch=*/7);
  const auto b = Channel(&b_, &at_b_, /*epoch=*/8);
  a->Send("w1", "x");
  EXPECT_THAT(at_a_.Lost(1)[0], HasSubstr("later epoch than 7"));
  EXPECT_EQ(at_b_.Messages(0).size(), 0u);
}

TEST_F(PeerControlTest, APlacementThatIsNotThereIsLost) {
  const auto a = Channel(&a_, &at_a_);
  a->Send("w1", "x");
  EXPECT_THAT(at_a_.Lost(1)[0], HasSubstr("has no control channel here"));
}

TEST_F(PeerControlTest, AnotherProcessAtTheAddressIsLost) {
  b_.address.incarnation = Incarnation(999);
  const auto a = Channel(&a_, &at_a_);
  const auto b = Channel(&b_, &at_b_);
  a->Send("w1", "x");
  EXPECT_THAT(at_a_.Lost(1)[0], HasSubstr("another process"));
}

TEST_F(PeerControlTest, AStrangerIsLostAtOnce) {
  const auto a = Channel(&a_, &at_a_);
  a->Send("w9", "x");
  EXPECT_THAT(at_a_.Lost(1)[0], HasSubstr("w9 has no part in this job"));
}

}  // namespace
}  // namespace stagecoach::worker

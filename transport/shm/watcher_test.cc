#include "transport/shm/watcher.h"

#include <sys/socket.h>

#include <memory>
#include <string>

#include "base/notification.h"
#include "gtest/gtest.h"
#include "transport/shm/socket.h"

namespace stagecoach::transport::shm {
namespace {

struct SocketPair {
  SocketPair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    ours = std::make_shared<Socket>(UniqueFd(fds[0]));
    theirs = std::make_shared<Socket>(UniqueFd(fds[1]));
  }
  std::shared_ptr<Socket> ours;
  std::shared_ptr<Socket> theirs;
};

TEST(WatcherTest, CallsWhenAPacketComesAndWhenThePeerLeaves) {
  const auto watcher = Watcher::Start().value();
  SocketPair pair;
  Notification packet;
  Notification end;
  watcher->Watch(pair.ours, [&, socket = pair.ours] {
    const Packet got = socket->Receive().value();
    got.end ? end.Notify() : packet.Notify();
    return !got.end;
  });
  ASSERT_TRUE(pair.theirs->Send("x").ok());
  packet.WaitForNotification();
  pair.theirs.reset();
  end.WaitForNotification();
}

// The other side sees the end once nobody holds the dropped socket.
TEST(WatcherTest, ADroppedSocketIsClosed) {
  const auto watcher = Watcher::Start().value();
  SocketPair pair;
  watcher->Watch(std::move(pair.ours), [] { return false; });
  ASSERT_TRUE(pair.theirs->Send("x").ok());
  const auto packet = pair.theirs->Receive(absl::Seconds(60));
  // The packet was never read, which the kernel may report as a reset.
  EXPECT_TRUE(absl::IsAborted(packet.status()) || (packet.ok() && packet->end));
}

TEST(WatcherTest, ADeadlinePassedDropsTheSocket) {
  const auto watcher = Watcher::Start().value();
  SocketPair pair;
  watcher->Watch(
      std::move(pair.ours), [] { return true; },
      Watcher::Clock::now() + std::chrono::milliseconds(5));
  const auto packet = pair.theirs->Receive(absl::Seconds(60));
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_TRUE(packet->end);
}

TEST(WatcherTest, AHandlerMayPutAnotherInItsPlace) {
  const auto watcher = Watcher::Start().value();
  SocketPair pair;
  Notification second;
  Socket* const socket = pair.ours.get();
  watcher->Watch(pair.ours, [&] {
    EXPECT_EQ(socket->Receive().value().bytes, "first");
    watcher->Watch(pair.ours, [&] {
      EXPECT_EQ(socket->Receive().value().bytes, "second");
      second.Notify();
      return false;
    });
    return true;
  });
  ASSERT_TRUE(pair.theirs->Send("first").ok());
  ASSERT_TRUE(pair.theirs->Send("second").ok());
  second.WaitForNotification();
}

TEST(WatcherTest, StopDropsEverything) {
  const auto watcher = Watcher::Start().value();
  SocketPair pair;
  watcher->Watch(std::move(pair.ours), [] { return true; });
  watcher->Stop();
  watcher->Stop();
  const auto packet = pair.theirs->Receive(absl::Seconds(60));
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_TRUE(packet->end);
}

}  // namespace
}  // namespace stagecoach::transport::shm

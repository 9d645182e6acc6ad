#include "transport/doorbell.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport {
namespace {

std::unique_ptr<Doorbell> NewBell() { return Doorbell::Create().value(); }

// A second mapping, as another process has it.
std::unique_ptr<Doorbell> Share(Doorbell& bell) {
  return Doorbell::FromFd(fcntl(bell.fd(), F_DUPFD_CLOEXEC, 0)).value();
}

TEST(DoorbellTest, CountsEachRing) {
  const auto bell = NewBell();
  EXPECT_EQ(bell->Count(), 0u);
  bell->Ring();
  bell->Ring();
  EXPECT_EQ(bell->Count(), 2u);
}

TEST(DoorbellTest, RingsThroughEveryMapping) {
  const auto bell = NewBell();
  const auto peer = Share(*bell);
  peer->Ring();
  EXPECT_EQ(bell->Count(), 1u);
}

TEST(DoorbellTest, DoesNotSleepIfRungSince) {
  const auto bell = NewBell();
  const uint32_t seen = bell->Count();
  bell->Ring();
  bell->Wait(seen, absl::InfiniteDuration());  // or the test hangs
}

struct Pipe {
  Pipe() { EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  void Write() { EXPECT_EQ(write(ends[1], "x", 1), 1); }
  int ends[2];
};

void AwaitWatcher(const Doorbell& bell) {
  while (!bell.SourcesAreWatched()) std::this_thread::yield();
}

TEST(DoorbellTest, ASourceWakesASleeper) {
  const auto bell = NewBell();
  Pipe pipe;
  std::atomic<int> unwatched{0};
  bell->AddSource(pipe.ends[0], [&] { ++unwatched; });
  const uint32_t seen = bell->Count();
  std::thread sleeper([&] { bell->Wait(seen, absl::InfiniteDuration()); });
  AwaitWatcher(*bell);
  pipe.Write();
  sleeper.join();
  EXPECT_EQ(bell->Count(), seen);
  EXPECT_EQ(unwatched, 1);
  EXPECT_FALSE(bell->SourcesAreWatched());
}

TEST(DoorbellTest, ARingWakesEverySleeperOnSources) {
  const auto bell = NewBell();
  Pipe pipe;
  bell->AddSource(pipe.ends[0], [] {});
  for (int round = 0; round < 200; ++round) {
    const uint32_t seen = bell->Count();
    std::thread one([&] { bell->Wait(seen, absl::InfiniteDuration()); });
    std::thread two([&] { bell->Wait(seen, absl::InfiniteDuration()); });
    bell->Ring();
    one.join();
    two.join();
  }
}

TEST(DoorbellTest, ABellThatGetsSharedWakesItsSleepersAndSleepsOnTheFutex) {
  const auto bell = NewBell();
  Pipe pipe;
  bell->AddSource(pipe.ends[0], [] {});
  const uint32_t seen = bell->Count();
  std::thread sleeper([&] {
    while (bell->Count() == seen) bell->Wait(seen, absl::InfiniteDuration());
  });
  AwaitWatcher(*bell);
  const auto peer = Share(*bell);
  peer->Ring();
  sleeper.join();
  pipe.Write();
  bell->Wait(bell->Count(), absl::Milliseconds(1));
  EXPECT_FALSE(bell->SourcesAreWatched());
}

TEST(DoorbellTest, ARemovedSourceIsNotLookedAt) {
  const auto bell = NewBell();
  Pipe pipe;
  bell->AddSource(pipe.ends[0], [] {});
  bell->RemoveSource(pipe.ends[0]);
  pipe.Write();
  const absl::Time start = absl::Now();
  bell->Wait(bell->Count(), absl::Milliseconds(20));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(19));
}

TEST(DoorbellTest, SleepsUntilTheTimeout) {
  const auto bell = NewBell();
  const absl::Time start = absl::Now();
  bell->Wait(bell->Count(), absl::Milliseconds(20));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(19));
  bell->Wait(bell->Count(), absl::ZeroDuration());
  bell->Wait(bell->Count(), absl::Seconds(-1));
}

TEST(DoorbellTest, ARingThroughAnotherMappingWakesEverySleeper) {
  const auto bell = NewBell();
  const auto peer = Share(*bell);
  const uint32_t seen = bell->Count();
  std::thread first([&] { bell->Wait(seen, absl::InfiniteDuration()); });
  std::thread second([&] { bell->Wait(seen, absl::InfiniteDuration()); });
  peer->Ring();
  first.join();
  second.join();
}

// Two threads hand a turn to and fro; one lost ring and both sleep for ever.
TEST(DoorbellTest, NoRingIsLostBetweenLookingAndSleeping) {
  constexpr int kTurns = 20000;
  const auto bell = NewBell();
  const auto peer = Share(*bell);
  std::atomic<int> turn{0};
  const auto play = [&turn](Doorbell* own, int parity) {
    while (true) {
      const uint32_t seen = own->Count();
      const int now = turn.load();
      if (now >= kTurns) return;
      if (now % 2 == parity) {
        turn.store(now + 1);
        own->Ring();
      } else {
        own->Wait(seen, absl::InfiniteDuration());
      }
    }
  };
  std::thread even([&] { play(bell.get(), 0); });
  std::thread odd([&] { play(peer.get(), 1); });
  even.join();
  odd.join();
  EXPECT_EQ(turn.load(), kTurns);
}

// From now on a futex call of this thread kills the process.
bool ForbidFutex() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(DoorbellTest, RingingMakesNoSystemCallIfNobodySleeps) {
  const auto bell = NewBell();
  EXPECT_EXIT(
      {
        if (!ForbidFutex()) syscall(SYS_exit_group, 2);
        for (int i = 0; i < 1000; ++i) bell->Ring();
        syscall(SYS_exit_group, 7);
      },
      ::testing::ExitedWithCode(7), "");
  EXPECT_EQ(bell->Count(), 1000u);
}

// The other half of the test above: the filter does bite.
TEST(DoorbellTest, WaitingIsASystemCall) {
  const auto bell = NewBell();
  EXPECT_EXIT(
      {
        if (!ForbidFutex()) syscall(SYS_exit_group, 2);
        bell->Wait(bell->Count(), absl::Milliseconds(1));
        syscall(SYS_exit_group, 7);
      },
      ::testing::KilledBySignal(SIGSYS), "");
}

TEST(DoorbellTest, RefusesAPeersDescriptorThatIsNoBell) {
  EXPECT_FALSE(Doorbell::FromFd(-1).ok());
  EXPECT_FALSE(Doorbell::FromFd(open("/dev/null", O_RDWR | O_CLOEXEC)).ok());
  // It could be cut short under us, which would kill this process.
  const int unsealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(unsealed, 4096), 0);
  EXPECT_FALSE(Doorbell::FromFd(unsealed).ok());
  const int large = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(large, 8192), 0);
  ASSERT_EQ(fcntl(large, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_FALSE(Doorbell::FromFd(large).ok());
}

}  // namespace
}  // namespace stagecoach::transport

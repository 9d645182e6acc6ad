#include "memory/device_account.h"

#include "gtest/gtest.h"

namespace stagecoach::memory {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A device whose driver says what the test wants.
class DeviceAccountTest : public ::testing::Test {
 protected:
  void Tell(DeviceEvent::Kind kind, uint64_t address, int64_t bytes) {
    DeviceEvent event;
    event.kind = kind;
    event.address = address;
    event.bytes = bytes;
    account_.tracker()->OnEvent(event, Tag());
    if (kind == DeviceEvent::Kind::kSegmentAllocate) used_ += bytes;
    if (kind == DeviceEvent::Kind::kSegmentFree) used_ -= bytes;
  }

  int64_t used_ = 300 * kMiB;
  DeviceAccount account_{
      {[this] { return used_; },
       [this] { Tell(DeviceEvent::Kind::kSegmentFree, 4096, 20 * kMiB); }}};
};

TEST_F(DeviceAccountTest, EveryUsedByteHasAPlace) {
  account_.AroundCommunicators([this] {
    // A buffer of torch's, and what the communicator takes by itself.
    Tell(DeviceEvent::Kind::kSegmentAllocate, 4096, 20 * kMiB);
    used_ += 50 * kMiB;
  });
  used_ += 7 * kMiB;  // another process
  const DeviceMemory memory = account_.Figures().memory;
  EXPECT_EQ(memory.context, 300 * kMiB);
  EXPECT_EQ(memory.communicator, 50 * kMiB);
  EXPECT_EQ(memory.reserved, 20 * kMiB);
  EXPECT_EQ(memory.other(), 7 * kMiB);
  EXPECT_EQ(memory.used, memory.reserved + memory.communicator +
                             memory.context + memory.other());
  account_.AroundCommunicators([this] { used_ -= 50 * kMiB; });
  EXPECT_EQ(account_.Figures().memory.communicator, 0);
}

TEST_F(DeviceAccountTest, GivesBackWhatTheAllocatorKeeps) {
  Tell(DeviceEvent::Kind::kSegmentAllocate, 4096, 20 * kMiB);
  Tell(DeviceEvent::Kind::kAllocate, 4096, kMiB);
  EXPECT_EQ(account_.Figures().blocks.requested_bytes.current, kMiB);
  Tell(DeviceEvent::Kind::kFreeRequested, 4096, kMiB);
  Tell(DeviceEvent::Kind::kFreeCompleted, 4096, kMiB);
  EXPECT_EQ(account_.Figures().blocks.reserved_bytes.current, 20 * kMiB);
  EXPECT_EQ(account_.Trim(), 20 * kMiB);
  EXPECT_EQ(account_.Figures().memory.reserved, 0);
  EXPECT_EQ(account_.Figures().blocks.requested_bytes.peak, kMiB);
  account_.ResetPeaks();
  EXPECT_EQ(account_.Figures().blocks.requested_bytes.peak, 0);
}

}  // namespace
}  // namespace stagecoach::memory

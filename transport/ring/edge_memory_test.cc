#include "transport/ring/edge_memory.h"

#include <fcntl.h>

#include <cstring>

#include "gtest/gtest.h"

namespace stagecoach::transport::ring {
namespace {

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

TEST(EdgeMemoryTest, TheSenderSeesTheReceiversSlots) {
  const auto receiver = EdgeMemory::Create(5, 1000).value();
  const auto sender = EdgeMemory::Open(Duplicate(receiver->fd())).value();
  EXPECT_EQ(sender->slots(), 5);
  EXPECT_EQ(sender->slot_bytes(), 1000u);
  EXPECT_EQ(sender->arena_bytes(), 5u * 1024);
  for (uint32_t slot = 0; slot < 5; ++slot) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(sender->slot(slot)) % 64, 0u);
    std::memset(sender->slot(slot), static_cast<int>(slot) + 1, 1000);
  }
  for (uint32_t slot = 0; slot < 5; ++slot) {
    EXPECT_EQ(receiver->slot(slot)[0], static_cast<char>(slot + 1));
    EXPECT_EQ(receiver->slot(slot)[999], static_cast<char>(slot + 1));
  }
}

TEST(EdgeMemoryTest, RingsAndSlotsDoNotOverlap) {
  for (const int slots : {1, 2, 3, 31, 32, 33, 100}) {
    const auto memory = EdgeMemory::Create(slots, 64).value();
    auto notices = memory->notice_producer();
    auto control = memory->control_producer();
    PayloadNotice notice;
    std::memset(&notice, 0xAB, sizeof(notice));
    int pushed = 0;
    while (notices.TryPush(notice) == RingResult::kDone) ++pushed;
    EXPECT_GE(pushed, slots);
    ControlMessage message;
    std::memset(&message, 0xCD, sizeof(message));
    pushed = 0;
    while (control.TryPush(message) == RingResult::kDone) ++pushed;
    EXPECT_GE(pushed, slots);
    std::memset(memory->slot(0), 0xEF, memory->arena_bytes());
    auto consumer = memory->notice_consumer();
    PayloadNotice popped;
    int intact = 0;
    while (consumer.TryPop(&popped) == RingResult::kDone) {
      if (std::memcmp(&popped, &notice, sizeof(notice)) == 0) ++intact;
    }
    EXPECT_GE(intact, slots);
  }
}

TEST(EdgeMemoryTest, RefusesMemoryThatHoldsNoEdge) {
  EXPECT_FALSE(EdgeMemory::Open(UniqueFd()).ok());
  const auto small = SharedMemory::Create("test", 8).value();
  EXPECT_TRUE(
      absl::IsDataLoss(EdgeMemory::Open(Duplicate(small->fd())).status()));
  const auto zeroes = SharedMemory::Create("test", 1 << 16).value();
  EXPECT_TRUE(
      absl::IsDataLoss(EdgeMemory::Open(Duplicate(zeroes->fd())).status()));
}

// Magic, version, slots, slot size: each byte of the header matters.
TEST(EdgeMemoryTest, RefusesACorruptedHeader) {
  for (size_t byte = 0; byte < 24; ++byte) {
    const auto receiver = EdgeMemory::Create(5, 1024).value();
    const auto raw = SharedMemory::FromFd(Duplicate(receiver->fd())).value();
    raw->data()[byte] = static_cast<char>(raw->data()[byte] ^ 0x80);
    EXPECT_TRUE(
        absl::IsDataLoss(EdgeMemory::Open(Duplicate(receiver->fd())).status()))
        << byte;
  }
}

}  // namespace
}  // namespace stagecoach::transport::ring

#include "stage_worker/engine/torch/device_observer.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stagecoach::worker {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::TraceEntry;
using Kind = memory::DeviceEvent::Kind;

TraceEntry Entry(TraceEntry::Action action, size_t address, size_t bytes) {
  return TraceEntry(action, /*device=*/0, address, bytes, /*stream=*/nullptr,
                    /*mempool=*/{0, 0}, /*time=*/0);
}

TEST(DeviceObserverTest, EveryActionIsAnEvent) {
  const std::vector<std::pair<TraceEntry::Action, Kind>> pairs = {
      {TraceEntry::ALLOC, Kind::kAllocate},
      {TraceEntry::FREE_REQUESTED, Kind::kFreeRequested},
      {TraceEntry::FREE_COMPLETED, Kind::kFreeCompleted},
      {TraceEntry::SEGMENT_ALLOC, Kind::kSegmentAllocate},
      {TraceEntry::SEGMENT_FREE, Kind::kSegmentFree},
      {TraceEntry::SEGMENT_MAP, Kind::kSegmentMap},
      {TraceEntry::SEGMENT_UNMAP, Kind::kSegmentUnmap},
      {TraceEntry::OOM, Kind::kOutOfMemory},
      {TraceEntry::SNAPSHOT, Kind::kSnapshot}};
  for (const auto& [action, kind] : pairs) {
    const memory::DeviceEvent event = EventOf(Entry(action, 4096, 512));
    EXPECT_EQ(event.kind, kind);
    EXPECT_EQ(event.address, 4096u);
    EXPECT_EQ(event.bytes, 512);
  }
}

// The tracker behind torch's trace and torch's own counters say the same.
TEST(DeviceObserverTest, TheTrackerAgreesWithTorchsCounters) {
  memory::DeviceTracker tracker;
  DeviceStats stats;
  const auto all =
      static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto tell = [&](TraceEntry::Action action, size_t address,
                        size_t bytes) {
    tracker.OnEvent(EventOf(Entry(action, address, bytes)));
  };
  tell(TraceEntry::SEGMENT_ALLOC, 4096, 2 << 20);
  stats.reserved_bytes[all].increase(2 << 20);
  tell(TraceEntry::ALLOC, 4096, 1000);
  tell(TraceEntry::ALLOC, 8192, 24);
  stats.requested_bytes[all].increase(1024);
  tell(TraceEntry::FREE_REQUESTED, 4096, 1000);
  stats.requested_bytes[all].decrease(1000);
  stats.num_ooms = 0;
  const DeviceCounters counters = CountersOf(stats);
  EXPECT_EQ(tracker.Stats().requested_bytes.current, counters.requested_bytes);
  EXPECT_EQ(tracker.Stats().reserved_bytes.current, counters.reserved_bytes);
  EXPECT_EQ(tracker.Stats().out_of_memory, counters.out_of_memory);
  EXPECT_EQ(counters.requested_bytes, 24);
}

}  // namespace
}  // namespace stagecoach::worker

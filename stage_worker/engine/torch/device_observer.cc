#include "stage_worker/engine/torch/device_observer.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace stagecoach::worker {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::TraceEntry;
using Kind = memory::DeviceEvent::Kind;

Kind KindOf(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return Kind::kAllocate;
    case TraceEntry::FREE_REQUESTED:
      return Kind::kFreeRequested;
    case TraceEntry::FREE_COMPLETED:
      return Kind::kFreeCompleted;
    case TraceEntry::SEGMENT_ALLOC:
      return Kind::kSegmentAllocate;
    case TraceEntry::SEGMENT_FREE:
      return Kind::kSegmentFree;
    case TraceEntry::SEGMENT_MAP:
      return Kind::kSegmentMap;
    case TraceEntry::SEGMENT_UNMAP:
      return Kind::kSegmentUnmap;
    case TraceEntry::OOM:
      return Kind::kOutOfMemory;
    case TraceEntry::SNAPSHOT:
      break;
  }
  return Kind::kSnapshot;
}

// Of all pools together.
int64_t CurrentOf(const c10::CachingAllocator::StatArray& figures) {
  constexpr auto kAll =
      static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return figures[kAll].current;
}

}  // namespace

memory::DeviceEvent EventOf(const TraceEntry& entry) {
  memory::DeviceEvent event;
  event.kind = KindOf(entry.action_);
  event.address = entry.addr_;
  event.bytes = static_cast<int64_t>(entry.size_);
  return event;
}

DeviceCounters CountersOf(const DeviceStats& stats) {
  DeviceCounters counters;
  counters.requested_bytes = CurrentOf(stats.requested_bytes);
  counters.reserved_bytes = CurrentOf(stats.reserved_bytes);
  counters.out_of_memory = stats.num_ooms;
  return counters;
}

}  // namespace stagecoach::worker

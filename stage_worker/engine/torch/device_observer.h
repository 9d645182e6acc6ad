#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_OBSERVER_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_OBSERVER_H_

#include <cstdint>

#include "memory/device_tracker.h"

namespace c10::CachingDeviceAllocator {
struct DeviceStats;
struct TraceEntry;
}  // namespace c10::CachingDeviceAllocator

namespace stagecoach::worker {

// An entry of torch's trace of its caching allocator.
memory::DeviceEvent EventOf(
    const c10::CachingDeviceAllocator::TraceEntry& entry);

// Torch's own figures, which the tracker's must be: what differs at a moment at
// which nothing is allocated on other threads is a block that was there before
// the tracker was attached.
struct DeviceCounters {
  int64_t requested_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t out_of_memory = 0;
};
DeviceCounters CountersOf(
    const c10::CachingDeviceAllocator::DeviceStats& stats);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_OBSERVER_H_

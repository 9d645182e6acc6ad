#ifndef STAGECOACH_MEMORY_DEVICE_TRACKER_H_
#define STAGECOACH_MEMORY_DEVICE_TRACKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "memory/category.h"
#include "memory/gauge.h"

namespace stagecoach::memory {

// What a caching allocator that is not ours (torch's, on CUDA) did, as its
// trace hook tells it.
struct DeviceEvent {
  enum class Kind {
    kAllocate,
    // The owner is done; another stream may still use the block.
    kFreeRequested,
    kFreeCompleted,
    kSegmentAllocate,  // from the driver
    kSegmentFree,
    kSegmentMap,  // the same, of segments that grow
    kSegmentUnmap,
    kOutOfMemory,
    kSnapshot,
  };
  Kind kind = Kind::kSnapshot;
  uint64_t address = 0;
  int64_t bytes = 0;
};

// False, and `*kind` untouched, for a word that is none of those with which
// PyTorch writes them in memory snapshots ("alloc", "free_requested", ...).
bool ParseDeviceEventKind(absl::string_view word, DeviceEvent::Kind* kind);

struct DeviceTrackerStats {
  // What callers asked for: PyTorch's requested_bytes. The categories add up to
  // `requested_bytes.current`.
  Gauge requested_bytes;
  // That, and blocks whose free waits for another stream.
  Gauge active_bytes;
  Gauge reserved_bytes;
  std::array<Gauge, kCategories> categories;
  std::map<StageIndex, int64_t> stage_activation_bytes;
  int64_t out_of_memory = 0;
  // Frees of blocks that were not seen to be allocated: from before the
  // tracker was attached. They change nothing.
  int64_t unknown_frees = 0;
};

// Accounts a device's blocks under the tag of the thread that asks for them, as
// AccountingAllocator does for its own: that allocator is observed, not
// replaced. Thread-safe; its lock is a leaf, so that it may be taken under the
// allocator's own.
class DeviceTracker {
 public:
  // With the calling thread's tag.
  void OnEvent(const DeviceEvent& event) { OnEvent(event, CurrentTag()); }
  void OnEvent(const DeviceEvent& event, const Tag& tag) SC_EXCLUDES(mu_);

  DeviceTrackerStats Stats() const SC_EXCLUDES(mu_);
  void ResetPeaks() SC_EXCLUDES(mu_);

 private:
  struct Block {
    Tag tag;
    int64_t bytes = 0;
    bool freeing = false;
  };

  void Allocate(const DeviceEvent& event, const Tag& tag) SC_REQUIRES(mu_);
  void RequestFree(const DeviceEvent& event) SC_REQUIRES(mu_);
  void CompleteFree(const DeviceEvent& event) SC_REQUIRES(mu_);
  void Forget(std::map<uint64_t, Block>::iterator block) SC_REQUIRES(mu_);
  void AddToCategory(const Tag& tag, int64_t bytes) SC_REQUIRES(mu_);
  void SubtractFromCategory(const Block& block) SC_REQUIRES(mu_);

  mutable Mutex mu_;
  DeviceTrackerStats stats_ SC_GUARDED_BY(mu_);
  std::map<uint64_t, Block> blocks_ SC_GUARDED_BY(mu_);  // by address
};

// Where a device's used bytes are: used = reserved + communicator + context +
// other.
struct DeviceMemory {
  int64_t used = 0;      // total - free, as the driver says
  int64_t reserved = 0;  // the caching allocator's segments
  int64_t communicator = 0;
  int64_t context = 0;
  // What remains: other processes on the device, and libraries that take
  // memory by themselves. Negative where a part was measured at another moment
  // than the whole.
  int64_t other() const { return used - reserved - communicator - context; }
};

// The parts that nobody reports, from differences of the driver's figure around
// the moment in which they come up. Thread-compatible.
class DeviceMemoryMeter {
 public:
  // The device is open and nothing is allocated: what is used more than before
  // is the context's.
  void OnContext(int64_t used_before, int64_t used_after);
  // A communicator was made or ended, while the allocator's segments grew by
  // `reserved_growth`.
  void OnCommunicators(int64_t used_before, int64_t used_after,
                       int64_t reserved_growth);
  DeviceMemory Split(int64_t used, int64_t reserved) const;

 private:
  int64_t context_ = 0;
  int64_t communicator_ = 0;
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_DEVICE_TRACKER_H_

#ifndef STAGECOACH_MEMORY_DEVICE_ACCOUNT_H_
#define STAGECOACH_MEMORY_DEVICE_ACCOUNT_H_

#include <cstdint>
#include <functional>

#include "base/mutex.h"
#include "memory/device_tracker.h"

namespace stagecoach::memory {

struct DeviceFigures {
  DeviceTrackerStats blocks;
  DeviceMemory memory;
};

// A device's memory: the blocks of its caching allocator, which tells `tracker`
// of them, and what else uses it. Thread-safe.
class DeviceAccount {
 public:
  // What it asks. Thread-safe.
  struct Device {
    // Bytes that anybody uses, as the driver says.
    std::function<int64_t()> used;
    // Gives segments without a live block back to the driver.
    std::function<void()> trim;
  };

  // The device is open, and nothing is allocated on it: what is used now, the
  // context's, and what other processes have already, goes by the name of
  // context.
  explicit DeviceAccount(Device device);

  DeviceTracker* tracker() { return &tracker_; }
  DeviceFigures Figures() const SC_EXCLUDES(mu_);
  void ResetPeaks() { tracker_.ResetPeaks(); }
  // Returns the bytes that went back.
  int64_t Trim();
  // What `make` uses beside the allocator's segments is communicators': it
  // makes or ends some.
  void AroundCommunicators(const std::function<void()>& make) SC_EXCLUDES(mu_);

 private:
  int64_t reserved() const { return tracker_.Stats().reserved_bytes.current; }

  const Device device_;
  DeviceTracker tracker_;
  mutable Mutex mu_;
  DeviceMemoryMeter meter_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_DEVICE_ACCOUNT_H_

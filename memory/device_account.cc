#include "memory/device_account.h"

#include <utility>

namespace stagecoach::memory {

DeviceAccount::DeviceAccount(Device device) : device_(std::move(device)) {
  const int64_t used = device_.used();
  MutexLock lock(&mu_);
  meter_.OnContext(0, used);
}

DeviceFigures DeviceAccount::Figures() const {
  DeviceFigures figures;
  figures.blocks = tracker_.Stats();
  const int64_t used = device_.used();
  MutexLock lock(&mu_);
  figures.memory = meter_.Split(used, figures.blocks.reserved_bytes.current);
  return figures;
}

int64_t DeviceAccount::Trim() {
  const int64_t before = reserved();
  device_.trim();
  return before - reserved();
}

void DeviceAccount::AroundCommunicators(const std::function<void()>& make) {
  const int64_t used = device_.used();
  const int64_t segments = reserved();
  make();
  const int64_t now = device_.used();
  const int64_t growth = reserved() - segments;
  MutexLock lock(&mu_);
  meter_.OnCommunicators(used, now, growth);
}

}  // namespace stagecoach::memory

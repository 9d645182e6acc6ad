#include "stage_worker/engine/torch/device_hook.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "stage_worker/engine/torch/device_observer.h"

#if STAGECOACH_HAVE_CUDA_HEADERS
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace stagecoach::worker {

#if STAGECOACH_HAVE_CUDA_HEADERS
namespace {

using c10::CachingDeviceAllocator::TraceEntry;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;

// c10::cuda::CUDACachingAllocator::allocator. Looked up, not linked: the CUDA
// libraries are opened at run time. All calls through it are virtual.
CUDAAllocator* FindAllocator() {
  void* const symbol =
      dlsym(RTLD_DEFAULT, "_ZN3c104cuda20CUDACachingAllocator9allocatorE");
  if (symbol == nullptr) return nullptr;
  return static_cast<std::atomic<CUDAAllocator*>*>(symbol)->load();
}

}  // namespace

absl::StatusOr<std::unique_ptr<memory::DeviceAccount>> ObserveDevice(
    const at::Device& device) {
  CUDAAllocator* const allocator = FindAllocator();
  if (allocator == nullptr) {
    return absl::UnavailableError(
        "no libc10_cuda.so is loaded, or it has no caching allocator");
  }
  // The allocator has a part for each device from then on, to which the hook
  // goes.
  at::globalContext().lazyInitDevice(device.type());
  const c10::DeviceIndex index = device.index();
  memory::DeviceAccount::Device asked;
  asked.used = [allocator, index] {
    const auto [free, total] = allocator->getMemoryInfo(index);
    return static_cast<int64_t>(total - free);
  };
  asked.trim = [allocator] { allocator->emptyCache(); };
  auto account = std::make_unique<memory::DeviceAccount>(std::move(asked));
  allocator->attachAllocatorTraceTracker(
      [index, tracker = account->tracker()](const TraceEntry& entry) {
        if (entry.device_ == index) tracker->OnEvent(EventOf(entry));
      });
  return account;
}

#else

absl::StatusOr<std::unique_ptr<memory::DeviceAccount>> ObserveDevice(
    const at::Device&) {
  return absl::UnavailableError(
      "this build found no CUDA headers, so it cannot observe the device's "
      "memory");
}

#endif

}  // namespace stagecoach::worker

#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_HOOK_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_HOOK_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "absl/status/statusor.h"
#include "memory/device_account.h"

namespace stagecoach::worker {

// Attaches an account to torch's caching allocator of a CUDA device that
// LoadDevice has made usable, before anything is allocated on it. It must live
// as long as the process: a hook is never detached. kUnavailable where the
// build found no CUDA headers, or the loaded libraries lack the allocator.
// Throws torch's errors.
absl::StatusOr<std::unique_ptr<memory::DeviceAccount>> ObserveDevice(
    const at::Device& device);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_HOOK_H_

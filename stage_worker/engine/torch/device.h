#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_H_

#include <ATen/core/Tensor.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::worker {

// "cpu", "cuda" (= "cuda:0") or "cuda:N". kInvalidArgument for anything else.
absl::StatusOr<at::Device> ParseDevice(absl::string_view name);

// Makes the device usable. For CUDA: opens `cuda_library` (empty:
// libtorch_cuda.so beside libtorch_cpu.so). kUnavailable with the loader's
// words if that fails, or if there is no such GPU afterwards. Must come before
// anything else asks torch about accelerators: torch remembers its first
// answer.
absl::Status LoadDevice(const at::Device& device,
                        const std::string& cuda_library);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_DEVICE_H_

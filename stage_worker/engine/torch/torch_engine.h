#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_ENGINE_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_ENGINE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memory/device_account.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {

struct TorchOptions {
  // "cpu" or "cuda:N".
  std::string device = "cpu";
  // Path of libtorch_cuda.so where the device is CUDA; empty: beside
  // libtorch_cpu.so.
  std::string cuda_library;
  // Where memory.optimizer = "mapped" puts its files.
  std::string mapping_directory = "/var/tmp";
  // Makes the model of a stage; empty: NewStageModel.
  StageModelFactory model_factory;
};

// Once per process, before anything else of torch: installs the accounting
// allocator as torch's CPU allocator, loads the CUDA libraries if the device
// asks for them (kUnavailable with the loader's words where there is none or no
// GPU), and sets what must be the same everywhere for bit-equal results.
absl::Status InitTorch(const TorchOptions& options);

// The memory of the options' device, observed from now on: right after
// InitTorch, for the life of the process. Null for "cpu"; errors as
// ObserveDevice's.
absl::StatusOr<std::unique_ptr<memory::DeviceAccount>> ObserveTorchDevice(
    const TorchOptions& options);

// "2.11.0"; workers of one job must agree.
std::string TorchVersion();

// The engine on libtorch. `options` as given to InitTorch.
absl::StatusOr<std::unique_ptr<StageEngine>> NewTorchEngine(
    const TorchOptions& torch, const EngineOptions& options);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_TORCH_ENGINE_H_

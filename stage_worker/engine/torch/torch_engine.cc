#include "stage_worker/engine/torch/torch_engine.h"

#include <ATen/Context.h>
#include <malloc.h>
#include <torch/headeronly/version.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "stage_worker/engine/torch/cpu_allocator.h"
#include "stage_worker/engine/torch/device.h"
#include "stage_worker/engine/torch/device_hook.h"
#include "stage_worker/engine/torch/torch_stage_engine.h"
#include "stage_worker/engine/torch/torch_status.h"
#include "stage_worker/kernels/choice.h"

namespace stagecoach::worker {
namespace {

// Freed memory stays in the process, for the next microbatch: the kernel clears
// every page that it gives anew, thousands in a step.
void KeepFreedMemory() {
  constexpr int kLargest = 32 << 20;  // that glibc takes
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, 2000 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
  // The others give back what lies at their end whatever is set above.
  mallopt(M_ARENA_MAX, 1);
}

absl::Status CheckSupported(const job::TrainingSpec& training,
                            const at::Device& device) {
  if (!device.is_cpu()) {
    return absl::UnimplementedError(
        absl::StrCat("training on device ", device.str(),
                     " is not supported yet; try device cpu"));
  }
  if (training.threads < 1) {
    return absl::InvalidArgumentError("training.threads must be at least 1");
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const EngineOptions& options) {
  for (const StageAssignment& stage : options.stages) {
    const bool reads =
        stage.first || stage.last || options.spec.data.isolated();
    if (reads && options.data == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", stage.stage.value(), " needs a data source"));
    }
  }
  return absl::OkStatus();
}

// What must not differ between workers of one job.
void MakeDeterministic() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // It would fill every at::empty with NaN, at a price.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace

absl::Status InitTorch(const TorchOptions& options) {
  SC_ASSIGN_OR_RETURN(const at::Device device, ParseDevice(options.device));
  return CatchTorch("starting torch", [&]() -> absl::Status {
    InstallCpuAllocator();
    KeepFreedMemory();
    SC_RETURN_IF_ERROR(LoadDevice(device, options.cuda_library));
    MakeDeterministic();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<memory::DeviceAccount>> ObserveTorchDevice(
    const TorchOptions& options) {
  SC_ASSIGN_OR_RETURN(const at::Device device, ParseDevice(options.device));
  std::unique_ptr<memory::DeviceAccount> account;
  if (device.is_cpu()) return account;
  SC_RETURN_IF_ERROR(CatchTorch("observing the device", [&]() -> absl::Status {
    SC_ASSIGN_OR_RETURN(account, ObserveDevice(device));
    return absl::OkStatus();
  }));
  return account;
}

std::string TorchVersion() { return TORCH_VERSION; }

absl::StatusOr<std::unique_ptr<StageEngine>> NewTorchEngine(
    const TorchOptions& torch, const EngineOptions& options) {
  if (!CpuAllocatorInstalled()) {
    return absl::FailedPreconditionError(
        "InitTorch must come before the first engine");
  }
  SC_ASSIGN_OR_RETURN(const at::Device device, ParseDevice(torch.device));
  SC_RETURN_IF_ERROR(CheckSupported(options.spec.training, device));
  SC_RETURN_IF_ERROR(CheckOptions(options));
  EngineOptions chosen = options;
  chosen.spec.training.kernels =
      kernels::Resolve(options.spec.training.kernels, device.is_cpu());
  auto engine = std::make_unique<TorchEngine>(chosen, device);
  SC_RETURN_IF_ERROR(engine->Build(
      chosen, torch.model_factory ? torch.model_factory : NewStageModel,
      torch.mapping_directory));
  return engine;
}

}  // namespace stagecoach::worker

#include "stage_worker/engine/torch/device.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace stagecoach::worker {
namespace {

constexpr char kRemedy[] =
    "try device cpu, or run scripts/setup.sh on a machine with a GPU";

// libc10.so lies beside its sisters. The loader's own search would need
// LD_LIBRARY_PATH.
std::string BesideTorch(absl::string_view name) {
  Dl_info info = {};
  const void* const symbol =
      reinterpret_cast<const void*>(&c10::GetCPUAllocator);
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) {
    return std::string(name);
  }
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  if (slash == std::string::npos) return std::string(name);
  return absl::StrCat(library.substr(0, slash + 1), name);
}

absl::Status OpenCuda(const std::string& library) {
  // Global: torch finds its CUDA kernels by the symbols that appear. Never
  // closed: they register themselves with torch.
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) {
    return absl::OkStatus();
  }
  const char* const error = dlerror();
  return absl::UnavailableError(
      absl::StrCat("cannot load ", library, ": ",
                   error == nullptr ? "unknown error" : error, "; ", kRemedy));
}

absl::Status CheckPresent(const at::Device& device) {
  const int present = at::accelerator::getAccelerator() == device.type()
                          ? at::accelerator::deviceCount()
                          : 0;
  if (device.index() < present) return absl::OkStatus();
  if (present > 0) {
    return absl::UnavailableError(
        absl::StrCat("this machine has ", present,
                     " CUDA GPUs; try device cuda:", present - 1));
  }
  return absl::UnavailableError(absl::StrCat(
      "the CUDA libraries are loaded, but there is no usable GPU (no NVIDIA "
      "driver, or none that fits); ",
      kRemedy));
}

}  // namespace

absl::StatusOr<at::Device> ParseDevice(absl::string_view name) {
  if (name == "cpu") return at::Device(at::kCPU);
  absl::string_view index = name;
  if (absl::ConsumePrefix(&index, "cuda")) {
    if (index.empty()) return at::Device(at::kCUDA, 0);
    int number = 0;
    if (absl::ConsumePrefix(&index, ":") && absl::SimpleAtoi(index, &number) &&
        number >= 0 && number < 128) {
      return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(number));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device \"", name, "\" is unknown; try \"cpu\" or \"cuda:0\""));
}

absl::Status LoadDevice(const at::Device& device,
                        const std::string& cuda_library) {
  if (device.is_cpu()) return absl::OkStatus();
  const std::string place = absl::StrCat("device ", device.str());
  SC_RETURN_IF_ERROR(
      Annotate(OpenCuda(cuda_library.empty() ? BesideTorch("libtorch_cuda.so")
                                             : cuda_library),
               place));
  return Annotate(CheckPresent(device), place);
}

}  // namespace stagecoach::worker

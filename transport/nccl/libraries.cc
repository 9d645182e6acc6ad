#include "transport/nccl/libraries.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/nccl/version.h"

namespace stagecoach::transport::nccl {
namespace {

class OpenedLibrary {
 public:
  // `flag`: the worker's, for the message.
  static absl::StatusOr<OpenedLibrary> Open(const std::string& path,
                                            absl::string_view flag) {
    // Local: its names must not shadow, nor be shadowed by, those of others.
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return OpenedLibrary(handle, path);
    return absl::FailedPreconditionError(
        absl::StrCat("nccl: cannot open ", path, ": ", dlerror(),
                     "; install it, or name it with ", flag));
  }

  template <typename Function>
  absl::Status Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (*function != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("nccl: ", path_, " has no function ", name,
                     ", so it is too old or another library"));
  }

 private:
  OpenedLibrary(void* handle, std::string path)
      : handle_(handle), path_(std::move(path)) {}
  void* handle_;
  std::string path_;
};

absl::StatusCode CodeOf(ncclResult_t result) {
  switch (result) {
    case ncclSystemError:
    case ncclRemoteError:
      return absl::StatusCode::kUnavailable;
    case ncclInvalidUsage:
    case ncclInvalidArgument:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Libraries>> Libraries::Open(
    const std::string& nccl_library, const std::string& cuda_runtime_library) {
  auto libraries = std::make_shared<Libraries>();
  SC_ASSIGN_OR_RETURN(
      const OpenedLibrary cuda,
      OpenedLibrary::Open(cuda_runtime_library, "--cuda-runtime-library"));
  SC_ASSIGN_OR_RETURN(const OpenedLibrary nccl,
                      OpenedLibrary::Open(nccl_library, "--nccl-library"));
#define SC_FIND_CUDA(name) \
  SC_RETURN_IF_ERROR(cuda.Find(#name, &libraries->cuda.name));
#define SC_FIND_NCCL(name) \
  SC_RETURN_IF_ERROR(nccl.Find(#name, &libraries->nccl.name));
  SC_CUDA_FUNCTIONS(SC_FIND_CUDA)
  SC_FIND_CUDA(cudaMalloc)
  SC_NCCL_FUNCTIONS(SC_FIND_NCCL)
#undef SC_FIND_CUDA
#undef SC_FIND_NCCL
  SC_RETURN_IF_ERROR(
      libraries->Check(libraries->nccl.ncclGetVersion(&libraries->nccl_version),
                       "ncclGetVersion"));
  SC_RETURN_IF_ERROR(Annotate(CheckNcclVersion(libraries->nccl_version),
                              absl::StrCat("nccl: ", nccl_library)));
  return std::shared_ptr<const Libraries>(std::move(libraries));
}

absl::Status Libraries::Check(ncclResult_t result, absl::string_view call,
                              ncclComm_t communicator) const {
  if (result == ncclSuccess) return absl::OkStatus();
  const char* const detail = nccl.ncclGetLastError(communicator);
  return absl::Status(
      CodeOf(result),
      absl::StrCat(call, " failed: ", nccl.ncclGetErrorString(result),
                   detail == nullptr || *detail == '\0' ? "" : " - ",
                   detail == nullptr ? "" : detail,
                   "; NCCL_DEBUG=WARN in the worker's environment says more"));
}

absl::Status Libraries::Check(cudaError_t result,
                              absl::string_view call) const {
  if (result == cudaSuccess) return absl::OkStatus();
  const bool memory = result == cudaErrorMemoryAllocation;
  return absl::Status(
      memory ? absl::StatusCode::kResourceExhausted
             : absl::StatusCode::kInternal,
      absl::StrCat(call, " failed: ", cuda.cudaGetErrorName(result), ": ",
                   cuda.cudaGetErrorString(result),
                   memory ? "; try fewer microbatches in flight or a smaller "
                            "training.microbatch_size"
                          : ""));
}

}  // namespace stagecoach::transport::nccl

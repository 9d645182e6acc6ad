#ifndef STAGECOACH_TRANSPORT_NCCL_LIBRARIES_H_
#define STAGECOACH_TRANSPORT_NCCL_LIBRARIES_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::transport::nccl {

// Everything that is called in libnccl.
#define SC_NCCL_FUNCTIONS(X) \
  X(ncclGetVersion)          \
  X(ncclGetErrorString)      \
  X(ncclGetLastError)        \
  X(ncclGetUniqueId)         \
  X(ncclCommInitRankConfig)  \
  X(ncclCommGetAsyncError)   \
  X(ncclCommFinalize)        \
  X(ncclCommDestroy)         \
  X(ncclCommAbort)           \
  X(ncclCommRegister)        \
  X(ncclCommDeregister)      \
  X(ncclGroupStart)          \
  X(ncclGroupEnd)            \
  X(ncclSend)                \
  X(ncclRecv)                \
  X(ncclMemAlloc)            \
  X(ncclMemFree)

// And in the CUDA runtime, but cudaMalloc.
#define SC_CUDA_FUNCTIONS(X)   \
  X(cudaGetErrorString)        \
  X(cudaGetErrorName)          \
  X(cudaRuntimeGetVersion)     \
  X(cudaGetDeviceCount)        \
  X(cudaSetDevice)             \
  X(cudaDeviceGetPCIBusId)     \
  X(cudaFree)                  \
  X(cudaMemset)                \
  X(cudaPointerGetAttributes)  \
  X(cudaStreamCreateWithFlags) \
  X(cudaStreamSynchronize)     \
  X(cudaStreamWaitEvent)       \
  X(cudaStreamDestroy)         \
  X(cudaEventCreateWithFlags)  \
  X(cudaEventRecord)           \
  X(cudaEventQuery)            \
  X(cudaEventDestroy)

// Each pointer has the type that the real header gives the function.
#define SC_POINTER(name) decltype(&::name) name = nullptr;
struct NcclFunctions {
  SC_NCCL_FUNCTIONS(SC_POINTER)
};
struct CudaFunctions {
  // The header overloads this name with a template; converting fails to compile
  // where the plain function has another type.
  using Malloc = cudaError_t (*)(void**, size_t);
  static constexpr Malloc kMallocIsOfThisType = &::cudaMalloc;
  Malloc cudaMalloc = nullptr;
  SC_CUDA_FUNCTIONS(SC_POINTER)
};
#undef SC_POINTER

// The two libraries. Immutable; thread-safe as they are. Never unloaded: NCCL
// leaves threads behind.
struct Libraries {
  NcclFunctions nccl;
  CudaFunctions cuda;
  int nccl_version = 0;  // 22809 is 2.28.9

  // kFailedPrecondition, with the reason and what to do, for a library that is
  // not there, lacks a function, or is of a version that CheckNcclVersion
  // refuses.
  static absl::StatusOr<std::shared_ptr<const Libraries>> Open(
      const std::string& nccl_library, const std::string& cuda_runtime_library);

  // OK, or an error that says which call failed, why, and where to look.
  // kUnavailable: the other side or the network; kFailedPrecondition: the call
  // may not be made; else kInternal.
  absl::Status Check(ncclResult_t result, absl::string_view call,
                     ncclComm_t communicator = nullptr) const;
  // kResourceExhausted: the device has no memory left; else kInternal.
  absl::Status Check(cudaError_t result, absl::string_view call) const;
};

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_LIBRARIES_H_

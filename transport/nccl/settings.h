#ifndef STAGECOACH_TRANSPORT_NCCL_SETTINGS_H_
#define STAGECOACH_TRANSPORT_NCCL_SETTINGS_H_

#include <functional>
#include <string>

#include "transport/two_sided/limits.h"

namespace stagecoach::transport::nccl {

// What a worker's operator decides about the NCCL path.
struct NcclSettings : two_sided::Limits {
  // Both libraries are opened at run time: a path, or a name that the dynamic
  // linker finds. Never through the process's global symbols, among which
  // libtorch has put a CUDA runtime of its own.
  std::string nccl_library = "libnccl.so.2";
  std::string cuda_runtime_library = "libcudart.so.13";
  // CUDA's index of the device, as this process sees it.
  int device = 0;
  // NCCL refuses two ranks on one GPU; so does this path, before anything is
  // started. True leaves it to NCCL.
  bool share_gpu = false;
  // The receive pools come from ncclMemAlloc and are registered with their
  // communicators, where the library and the GPU can.
  bool registered_buffers = false;
  // The engine reads received memory, and writes what it sends, on the host.
  // Then a device whose memory the host cannot read is refused.
  bool engine_on_host = false;

  // The engine's compute stream (a cudaStream_t), null where it computes on the
  // host. Sends wait for what it holds when they are posted, and a returned
  // slot is not written before what it holds then. Any thread.
  std::function<void*()> compute_stream;
};

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_SETTINGS_H_

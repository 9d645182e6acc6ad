#ifndef STAGECOACH_TRANSPORT_NCCL_SETTINGS_H_
#define STAGECOACH_TRANSPORT_NCCL_SETTINGS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace stagecoach::transport::nccl {

// What a worker's operator decides about the NCCL path.
struct NcclSettings {
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

  // A communicator that is not there by then fails its edge.
  absl::Duration initialise_within = absl::Seconds(60);
  // What an edge that closes waits for what it has under way; then it aborts.
  absl::Duration close_within = absl::Seconds(5);
  // An abort that has not come back by then never will.
  absl::Duration abort_within = absl::Seconds(10);
  Clock* clock = Clock::Real();

  // NCCL does not return from an abort: its buffers are never free again and
  // only the end of the process helps, so end it. Called at most once for each
  // abort, on a thread of its own.
  std::function<void(const absl::Status& why)> on_stuck;
  // The engine's compute stream (a cudaStream_t), null where it computes on the
  // host. Sends wait for what it holds when they are posted, and a returned
  // slot is not written before what it holds then. Any thread.
  std::function<void*()> compute_stream;
};

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_SETTINGS_H_

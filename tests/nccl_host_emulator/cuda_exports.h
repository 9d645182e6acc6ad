#ifndef STAGECOACH_TESTS_NCCL_HOST_EMULATOR_CUDA_EXPORTS_H_
#define STAGECOACH_TESTS_NCCL_HOST_EMULATOR_CUDA_EXPORTS_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "tests/nccl_host_emulator/host_stream.h"

namespace nccl_host_emulator {

// Null for the default stream and for what is no stream.
std::shared_ptr<HostStream> StreamOf(cudaStream_t handle);
// The calling thread's.
int CurrentDevice();
// "0000abcd:01:00.0", where abcd is the process: each has GPUs of its own.
std::string PciAddress(int device);

}  // namespace nccl_host_emulator

#endif  // STAGECOACH_TESTS_NCCL_HOST_EMULATOR_CUDA_EXPORTS_H_

// The CUDA runtime's own names, as its header declares them, in host memory.
#include "tests/nccl_host_emulator/cuda_exports.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/nccl_host_emulator/faults.h"

namespace nccl_host_emulator {
namespace {

thread_local int current_device = 0;

// Handles are addresses of the objects; what is destroyed is forgotten.
template <typename Object, typename Handle>
class Handles {
 public:
  Handle Add(std::shared_ptr<Object> object) {
    std::lock_guard<std::mutex> lock(mu_);
    auto handle = reinterpret_cast<Handle>(object.get());
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<Object> Find(Handle handle) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> Remove(Handle handle) {
    std::lock_guard<std::mutex> lock(mu_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  std::mutex mu_;
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

Handles<HostStream, cudaStream_t>& Streams() {
  static auto* const streams = new Handles<HostStream, cudaStream_t>;
  return *streams;
}
Handles<HostEvent, cudaEvent_t>& Events() {
  static auto* const events = new Handles<HostEvent, cudaEvent_t>;
  return *events;
}

int GpuCount() { return Faults::Get().Setting("gpus", 8); }

// True: the call fails with *error. Hangs where it should.
bool Fails(const char* call, cudaError_t* error) {
  const Fault fault = Faults::Get().Take(call, current_device);
  if (fault.kind == Fault::Kind::kHang) Faults::Get().Hang();
  *error = static_cast<cudaError_t>(fault.value);
  return fault.kind == Fault::Kind::kFail;
}

}  // namespace

std::shared_ptr<HostStream> StreamOf(cudaStream_t handle) {
  return handle == nullptr ? nullptr : Streams().Find(handle);
}

int CurrentDevice() { return current_device; }

std::string PciAddress(int device) {
  if (Faults::Get().Setting("one_gpu", 0) != 0) return "00000000:01:00.0";
  char text[32];
  std::snprintf(text, sizeof(text), "%08x:%02x:00.0",
                static_cast<unsigned>(getpid()),
                static_cast<unsigned>(device + 1) & 0xFF);
  return text;
}

}  // namespace nccl_host_emulator

using namespace nccl_host_emulator;  // NOLINT: the whole file is its interface

#define EMULATOR_MAY_FAIL(name)                   \
  do {                                            \
    cudaError_t injected = cudaSuccess;           \
    if (Fails(#name, &injected)) return injected; \
  } while (false)

extern "C" {

const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    default:
      return "cudaErrorUnknown";
  }
}

const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    default:
      return "emulated";
  }
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  EMULATOR_MAY_FAIL(cudaGetDeviceCount);
  *count = GpuCount();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
  if (device < 0 || device >= GpuCount()) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "%s",
                PciAddress(device).c_str());
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMalloc(void** data, size_t bytes) {
  EMULATOR_MAY_FAIL(cudaMalloc);
  return posix_memalign(data, 256, bytes == 0 ? 1 : bytes) == 0
             ? cudaSuccess
             : cudaErrorMemoryAllocation;
}

cudaError_t CUDARTAPI cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemset(void* data, int value, size_t bytes) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}

cudaError_t CUDARTAPI
cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  std::memset(attributes, 0, sizeof(*attributes));
  attributes->device = current_device;
  attributes->devicePointer = const_cast<void*>(data);
  if (Faults::Get().Setting("device_memory", 0) != 0) {
    attributes->type = cudaMemoryTypeDevice;
  } else {
    // Memory of this kind is for both sides, and so is this.
    attributes->type = cudaMemoryTypeManaged;
    attributes->hostPointer = const_cast<void*>(data);
  }
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream,
                                                unsigned int /*flags*/) {
  EMULATOR_MAY_FAIL(cudaStreamCreateWithFlags);
  *stream = Streams().Add(HostStream::Create());
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t handle) {
  const std::shared_ptr<HostStream> stream = StreamOf(handle);
  if (stream != nullptr) stream->Synchronize();
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t handle,
                                          cudaEvent_t event,
                                          unsigned int /*flags*/) {
  const std::shared_ptr<HostEvent> found = Events().Find(event);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  found->HoldBack(StreamOf(handle).get(), found);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t handle) {
  const std::shared_ptr<HostStream> stream = Streams().Remove(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->Close();
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t handle,
                                         cudaHostFn_t function, void* data) {
  const std::shared_ptr<HostStream> stream = StreamOf(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->Add([function, data] { function(data); });
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event,
                                               unsigned int /*flags*/) {
  *event = Events().Add(std::make_shared<HostEvent>());
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  EMULATOR_MAY_FAIL(cudaEventRecord);
  const std::shared_ptr<HostEvent> found = Events().Find(event);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  found->Record(StreamOf(handle).get(), found);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  EMULATOR_MAY_FAIL(cudaEventQuery);
  const std::shared_ptr<HostEvent> found = Events().Find(event);
  if (found == nullptr) return cudaErrorInvalidResourceHandle;
  return found->HasPassed() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  return Events().Remove(event) == nullptr ? cudaErrorInvalidResourceHandle
                                           : cudaSuccess;
}

}  // extern "C"

#include "transport/nccl/device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"

namespace stagecoach::transport::nccl {

absl::StatusOr<std::shared_ptr<const Device>> Device::Open(
    std::shared_ptr<const Libraries> libraries, int index) {
  const CudaFunctions& cuda = libraries->cuda;
  int count = 0;
  // cudaErrorNoDevice, cudaErrorInsufficientDriver and their like.
  const absl::Status counted =
      libraries->Check(cuda.cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (!counted.ok() || index < 0 || index >= count) {
    return absl::FailedPreconditionError(absl::StrCat(
        "nccl: no GPU ", index, " here: ",
        counted.ok() ? absl::StrCat("the CUDA runtime sees ", count)
                     : std::string(counted.message()),
        "; look at nvidia-smi and CUDA_VISIBLE_DEVICES"));
  }
  auto device =
      std::shared_ptr<Device>(new Device(std::move(libraries), index));
  SC_RETURN_IF_ERROR(device->Use());
  char address[32] = {};
  SC_RETURN_IF_ERROR(device->libraries().Check(
      cuda.cudaDeviceGetPCIBusId(address, sizeof(address), index),
      "cudaDeviceGetPCIBusId"));
  device->pci_address_ = address;
  return std::shared_ptr<const Device>(std::move(device));
}

absl::Status Device::Use() const {
  return libraries_->Check(libraries_->cuda.cudaSetDevice(index_),
                           "cudaSetDevice");
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> DeviceMemory::Allocate(
    std::shared_ptr<const Device> device, size_t bytes, bool by_nccl) {
  const Libraries& libraries = device->libraries();
  SC_RETURN_IF_ERROR(device->Use());
  void* data = nullptr;
  if (by_nccl) {
    const absl::Status status = libraries.Check(
        libraries.nccl.ncclMemAlloc(&data, bytes), "ncclMemAlloc");
    if (!status.ok()) {
      LogWarning(absl::StrCat("nccl: wire buffers are not registered: ",
                              status.message()));
      by_nccl = false;
    }
  }
  if (!by_nccl) {
    SC_RETURN_IF_ERROR(Annotate(
        libraries.Check(libraries.cuda.cudaMalloc(&data, bytes), "cudaMalloc"),
        absl::StrCat(bytes, " bytes for a receive pool")));
  }
  return std::shared_ptr<DeviceMemory>(new DeviceMemory(
      std::move(device), static_cast<char*>(data), bytes, by_nccl));
}

DeviceMemory::~DeviceMemory() {
  const Libraries& libraries = device_->libraries();
  absl::Status freed = device_->Use();
  if (freed.ok()) {
    freed =
        by_nccl_
            ? libraries.Check(libraries.nccl.ncclMemFree(data_), "ncclMemFree")
            : libraries.Check(libraries.cuda.cudaFree(data_), "cudaFree");
  }
  if (!freed.ok()) LogWarning(absl::StrCat("nccl: ", freed.message()));
}

absl::StatusOr<bool> DeviceMemory::HostCanRead() const {
  cudaPointerAttributes attributes{};
  SC_RETURN_IF_ERROR(device_->libraries().Check(
      device_->libraries().cuda.cudaPointerGetAttributes(&attributes, data_),
      "cudaPointerGetAttributes"));
  return attributes.hostPointer != nullptr;
}

absl::Status CheckHostCanRead(const DeviceMemory& memory) {
  SC_ASSIGN_OR_RETURN(const bool readable, memory.HostCanRead());
  if (readable) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "nccl: the engine of this worker computes on the CPU and cannot read the "
      "GPU's memory; start the worker with --device cuda:N, or use transport = "
      "\"shm\" or \"tcp\"");
}

absl::Status DeviceMemory::Fill(size_t offset, size_t bytes, int byte) const {
  const Libraries& libraries = device_->libraries();
  SC_RETURN_IF_ERROR(device_->Use());
  SC_RETURN_IF_ERROR(libraries.Check(
      libraries.cuda.cudaMemset(data_ + offset, byte, bytes), "cudaMemset"));
  return libraries.Check(libraries.cuda.cudaStreamSynchronize(nullptr),
                         "cudaStreamSynchronize");
}

absl::StatusOr<std::unique_ptr<DeviceEvent>> DeviceEvent::Create(
    std::shared_ptr<const Device> device) {
  SC_RETURN_IF_ERROR(device->Use());
  cudaEvent_t event = nullptr;
  SC_RETURN_IF_ERROR(device->libraries().Check(
      device->libraries().cuda.cudaEventCreateWithFlags(&event,
                                                        cudaEventDisableTiming),
      "cudaEventCreateWithFlags"));
  return std::unique_ptr<DeviceEvent>(
      new DeviceEvent(std::move(device), event));
}

DeviceEvent::~DeviceEvent() {
  // Nothing can be done about a failure, and nothing hangs on it.
  (void)device_->libraries().cuda.cudaEventDestroy(event_);
}

absl::Status DeviceEvent::Record(cudaStream_t stream) {
  return device_->libraries().Check(
      device_->libraries().cuda.cudaEventRecord(event_, stream),
      "cudaEventRecord");
}

absl::Status DeviceEvent::HoldBack(cudaStream_t stream) const {
  return device_->libraries().Check(
      device_->libraries().cuda.cudaStreamWaitEvent(stream, event_, 0),
      "cudaStreamWaitEvent");
}

absl::StatusOr<bool> DeviceEvent::HasPassed() const {
  const cudaError_t result = device_->libraries().cuda.cudaEventQuery(event_);
  if (result == cudaErrorNotReady) return false;
  SC_RETURN_IF_ERROR(device_->libraries().Check(result, "cudaEventQuery"));
  return true;
}

}  // namespace stagecoach::transport::nccl

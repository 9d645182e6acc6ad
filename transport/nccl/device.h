#ifndef STAGECOACH_TRANSPORT_NCCL_DEVICE_H_
#define STAGECOACH_TRANSPORT_NCCL_DEVICE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/nccl/libraries.h"
#include "transport/two_sided/carrier.h"

namespace stagecoach::transport::nccl {

// One GPU, through the CUDA runtime of the settings. Thread-safe.
class Device {
 public:
  // kFailedPrecondition, with the reason, where there is no such device.
  static absl::StatusOr<std::shared_ptr<const Device>> Open(
      std::shared_ptr<const Libraries> libraries, int index);

  const Libraries& libraries() const { return *libraries_; }
  const std::string& pci_address() const { return pci_address_; }
  // Makes it the calling thread's device.
  absl::Status Use() const;

 private:
  Device(std::shared_ptr<const Libraries> libraries, int index)
      : libraries_(std::move(libraries)), index_(index) {}

  const std::shared_ptr<const Libraries> libraries_;
  const int index_;
  std::string pci_address_;
};

// Memory on a device.
class DeviceMemory final : public two_sided::PoolMemory {
 public:
  // `by_nccl`: from ncclMemAlloc, which other devices may then read directly;
  // where that fails, as it does on devices that cannot, ordinary memory.
  // kResourceExhausted if the device has not so much.
  static absl::StatusOr<std::shared_ptr<DeviceMemory>> Allocate(
      std::shared_ptr<const Device> device, size_t bytes, bool by_nccl);
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* data() const override { return data_; }
  size_t bytes() const override { return bytes_; }
  bool by_nccl() const { return by_nccl_; }
  // Whether code on the host may read and write it.
  absl::StatusOr<bool> HostCanRead() const;
  absl::Status Fill(size_t offset, size_t bytes, int byte) const override;

 private:
  DeviceMemory(std::shared_ptr<const Device> device, char* data, size_t bytes,
               bool by_nccl)
      : device_(std::move(device)),
        data_(data),
        bytes_(bytes),
        by_nccl_(by_nccl) {}

  const std::shared_ptr<const Device> device_;
  char* const data_;
  const size_t bytes_;
  const bool by_nccl_;
};

// kFailedPrecondition, with what to do, if an engine on the host could not.
absl::Status CheckHostCanRead(const DeviceMemory& memory);

// A point in a stream's work. Thread-compatible.
class DeviceEvent final : public two_sided::Mark {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceEvent>> Create(
      std::shared_ptr<const Device> device);
  ~DeviceEvent() override;
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  // Everything that the stream holds now is before this point.
  absl::Status Record(cudaStream_t stream);
  // What the stream gets from now on waits for this point.
  absl::Status HoldBack(cudaStream_t stream) const;
  absl::StatusOr<bool> HasPassed() const;

 private:
  DeviceEvent(std::shared_ptr<const Device> device, cudaEvent_t event)
      : device_(std::move(device)), event_(event) {}

  const std::shared_ptr<const Device> device_;
  const cudaEvent_t event_;
};

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_DEVICE_H_

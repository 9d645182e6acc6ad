#ifndef STAGECOACH_TRANSPORT_NCCL_DESCRIPTOR_H_
#define STAGECOACH_TRANSPORT_NCCL_DESCRIPTOR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::transport::nccl {

// What an endpoint tells its peers about itself.
struct NcclDescriptor {
  int nccl_version = 0;
  std::string host;     // of this start of the machine
  std::string gpu;      // its PCI address there
  std::string address;  // of its control channel
};

// "nccl/1;22809;<host>;<gpu>;<address>"
std::string FormatDescriptor(const NcclDescriptor& descriptor);
// kInvalidArgument for what is none, kFailedPrecondition for another format's.
absl::StatusOr<NcclDescriptor> ParseDescriptor(absl::string_view text);
// OK, or why these two cannot share a communicator.
absl::Status CheckPair(const NcclDescriptor& here, const NcclDescriptor& peer,
                       bool share_gpu);
// The kernel's id of this start of the machine; its name where there is none.
std::string ThisHost();

}  // namespace stagecoach::transport::nccl

#endif  // STAGECOACH_TRANSPORT_NCCL_DESCRIPTOR_H_

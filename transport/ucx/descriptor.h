#ifndef STAGECOACH_TRANSPORT_UCX_DESCRIPTOR_H_
#define STAGECOACH_TRANSPORT_UCX_DESCRIPTOR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/location.h"

namespace stagecoach::transport::ucx {

// What an endpoint tells its peers about itself.
struct UcxDescriptor {
  int major = 0;  // of the library
  int minor = 0;
  Location location;  // the user is not told
  bool loopback_only = true;
  std::string address;  // of its control channel
};

// "ucx/1;1.13;<host>;<network namespace>;loopback;<address>", or "network"
std::string FormatDescriptor(const UcxDescriptor& descriptor);
// kInvalidArgument for what is none, kFailedPrecondition for another format's.
absl::StatusOr<UcxDescriptor> ParseDescriptor(absl::string_view text);
// OK, or why these two cannot be the ends of an edge.
absl::Status CheckPair(const UcxDescriptor& one, const UcxDescriptor& other);

}  // namespace stagecoach::transport::ucx

#endif  // STAGECOACH_TRANSPORT_UCX_DESCRIPTOR_H_

#ifndef STAGECOACH_TRANSPORT_LOCATION_H_
#define STAGECOACH_TRANSPORT_LOCATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach::transport {

// Where a process is, as far as it matters for how others reach it.
struct Location {
  std::string boot_id;  // differs between hosts, and between their boots
  uint64_t network_namespace = 0;  // inode
  uint32_t user_id = 0;

  // kFailedPrecondition without /proc.
  static absl::StatusOr<Location> Here();
};

// Whether `value` is made of letters, digits and dashes, as a boot id is.
bool IsPlainWord(absl::string_view value);

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_LOCATION_H_

#ifndef STAGECOACH_TRANSPORT_SHM_DESCRIPTOR_H_
#define STAGECOACH_TRANSPORT_SHM_DESCRIPTOR_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/location.h"

namespace stagecoach::transport::shm {

// A secret that the listener's description carries: who shows it has been sent
// by the coordinator.
using Token = std::array<uint8_t, 16>;

// Two processes can share memory over a socket of the abstract namespace if
// all of this is equal.
using transport::Location;

struct ShmDescriptor {
  Location location;
  std::string socket_name;  // in the abstract namespace
  Token token{};
};

// A descriptor for a new listener: random name, random token.
absl::StatusOr<ShmDescriptor> NewDescriptor();

// "shm/1;boot=...;net=...;uid=...;socket=...;token=..."
std::string FormatDescriptor(const ShmDescriptor& descriptor);
// kInvalidArgument for anything but the above; kFailedPrecondition for another
// version of it.
absl::StatusOr<ShmDescriptor> ParseDescriptor(absl::string_view text);

// OK, or kFailedPrecondition with what keeps the two apart.
absl::Status CheckReachable(const Location& here, const Location& peer);

// Takes as long whatever differs.
bool SameToken(const Token& a, const Token& b);

}  // namespace stagecoach::transport::shm

#endif  // STAGECOACH_TRANSPORT_SHM_DESCRIPTOR_H_

#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_TESTING_UNIX_CONTROL_CHANNEL_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_TESTING_UNIX_CONTROL_CHANNEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "transport/control_channel.h"

namespace stagecoach::transport::two_sided::testing {

// Over unix sockets of the abstract namespace, within one process or between
// several on this host. A peer that ends is reported as lost once what it sent
// before has been delivered.
absl::StatusOr<std::unique_ptr<ControlChannel>> NewUnixControlChannel(
    ControlChannel::Handlers handlers);

}  // namespace stagecoach::transport::two_sided::testing

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_TESTING_UNIX_CONTROL_CHANNEL_H_

#include "transport/ucx/testing/endpoints.h"

#include "transport/two_sided/testing/unix_control_channel.h"
#include "transport/ucx/settings.h"
#include "transport/ucx/ucx.h"

namespace stagecoach::transport::ucx::testing {

absl::StatusOr<std::unique_ptr<Endpoint>> NewTestEndpoint(
    const EndpointOptions& options) {
  UcxSettings settings;
  settings.configuration["TLS"] = "tcp,self";
  EndpointOptions with_channel = options;
  with_channel.control_channels = two_sided::testing::NewUnixControlChannel;
  return NewUcxEndpoint(with_channel, settings);
}

}  // namespace stagecoach::transport::ucx::testing

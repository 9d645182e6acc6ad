#include "transport/tcp/tcp.h"
#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

TransportUnderTest Tcp(const std::string& name, const TcpOptions& options) {
  return {name, [options] {
            return [options](const EndpointOptions& endpoint) {
              return NewTcpEndpoint(endpoint, options);
            };
          }};
}

TcpOptions OnIpv6() {
  TcpOptions options;
  options.listen_host = "::1";
  return options;
}

TcpOptions WithChecksums() {
  TcpOptions options;
  options.checksum = true;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance,
                         ::testing::Values(Tcp("ipv4", TcpOptions()),
                                           Tcp("ipv6", OnIpv6()),
                                           Tcp("checksum", WithChecksums())));
INSTANTIATE_TEST_SUITE_P(Tcp, TransportThreads,
                         ::testing::Values(Tcp("ipv4", TcpOptions()),
                                           Tcp("checksum", WithChecksums())));

}  // namespace
}  // namespace stagecoach::transport

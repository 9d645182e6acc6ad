#include "base/testing/certificates.h"
#include "base/tls_identity.h"
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

TcpOptions WithTls() {
  static auto* const authority = new stagecoach::testing::TestAuthority(
      ::testing::TempDir(), "conformance");
  TcpOptions options;
  options.tls = TlsIdentity::Load(authority->Issue("node")).value();
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
                                           Tcp("checksum", WithChecksums()),
                                           Tcp("tls", WithTls())));
INSTANTIATE_TEST_SUITE_P(Tcp, TransportThreads,
                         ::testing::Values(Tcp("ipv4", TcpOptions()),
                                           Tcp("tls", WithTls()),
                                           Tcp("checksum", WithChecksums())));

}  // namespace
}  // namespace stagecoach::transport

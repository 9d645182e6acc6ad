// Over TCP on the loopback interface, which UCX has on every machine.
#include "transport/testing/conformance.h"
#include "transport/ucx/testing/endpoints.h"

namespace stagecoach::transport {
namespace {

const TransportUnderTest kUcx = {
    "ucx", [] {
      return [](const EndpointOptions& options) {
        return ucx::testing::NewTestEndpoint(options);
      };
    }};

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance, ::testing::Values(kUcx));
INSTANTIATE_TEST_SUITE_P(Ucx, TransportThreads, ::testing::Values(kUcx));

}  // namespace
}  // namespace stagecoach::transport

// The other process of ucx_two_process_test.
#include <string>
#include <vector>

#include "transport/testing/test_peer.h"
#include "transport/ucx/testing/endpoints.h"

int main(int argc, char** argv) {
  using namespace stagecoach::transport;
  return testing::RunTestPeer(
      [](const EndpointOptions& options) {
        return ucx::testing::NewTestEndpoint(options);
      },
      std::vector<std::string>(argv + 1, argv + argc));
}

// The other process of nccl_two_process_test, over the host emulator.
#include <string>
#include <vector>

#include "transport/nccl/testing/emulator.h"
#include "transport/testing/test_peer.h"

int main(int argc, char** argv) {
  using namespace stagecoach::transport;
  return testing::RunTestPeer(
      [](const EndpointOptions& options) {
        return nccl::testing::NewEmulatedEndpoint(
            options, nccl::testing::EmulatorSettings(0));
      },
      std::vector<std::string>(argv + 1, argv + argc));
}

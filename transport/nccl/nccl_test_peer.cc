// The other process of nccl_two_process_test, over the host emulator. With
// --fault=TEXT before everything else the emulator has this fault (see
// emulator_control.h).
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "transport/nccl/testing/emulator.h"
#include "transport/testing/test_peer.h"

int main(int argc, char** argv) {
  using namespace stagecoach::transport;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  nccl::testing::Emulator emulator;
  absl::string_view fault;
  if (!arguments.empty()) fault = arguments.front();
  if (absl::ConsumePrefix(&fault, "--fault=")) {
    emulator.Set(std::string(fault));
    arguments.erase(arguments.begin());
  }
  return testing::RunTestPeer(
      [](const EndpointOptions& options) {
        return nccl::testing::NewEmulatedEndpoint(
            options, nccl::testing::EmulatorSettings(0));
      },
      std::move(arguments));
}

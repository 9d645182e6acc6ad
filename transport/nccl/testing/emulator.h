#ifndef STAGECOACH_TRANSPORT_NCCL_TESTING_EMULATOR_H_
#define STAGECOACH_TRANSPORT_NCCL_TESTING_EMULATOR_H_

#include <string>

#include "transport/nccl/settings.h"
#include "transport/transport.h"

// The host emulator (//tests/nccl_host_emulator) as tests see it. Bazel starts
// them where its path from the workspace's root leads to it.
namespace stagecoach::transport::nccl::testing {

// Absolute.
std::string EmulatorPath();
// Both libraries are the emulator.
NcclSettings EmulatorSettings(int device);
// An endpoint over it and unix sockets.
absl::StatusOr<std::unique_ptr<Endpoint>> NewEmulatedEndpoint(
    const EndpointOptions& options, const NcclSettings& settings);

// The emulator of this process. See emulator_control.h.
class Emulator {
 public:
  Emulator();
  // No faults any more.
  ~Emulator() { Set(""); }

  void Set(const std::string& text);
  // What was done that NCCL forbids; empty if nothing was.
  std::string TakeMisuses();
  int Calls(const std::string& name);
  // False if there are not so many before the tests' deadline.
  bool AwaitCalls(const std::string& name, int count);

 private:
  void* const library_;
};

}  // namespace stagecoach::transport::nccl::testing

#endif  // STAGECOACH_TRANSPORT_NCCL_TESTING_EMULATOR_H_

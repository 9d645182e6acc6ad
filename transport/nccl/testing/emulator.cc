#include "transport/nccl/testing/emulator.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/nccl_host_emulator/emulator_control.h"
#include "transport/nccl/nccl.h"
#include "transport/two_sided/testing/unix_control_channel.h"

namespace stagecoach::transport::nccl::testing {
namespace {

template <typename Function>
Function* Find(void* library, const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) {
    std::fprintf(stderr, "the emulator has no %s: %s\n", name, dlerror());
    std::abort();
  }
  return function;
}

}  // namespace

std::string EmulatorPath() {
  char folder[4096] = {};
  if (getcwd(folder, sizeof(folder)) == nullptr) std::abort();
  return absl::StrCat(folder,
                      "/tests/nccl_host_emulator/libnccl_host_emulator.so");
}

NcclSettings EmulatorSettings(int device) {
  NcclSettings settings;
  settings.nccl_library = EmulatorPath();
  settings.cuda_runtime_library = EmulatorPath();
  settings.device = device;
  settings.engine_on_host = true;
  return settings;
}

absl::StatusOr<std::unique_ptr<Endpoint>> NewEmulatedEndpoint(
    const EndpointOptions& options, const NcclSettings& settings) {
  EndpointOptions with_channel = options;
  with_channel.control_channels = two_sided::testing::NewUnixControlChannel;
  return NewNcclEndpoint(with_channel, settings);
}

Emulator::Emulator() : library_(dlopen(EmulatorPath().c_str(), RTLD_NOW)) {
  if (library_ == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
}

void Emulator::Set(const std::string& text) {
  auto* const set = Find<decltype(nccl_host_emulator_set)>(
      library_, "nccl_host_emulator_set");
  if (set(text.c_str()) != 0) {
    std::fprintf(stderr, "the emulator does not understand %s\n", text.c_str());
    std::abort();
  }
}

std::string Emulator::TakeMisuses() {
  auto* const take = Find<decltype(nccl_host_emulator_take_misuses)>(
      library_, "nccl_host_emulator_take_misuses");
  char text[4096] = {};
  take(text, sizeof(text));
  return text;
}

int Emulator::Calls(const std::string& name) {
  auto* const calls = Find<decltype(nccl_host_emulator_calls)>(
      library_, "nccl_host_emulator_calls");
  return calls(name.c_str());
}

bool Emulator::AwaitCalls(const std::string& name, int count) {
  auto* const await = Find<decltype(nccl_host_emulator_await_calls)>(
      library_, "nccl_host_emulator_await_calls");
  return await(name.c_str(), count, /*milliseconds=*/60000) != 0;
}

}  // namespace stagecoach::transport::nccl::testing

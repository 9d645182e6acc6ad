// All workers of a cluster in one process, joined by the loopback path, for
// tests:
//
//   loopback_workers --coordinator ADDRESS --name NAME --workers COUNT
//
// They are named NAME0, NAME1, ... and have the real engine.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/status.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/data/data_source.h"
#include "stage_worker/engine/torch/torch_engine.h"
#include "stage_worker/worker.h"
#include "transport/loopback/loopback.h"

namespace stagecoach::testing {
namespace {

worker::PlacementParts Parts(transport::LoopbackHub* hub) {
  worker::PlacementParts parts;
  parts.allocator = &memory::AccountingAllocator::Process();
  parts.clock = Clock::Real();
  parts.data_factory = worker::OpenData;
  parts.engine_factory = [](const worker::EngineOptions& options) {
    return worker::NewTorchEngine(worker::TorchOptions(), options);
  };
  worker::Transport loopback;
  loopback.kind = "loopback";
  loopback.merit = "same process";
  loopback.factory = [hub](const transport::EndpointOptions& options) {
    return hub->NewEndpoint(options);
  };
  parts.transports = {loopback};
  parts.poison = true;
  parts.produce_in_place = true;
  return parts;
}

struct Flags {
  std::string coordinator;
  std::string name;
  int workers = 1;
  int die_with_parent = 0;
};

absl::Status Run(const Flags& flags) {
  memory::AccountingAllocator::Options memory;
  memory.poison_freed = true;
  memory::AccountingAllocator::Process().Configure(memory);
  SC_RETURN_IF_ERROR(worker::InitTorch(worker::TorchOptions()));
  transport::LoopbackHub hub;
  worker::WorkerOptions options;
  options.coordinator = flags.coordinator;
  options.torch_version = worker::TorchVersion();
  SC_ASSIGN_OR_RETURN(options.location, transport::Location::Here());
  options.parts = Parts(&hub);
  std::vector<std::unique_ptr<worker::Worker>> workers;
  for (int i = 0; i < flags.workers; ++i) {
    options.name = absl::StrCat(flags.name, i);
    SC_ASSIGN_OR_RETURN(auto started, worker::Worker::Start(options));
    workers.push_back(std::move(started));
  }
  for (const auto& each : workers) SC_RETURN_IF_ERROR(each->Wait());
  return absl::OkStatus();
}

}  // namespace
}  // namespace stagecoach::testing

// NOLINTNEXTLINE(bugprone-exception-escape): a test sees what it says then.
int main(int argc, char** argv) {
  stagecoach::testing::Flags flags;
  CLI::App app("All workers of a cluster in one process");
  app.add_option("--coordinator", flags.coordinator)->required();
  app.add_option("--name", flags.name)->required();
  app.add_option("--workers", flags.workers)->required();
  app.add_option("--die-with-parent", flags.die_with_parent);
  CLI11_PARSE(app, argc, argv);
  stagecoach::DieWithParent(flags.die_with_parent);
  const absl::Status status = stagecoach::testing::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "loopback_workers: %s\n", status.ToString().c_str());
  return 1;
}

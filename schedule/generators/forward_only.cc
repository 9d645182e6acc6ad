// Forward only, for evaluation: every microbatch through every stage once.
//
// The inference order of Megatron-LM's forward_only and PyTorch's pipelining
// `eval()`: microbatches ascend. A worker's V stages are neighbours, so a
// microbatch passes a worker once and crosses P-1 wires, not PV-1.
//
// Bubble (P-1)TF; in flight 1.

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "forward-only";

Schedule GenerateForwardOnly(const GenerateOptions& options) {
  Schedule schedule =
      EmptySchedule(kKind, options, ContiguousPlacement(options));
  const int v = options.stages_per_worker;
  for (int worker = 0; worker < options.workers; ++worker) {
    std::vector<Action>& list = schedule.actions[static_cast<size_t>(worker)];
    for (int m = 0; m < options.microbatches; ++m) {
      for (int stage = worker * v; stage < (worker + 1) * v; ++stage) {
        list.push_back(Forward(stage, m));
      }
    }
  }
  return schedule;
}

}  // namespace

Generator ForwardOnly() {
  Generator generator;
  generator.kind = kKind;
  generator.description = "forwards alone, for evaluation";
  generator.trains = false;
  generator.generate = GenerateForwardOnly;
  return generator;
}

}  // namespace stagecoach::schedule

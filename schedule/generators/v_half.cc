// V-Half: a V-shaped schedule that holds about half of what 1F1B's first worker
// holds, on every worker alike.
//
// Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024
// (arXiv:2405.15362), section 3.3.
//
// A microbatch's six P slots of six give P chunks in flight, plus the waits at
// the turns. Bubble: simulated.

#include "schedule/generators/building_block.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "v-half";

Schedule GenerateVHalf(const GenerateOptions& options) {
  BlockSteps steps;
  steps.forward_there = 2;
  steps.backward_there = 2;
  return RepeatBuildingBlock(kKind, options, steps);
}

}  // namespace

Generator VHalf() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "two stages per worker in a V, holding half of what 1F1B does";
  generator.only_stages_per_worker = 2;
  generator.generate = GenerateVHalf;
  return generator;
}

}  // namespace stagecoach::schedule

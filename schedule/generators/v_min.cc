// V-Min: a V-shaped schedule that holds about a third of what 1F1B's first
// worker holds, on every worker alike.
//
// Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024
// (arXiv:2405.15362), section 3.3.
//
// Each pass moves on by one slot, the least that dependencies allow: four P
// slots of six, so 2P/3 chunks in flight, plus the waits at the turns. Bubble:
// simulated.

#include "schedule/generators/building_block.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "v-min";

Schedule GenerateVMin(const GenerateOptions& options) {
  BlockSteps steps;
  return RepeatBuildingBlock(kKind, options, steps);
}

}  // namespace

Generator VMin() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "two stages per worker in a V, holding a third of what 1F1B does";
  generator.only_stages_per_worker = 2;
  generator.generate = GenerateVMin;
  return generator;
}

}  // namespace stagecoach::schedule

// ZB-H1: 1F1B with backward split, whose weight gradients fill the bubble; no
// more in flight than 1F1B's first worker.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241),
// section 2.3 and figure 2 (handcrafted ZB-H1).
//
// Stage s warms up as in 1F1B with P-s forwards and puts off s weight
// gradients. For M >= P and TW <= TB: bubble (P-1)(TF+TB-TW), B the input
// gradient; in flight min(M, P), up to the input gradient min(M, P-s).

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "zb-h1";

Schedule GenerateZbH1(const GenerateOptions& options) {
  Schedule schedule =
      EmptySchedule(kKind, options, ContiguousPlacement(options));
  for (int worker = 0; worker < options.workers; ++worker) {
    schedule.actions[static_cast<size_t>(worker)] =
        SplitOneForwardOneBackwardList(worker, options.microbatches,
                                       /*warm_up=*/options.workers - worker,
                                       /*delay=*/worker);
  }
  return schedule;
}

}  // namespace

Generator ZbH1() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "1F1B whose weight gradients fill the bubble; holds at most P";
  generator.only_stages_per_worker = 1;
  generator.generate = GenerateZbH1;
  return generator;
}

}  // namespace stagecoach::schedule

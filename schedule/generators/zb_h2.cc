// ZB-H2: a longer warm-up than ZB-H1's fills the bubble before the first
// backward too, as far as memory allows.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241),
// section 2.3 and figure 3 (handcrafted ZB-H2).
//
// With L the limit (max_in_flight; 2P-1 as published unless given), stage s
// warms up with min(2(P-s)-1, L-s) forwards and puts off as many weight
// gradients as L allows. L = P is ZB-H1; the limit may be below it. In flight
// min(M, L). The published schedule has no bubble because its steps overlap;
// here a step ends for all workers at once, so (P-1)TF remains.

#include <algorithm>

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "zb-h2";

Schedule GenerateZbH2(const GenerateOptions& options) {
  const int published = 2 * options.workers - 1;
  const int limit = options.max_in_flight == 0
                        ? published
                        : std::min(options.max_in_flight, published);
  Schedule schedule =
      EmptySchedule(kKind, options, ContiguousPlacement(options));
  for (int worker = 0; worker < options.workers; ++worker) {
    const int from_end = options.workers - worker;
    // As 1F1B but for the forwards that the limit allows beyond it.
    const int extra = std::clamp(limit - options.workers, 0, from_end - 1);
    const int warm_up = std::min(from_end + extra, limit);
    schedule.actions[static_cast<size_t>(worker)] =
        SplitOneForwardOneBackwardList(worker, options.microbatches, warm_up,
                                       /*delay=*/limit - warm_up);
  }
  return schedule;
}

}  // namespace

Generator ZbH2() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "ZB-H1 with a longer warm-up; holds at most 2P-1, or max_in_flight";
  generator.only_stages_per_worker = 1;
  generator.takes_max_in_flight = true;
  generator.generate = GenerateZbH2;
  return generator;
}

}  // namespace stagecoach::schedule

// GPipe: every forward, then every backward.
//
// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using
// Pipeline Parallelism", NeurIPS 2019 (arXiv:1811.06965). Backwards ascend, as
// in PyTorch's ScheduleGPipe (torch.distributed.pipelining), so that each
// parameter adds up its microbatches in ascending order; the paper's figure
// draws them descending, and so does `published_order`.
//
// Bubble (P-1)T; in flight M.

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "gpipe";

Schedule GenerateGPipe(const GenerateOptions& options) {
  Schedule schedule =
      EmptySchedule(kKind, options, ContiguousPlacement(options));
  for (int worker = 0; worker < options.workers; ++worker) {
    std::vector<Action>& list = schedule.actions[static_cast<size_t>(worker)];
    for (int m = 0; m < options.microbatches; ++m) {
      list.push_back(Forward(worker, m));
    }
    for (int m = 0; m < options.microbatches; ++m) {
      list.push_back(Backward(
          worker, options.published_order ? options.microbatches - 1 - m : m));
    }
  }
  return schedule;
}

}  // namespace

Generator GPipe() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "all forwards, then all backwards; holds every microbatch";
  generator.only_stages_per_worker = 1;
  generator.generate = GenerateGPipe;
  return generator;
}

}  // namespace stagecoach::schedule

// ZBV: two stages per worker in a V, so that the first worker also has the
// loss; split backward fills nearly all of the bubble.
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241),
// section 6 (ZB-V); in the order of PyTorch's ScheduleZBVZeroBubble
// (torch.distributed.pipelining), which is defined for M >= 2P-1. For fewer
// microbatches it is written for 2P-1 and the surplus ones are left out.
//
// For M >= 2P-1 the bubble is (P-1) forward times of one stage, which the end
// of the step costs; in flight 2P chunks.

#include <algorithm>

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"
#include "schedule/generators/v_list.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "zbv";

// Up to the first backward of chunk 0.
void WarmUp(int workers, int worker, VList* list) {
  for (int i = 0; i < 2 * (workers - worker) - 1; ++i) list->Forward(0);
  for (int i = 0; i < worker; ++i) {
    list->Forward(1);
    list->Forward(0);
  }
  for (int i = 0; i < workers - worker; ++i) {
    list->Forward(1);
    list->BackwardInput(1);
    list->WeightOf(1);
  }
}

void Steady(int microbatches, VList* list) {
  while (list->forwards(1) < list->forwards(0) ||
         list->forwards(0) < microbatches) {
    if (list->forwards(0) < microbatches) list->Forward(0);
    list->BackwardInput(0);
    list->WeightOf(0);
    list->Forward(1);
    list->BackwardInput(1);
    list->WeightOf(1);
  }
}

// No forwards are left; weight gradients fill the waits.
void CoolDown(int workers, int worker, VList* list) {
  for (int i = 0; i < worker; ++i) {
    list->BackwardInput(0);
    list->BackwardInput(1);
  }
  for (int i = 0; i < workers - worker; ++i) {
    list->BackwardInput(0);
    list->WeightOf(0);
  }
  for (int i = 0; i < worker; ++i) list->WeightOf(1);
  while (list->weights_put_off() > 0) list->WeightOf(0);
}

Schedule GenerateZbv(const GenerateOptions& options) {
  Schedule schedule = EmptySchedule(kKind, options, VShapedPlacement(options));
  const int planned = std::max(options.microbatches, 2 * options.workers - 1);
  for (int worker = 0; worker < options.workers; ++worker) {
    VList list(options.workers, worker, options.microbatches);
    WarmUp(options.workers, worker, &list);
    Steady(planned, &list);
    CoolDown(options.workers, worker, &list);
    schedule.actions[static_cast<size_t>(worker)] = list.Take();
  }
  return schedule;
}

}  // namespace

Generator Zbv() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "two stages per worker in a V, split backward; nearly no bubble";
  generator.only_stages_per_worker = 2;
  generator.generate = GenerateZbv;
  return generator;
}

}  // namespace stagecoach::schedule

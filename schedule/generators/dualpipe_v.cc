// DualPipe-V: two stages per worker in a V; in the steady state a forward of
// one stage and a backward of the other run as neighbours, so that they can
// overlap.
//
// DeepSeek-AI, "DeepSeek-V3 Technical Report" (arXiv:2412.19437), section 3.2.1
// (DualPipe), cut in half by Qi et al. ("DualPipe could be better without the
// Dual"); in the order of DeepSeek's dualpipev.py and of PyTorch's
// ScheduleDualPipeV, defined for M >= 2P. For fewer microbatches it is written
// for 2P and the surplus ones are left out.
//
// Bubble for M >= 2P, in times of one stage, B the full backward:
// (P-1)(F&B+B-3W) if a forward and a backward overlap as one unit; here they
// run one after the other, F first. In flight 2P+1 chunks.

#include <algorithm>

#include "schedule/generators/builder.h"
#include "schedule/generators/generators.h"
#include "schedule/generators/v_list.h"

namespace stagecoach::schedule {
namespace {

constexpr absl::string_view kKind = "dualpipe-v";

void ForwardAndBackward(int forward, int backward, VList* list) {
  list->Forward(forward);
  list->Backward(backward);
}

void WarmUp(int after, int worker, VList* list) {
  for (int i = 0; i < 2 * after; ++i) list->Forward(0);
  for (int i = 0; i <= worker; ++i) {
    list->Forward(0);
    list->Forward(1);
  }
  for (int i = 0; i < after; ++i) {
    list->BackwardInput(1);
    list->OldestWeight();
    list->Forward(1);
  }
}

void Steady(int rounds, int after, VList* list) {
  for (int i = 0; i < rounds; ++i) {
    ForwardAndBackward(0, 1, list);
    ForwardAndBackward(1, 0, list);
  }
  for (int i = 0; i < after; ++i) {
    list->Backward(1);
    ForwardAndBackward(1, 0, list);
  }
}

// Half of the last backwards of both chunks are split: their weight gradients
// fill the waits that follow.
void CoolDown(int after, int worker, VList* list) {
  const int rounds = worker + 1;
  bool split = false;
  const auto backward = [&split, list](int chunk) {
    split ? list->BackwardInput(chunk) : list->Backward(chunk);
  };
  for (int i = 0; i < rounds; ++i) {
    const bool half = i == rounds / 2;
    split |= half && worker % 2 == 1;
    backward(1);
    split |= half;
    backward(0);
  }
  for (int i = 0; i < after; ++i) {
    list->OldestWeight();
    list->BackwardInput(0);
  }
  while (list->weights_put_off() > 0) list->OldestWeight();
}

Schedule GenerateDualPipeV(const GenerateOptions& options) {
  Schedule schedule = EmptySchedule(kKind, options, VShapedPlacement(options));
  const int planned = std::max(options.microbatches, 2 * options.workers);
  for (int worker = 0; worker < options.workers; ++worker) {
    const int after = options.workers - worker - 1;
    VList list(options.workers, worker, options.microbatches);
    WarmUp(after, worker, &list);
    Steady(planned - 2 * options.workers + worker + 1, after, &list);
    CoolDown(after, worker, &list);
    schedule.actions[static_cast<size_t>(worker)] = list.Take();
  }
  return schedule;
}

}  // namespace

Generator DualPipeV() {
  Generator generator;
  generator.kind = kKind;
  generator.description =
      "a V in which forwards and backwards of two stages alternate";
  generator.only_stages_per_worker = 2;
  generator.generate = GenerateDualPipeV;
  return generator;
}

}  // namespace stagecoach::schedule

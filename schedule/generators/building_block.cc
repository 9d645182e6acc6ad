#include "schedule/generators/building_block.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "schedule/generators/builder.h"

namespace stagecoach::schedule {
namespace {

constexpr int kPeriod = 6;

// Slots after the action before at the three turns: from F to F on worker P-1,
// from F to I on worker 0, from I to I on worker P-1.
using Waits = std::array<int, 3>;

// Slots of one microbatch on one worker: F0, F1, I1, I0, W1, W0 (numbers are
// chunks).
using Slots = std::array<int, kPeriod>;

// F0, F1, I1 and I0; the others are not set yet.
Slots PassSlots(int workers, int worker, const BlockSteps& steps,
                const Waits& waits) {
  const int last = workers - 1;
  const int to_last = last - worker;
  const int forward_turn = steps.forward_there * last + waits[0];
  const int loss = forward_turn + steps.forward_back * last + waits[1];
  const int backward_turn = loss + steps.backward_there * last + waits[2];
  return {steps.forward_there * worker,
          forward_turn + steps.forward_back * to_last,
          loss + steps.backward_there * worker,
          backward_turn + steps.backward_back * to_last,
          0,
          0};
}

bool Collide(int workers, const BlockSteps& steps, const Waits& waits) {
  // The pattern of residues repeats after six workers.
  for (int worker = 0; worker < std::min(workers, kPeriod); ++worker) {
    const Slots slots = PassSlots(workers, worker, steps, waits);
    unsigned taken = 0;
    for (size_t pass = 0; pass < 4; ++pass) {
      const unsigned bit = 1u << (slots[pass] % kPeriod);
      if ((taken & bit) != 0) return true;
      taken |= bit;
    }
  }
  return false;
}

// The shortest waits, by their sum.
Waits ShortestWaits(int workers, const BlockSteps& steps) {
  Waits best = {kPeriod, kPeriod, kPeriod};
  const auto sum = [](const Waits& w) { return w[0] + w[1] + w[2]; };
  for (int a = 1; a <= kPeriod; ++a) {
    for (int b = 1; b <= kPeriod; ++b) {
      for (int c = 1; c <= kPeriod; ++c) {
        const Waits waits = {a, b, c};
        if (sum(waits) < sum(best) && !Collide(workers, steps, waits)) {
          best = waits;
        }
      }
    }
  }
  return best;
}

void PlaceWeights(Slots* slots) {
  unsigned taken = 0;
  for (size_t pass = 0; pass < 4; ++pass) {
    taken |= 1u << ((*slots)[pass] % kPeriod);
  }
  for (const size_t pass : {2u, 3u}) {
    int slot = (*slots)[pass] + 1;
    while ((taken & (1u << (slot % kPeriod))) != 0) ++slot;
    taken |= 1u << (slot % kPeriod);
    (*slots)[pass + 2] = slot;
  }
}

std::vector<Action> List(const GenerateOptions& options, int worker,
                         const Slots& slots) {
  const int there = worker;
  const int back = 2 * options.workers - 1 - worker;
  std::vector<std::pair<int64_t, Action>> timed;
  for (int m = 0; m < options.microbatches; ++m) {
    const std::array<Action, kPeriod> actions = {
        Forward(there, m),       Forward(back, m),
        BackwardInput(back, m),  BackwardInput(there, m),
        BackwardWeight(back, m), BackwardWeight(there, m)};
    for (size_t i = 0; i < actions.size(); ++i) {
      timed.emplace_back(int64_t{kPeriod} * m + slots[i], actions[i]);
    }
  }
  // No two are in one slot.
  std::sort(timed.begin(), timed.end());
  std::vector<Action> list;
  list.reserve(timed.size());
  for (const auto& [slot, action] : timed) list.push_back(action);
  return list;
}

}  // namespace

Schedule RepeatBuildingBlock(absl::string_view kind,
                             const GenerateOptions& options,
                             const BlockSteps& steps) {
  Schedule schedule = EmptySchedule(kind, options, VShapedPlacement(options));
  const Waits waits = ShortestWaits(options.workers, steps);
  for (int worker = 0; worker < options.workers; ++worker) {
    Slots slots = PassSlots(options.workers, worker, steps, waits);
    PlaceWeights(&slots);
    schedule.actions[static_cast<size_t>(worker)] =
        List(options, worker, slots);
  }
  return schedule;
}

}  // namespace stagecoach::schedule

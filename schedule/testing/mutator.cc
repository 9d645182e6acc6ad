#include "schedule/testing/mutator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"

namespace stagecoach::schedule::testing {

Schedule Mutator::Original(const Generator& kind) {
  GenerateOptions shape;
  shape.workers = Pick(1, shape_.most_workers);
  shape.microbatches = Pick(1, shape_.most_microbatches);
  shape.stages_per_worker = kind.only_stages_per_worker == 0
                                ? Pick(1, shape_.most_stages_per_worker)
                                : kind.only_stages_per_worker;
  Schedule compute = *Generate(kind.kind, shape);
  if (Pick(0, 2) == 0) compute = SplitBackward(compute);
  LoweringOptions options;
  options.send_budget = Pick(1, shape_.most_send_budget);
  return *Lower(compute, options);
}

std::string Mutator::Mutate(Schedule* schedule) {
  std::string what = MutateOnce(schedule);
  if (Pick(0, 3) == 0) absl::StrAppend(&what, ", ", MutateOnce(schedule));
  return what;
}

// Half of all damage is such that a schedule often survives it: or nearly
// everything would be refused, and a verifier that refuses too much not be
// found out.
std::string Mutator::MutateOnce(Schedule* schedule) {
  const int what = Pick(0, 15);
  if (what < 13) return MutateList(schedule, what);
  return MutatePlan(schedule);
}

std::string Mutator::MutateList(Schedule* schedule, int what) {
  std::vector<Action>& list =
      schedule->actions[static_cast<size_t>(Pick(0, schedule->workers - 1))];
  if (list.empty()) return "nothing";
  const int last = static_cast<int>(list.size()) - 1;
  const int i = Pick(0, last);
  Action& action = list[static_cast<size_t>(i)];
  const std::string place = " " + ToString(action);
  switch (what) {
    case 0:
      std::swap(action, list[static_cast<size_t>(Pick(0, last))]);
      return "swap" + place;
    case 1:
      list.erase(list.begin() + i);
      return "drop" + place;
    case 2:
      list.insert(list.begin() + Pick(0, last), Action(action));
      return "duplicate" + place;
    case 3:
      action.stage = StageIndex(Pick(0, schedule->stages() - 1));
      return "wrong stage" + place;
    case 4:
      action.microbatch = MicrobatchIndex(Pick(0, schedule->microbatches - 1));
      return "wrong microbatch" + place;
    case 5:
      return HandOver(schedule, &list, i) + place;
    case 6:
    case 7:
      return Move(&list, i) + place;
    case 8:
    case 9:
      std::swap(action, list[static_cast<size_t>(std::min(i + 1, last))]);
      return "swap neighbours" + place;
    default:
      return SwapIndependent(&list, i) + place;
  }
}

// With the next action of another chunk.
std::string Mutator::SwapIndependent(std::vector<Action>* list, int i) {
  const auto first = list->begin() + i;
  const auto other = std::find_if(first, list->end(), [&](const Action& a) {
    return a.microbatch != first->microbatch;
  });
  if (other != list->end()) std::rotate(first, other, other + 1);
  return "pull forward";
}

std::string Mutator::Move(std::vector<Action>* list, int from) {
  const Action action = (*list)[static_cast<size_t>(from)];
  list->erase(list->begin() + from);
  const int to =
      std::clamp(from + Pick(-4, 4), 0, static_cast<int>(list->size()));
  list->insert(list->begin() + to, action);
  return "move";
}

std::string Mutator::HandOver(Schedule* schedule, std::vector<Action>* list,
                              int i) {
  const Action action = (*list)[static_cast<size_t>(i)];
  list->erase(list->begin() + i);
  std::vector<Action>& other =
      schedule->actions[static_cast<size_t>(Pick(0, schedule->workers - 1))];
  other.insert(other.begin() + Pick(0, static_cast<int>(other.size())), action);
  return "hand over";
}

std::string Mutator::MutatePlan(Schedule* schedule) {
  if (schedule->edges.empty()) return "nothing";
  EdgePlan& any = schedule->edges[static_cast<size_t>(
      Pick(0, static_cast<int>(schedule->edges.size()) - 1))];
  switch (Pick(0, 3)) {
    case 0:
      for (EdgePlan& plan : schedule->edges) {
        plan.receive_depth = std::max(0, plan.receive_depth - Pick(1, 3));
      }
      schedule->send_budget = 1;
      return "small D, K = 1";
    case 1:
      any.pool_slots -= Pick(0, 2);
      return "small pool";
    case 2:
      any.receive_depth = std::max(0, any.receive_depth - Pick(1, 2));
      return "small D";
    default:
      schedule->send_budget = 1;
      return "K = 1";
  }
}

}  // namespace stagecoach::schedule::testing

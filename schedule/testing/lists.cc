#include "schedule/testing/lists.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace stagecoach::schedule::testing {

std::vector<Action> ParseList(absl::string_view list) {
  std::vector<Action> actions;
  for (absl::string_view word :
       absl::StrSplit(list, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    Action action;
    if (!ParseAction(word, &action)) {
      std::fprintf(stderr, "not an action: %s\n", std::string(word).c_str());
      std::abort();
    }
    actions.push_back(action);
  }
  return actions;
}

std::string Join(const std::vector<Action>& list) {
  return absl::StrJoin(list, " ", [](std::string* out, const Action& action) {
    out->append(ToString(action));
  });
}

Schedule MakeSchedule(int microbatches, int stages_per_worker,
                      const std::vector<std::string>& lists) {
  Schedule schedule;
  schedule.kind = "custom";
  schedule.workers = static_cast<int>(lists.size());
  schedule.stages_per_worker = stages_per_worker;
  schedule.microbatches = microbatches;
  for (int s = 0; s < schedule.workers * stages_per_worker; ++s) {
    schedule.placement.push_back(WorkerIndex(s % schedule.workers));
  }
  for (const std::string& list : lists) {
    schedule.actions.push_back(ParseList(list));
  }
  return schedule;
}

Schedule SplitBackward(const Schedule& schedule) {
  Schedule split = schedule;
  for (std::vector<Action>& list : split.actions) {
    std::vector<Action> actions;
    for (Action action : list) {
      if (action.kind != ActionKind::kBackward) {
        actions.push_back(action);
        continue;
      }
      action.kind = ActionKind::kBackwardInput;
      actions.push_back(action);
      action.kind = ActionKind::kBackwardWeight;
      actions.push_back(action);
    }
    list = actions;
  }
  return split;
}

Schedule LoopedBreadthFirst(int workers, int stages_per_worker,
                            int microbatches) {
  Schedule schedule =
      MakeSchedule(microbatches, stages_per_worker,
                   std::vector<std::string>(static_cast<size_t>(workers)));
  for (int w = 0; w < workers; ++w) {
    std::vector<Action>& list = schedule.actions[static_cast<size_t>(w)];
    const auto add_chunk = [&](ActionKind kind, int chunk) {
      for (int m = 0; m < microbatches; ++m) {
        list.push_back(
            Action{kind, StageIndex(chunk * workers + w), MicrobatchIndex(m)});
      }
    };
    for (int v = 0; v < stages_per_worker; ++v) {
      add_chunk(ActionKind::kForward, v);
    }
    for (int v = stages_per_worker - 1; v >= 0; --v) {
      add_chunk(ActionKind::kBackward, v);
    }
  }
  return schedule;
}

EdgePlan* FindPlan(Schedule* schedule, int from, int to, Direction direction) {
  const EdgeId id{WorkerIndex(from), WorkerIndex(to), direction};
  for (EdgePlan& plan : schedule->edges) {
    if (plan.edge == id) return &plan;
  }
  return nullptr;
}

}  // namespace stagecoach::schedule::testing

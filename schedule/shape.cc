#include "schedule/shape.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::schedule {
namespace {

// Entries of a table that is never too large.
constexpr int64_t kSmallTable = 1'000'000;

std::string PlacementProblem(const Schedule& schedule) {
  const int64_t stages = int64_t{schedule.workers} * schedule.stages_per_worker;
  if (static_cast<int64_t>(schedule.placement.size()) != stages) {
    return absl::StrCat("placement has ", schedule.placement.size(),
                        " stages; ", schedule.workers, " workers with ",
                        schedule.stages_per_worker, " stages each need ",
                        stages);
  }
  for (size_t stage = 0; stage < schedule.placement.size(); ++stage) {
    const int worker = schedule.placement[stage].value();
    if (worker < 0 || worker >= schedule.workers) {
      return absl::StrCat("placement puts stage ", stage, " on worker ", worker,
                          "; workers are 0 to ", schedule.workers - 1);
    }
  }
  return "";
}

bool NeedsNeighbour(const Schedule& schedule, const Action& action) {
  if (IsCompute(action.kind) || action.kind == ActionKind::kReduceTied) {
    return false;
  }
  const bool activation = DirectionOf(action.kind) == Direction::kActivation;
  const bool next = activation != IsReceive(action.kind);
  return next ? schedule.IsLast(action.stage) : schedule.IsFirst(action.stage);
}

absl::Status CheckList(const Schedule& schedule, int worker, int64_t* compute) {
  for (const Action& action : schedule.actions[static_cast<size_t>(worker)]) {
    std::string problem = ActionProblem(schedule, action);
    if (problem.empty() && schedule.WorkerOf(action.stage).value() != worker) {
      problem = absl::StrCat("stage ", action.stage.value(), " is on worker ",
                             schedule.WorkerOf(action.stage).value());
    }
    if (!problem.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("w", worker, ": ", ToString(action), ": ", problem));
    }
    *compute += IsCompute(action.kind) ? 1 : 0;
  }
  return absl::OkStatus();
}

}  // namespace

std::string HeaderProblem(const Schedule& schedule) {
  if (schedule.workers < 1 || schedule.workers > kMaxWorkers) {
    return absl::StrCat("workers is ", schedule.workers, "; it must be 1 to ",
                        kMaxWorkers);
  }
  if (schedule.stages_per_worker < 1) {
    return absl::StrCat("stages_per_worker is ", schedule.stages_per_worker,
                        "; it must be at least 1");
  }
  if (schedule.microbatches < 1) {
    return absl::StrCat("microbatches is ", schedule.microbatches,
                        "; it must be at least 1");
  }
  if (schedule.send_budget < 0) {
    return absl::StrCat("send_budget is ", schedule.send_budget,
                        "; it must be at least 1, or 0 for lists without "
                        "communication");
  }
  return PlacementProblem(schedule);
}

std::string ActionProblem(const Schedule& schedule, const Action& action) {
  const int stage = action.stage.value();
  const int microbatch = action.microbatch.value();
  if (stage < 0 || stage >= schedule.stages()) {
    return absl::StrCat("stage ", stage, " is out of range; stages are 0 to ",
                        schedule.stages() - 1);
  }
  const bool any_group =
      action.kind == ActionKind::kReduceTied && microbatch >= 0;
  if (!any_group && (microbatch < 0 || microbatch >= schedule.microbatches)) {
    return absl::StrCat("microbatch ", microbatch,
                        " is out of range; microbatches are 0 to ",
                        schedule.microbatches - 1);
  }
  if (NeedsNeighbour(schedule, action)) {
    return absl::StrCat(
        "stage ", stage, " has no neighbour to ",
        IsReceive(action.kind) ? "receive that from" : "send that to");
  }
  return "";
}

absl::Status CheckShape(const Schedule& schedule) {
  if (std::string problem = HeaderProblem(schedule); !problem.empty()) {
    return absl::InvalidArgumentError(problem);
  }
  if (schedule.actions.size() != static_cast<size_t>(schedule.workers)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule has ", schedule.actions.size(),
                     " lists for ", schedule.workers, " workers"));
  }
  int64_t compute = 0;
  for (int worker = 0; worker < schedule.workers; ++worker) {
    SC_RETURN_IF_ERROR(CheckList(schedule, worker, &compute));
  }
  if (compute + kSmallTable <
      int64_t{schedule.stages()} * schedule.microbatches) {
    return absl::InvalidArgumentError(
        absl::StrCat("the lists are incomplete: ", compute,
                     " compute actions for ", schedule.stages(), " stages and ",
                     schedule.microbatches, " microbatches"));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach::schedule

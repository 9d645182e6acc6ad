#include "schedule/greedy.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

size_t Index(int i) { return static_cast<size_t>(i); }

struct Stage {
  int worker = 0;
  int64_t weight = 0;
  int64_t later_weight = 0;  // of the worker's later stages
  int forwards = 0;          // done; likewise below
  int backwards = 0;
  int weight_gradients = 0;
  // By microbatch: when its input, and the gradient of its output, are there.
  std::vector<double> input_at;
  std::vector<double> gradient_at;
};

struct Worker {
  std::vector<int> stages;  // ascending
  double free_at = 0;
  int64_t in_flight = 0;
  bool last_was_forward = false;
};

struct Choice {
  double start = kNever;
  int rank = 0;  // less is better, at the same start
  int microbatch = 0;
  int stage = -1;
  ActionKind kind = ActionKind::kForward;

  bool operator<(const Choice& other) const {
    return std::tie(start, rank, microbatch, other.stage) <
           std::tie(other.start, other.rank, other.microbatch, stage);
  }
};

class Greedy {
 public:
  explicit Greedy(const GreedyOptions& options) : options_(options) {}

  absl::Status Prepare();
  Schedule Run();

 private:
  Choice BestOf(int worker) const;
  void Consider(const Worker& worker, int stage, ActionKind kind,
                int microbatch, double ready, Choice* best) const;
  int Rank(const Worker& worker, ActionKind kind) const;
  bool HasRoom(const Worker& worker, const Stage& stage) const {
    return options_.limit == 0 ||
           worker.in_flight + stage.weight + stage.later_weight <=
               options_.limit;
  }
  void Take(const Choice& choice);
  void FinishForward(int stage, int microbatch, double end);
  void FinishBackward(int stage, int microbatch, double end);
  double Duration(int stage, ActionKind kind) const;
  double TransferTime(int sender, int receiver, int output_of) const;

  const GreedyOptions& options_;
  std::vector<Stage> stages_;
  std::vector<Worker> workers_;
  std::vector<Choice> choices_;  // by worker
  Schedule schedule_;
};

absl::Status Greedy::Prepare() {
  schedule_.kind = "auto";
  schedule_.workers = options_.workers;
  schedule_.stages_per_worker = options_.stages_per_worker;
  schedule_.microbatches = options_.microbatches;
  schedule_.placement = options_.placement;
  schedule_.actions.resize(Index(options_.workers));
  workers_.resize(Index(options_.workers));
  stages_.resize(options_.placement.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    stage.worker = options_.placement[s].value();
    stage.weight = options_.weights.empty() ? 1 : options_.weights[s];
    stage.input_at.assign(Index(options_.microbatches), kNever);
    if (s == 0) stage.input_at.assign(stage.input_at.size(), 0);
    stage.gradient_at.assign(Index(options_.microbatches), kNever);
    workers_[Index(stage.worker)].stages.push_back(static_cast<int>(s));
  }
  for (size_t w = 0; w < workers_.size(); ++w) {
    int64_t all = 0;
    std::vector<int>& own = workers_[w].stages;
    for (auto it = own.rbegin(); it != own.rend(); ++it) {
      stages_[Index(*it)].later_weight = all;
      all += stages_[Index(*it)].weight;
    }
    if (options_.limit == 0 || all <= options_.limit) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("w", w, ": one microbatch alone has ", all,
                     " in flight, over the limit of ", options_.limit,
                     "; raise it, or take smaller microbatches"));
  }
  return absl::OkStatus();
}

double Greedy::Duration(int stage, ActionKind kind) const {
  const StageCosts& costs = options_.costs[Index(stage)];
  switch (kind) {
    case ActionKind::kForward:
      return costs.forward;
    case ActionKind::kBackward:
      return costs.FullBackward();
    case ActionKind::kBackwardInput:
      return costs.backward_input;
    default:
      return costs.backward_weight;
  }
}

double Greedy::TransferTime(int sender, int receiver, int output_of) const {
  if (options_.transfer_times.empty() ||
      stages_[Index(sender)].worker == stages_[Index(receiver)].worker) {
    return 0;
  }
  return options_.transfer_times[Index(output_of)];
}

int Greedy::Rank(const Worker& worker, ActionKind kind) const {
  if (kind == ActionKind::kBackwardWeight) return 2;
  const bool forward = kind == ActionKind::kForward;
  switch (options_.order) {
    case GreedyOrder::kBackwardFirst:
      return forward ? 1 : 0;
    case GreedyOrder::kForwardFirst:
      return forward ? 0 : 1;
    case GreedyOrder::kAlternate:
      return forward == worker.last_was_forward ? 1 : 0;
  }
  return 0;
}

void Greedy::Consider(const Worker& worker, int stage, ActionKind kind,
                      int microbatch, double ready, Choice* best) const {
  Choice choice;
  choice.start = std::max(worker.free_at, ready);
  choice.rank = Rank(worker, kind);
  choice.microbatch = microbatch;
  choice.stage = stage;
  choice.kind = kind;
  if (choice.start < kNever && choice < *best) *best = choice;
}

Choice Greedy::BestOf(int index) const {
  const Worker& worker = workers_[Index(index)];
  const int total = options_.microbatches;
  Choice best;
  for (const int s : worker.stages) {
    const Stage& stage = stages_[Index(s)];
    if (stage.forwards < total && HasRoom(worker, stage)) {
      Consider(worker, s, ActionKind::kForward, stage.forwards,
               stage.input_at[Index(stage.forwards)], &best);
    }
    if (stage.backwards < stage.forwards) {
      Consider(worker, s,
               options_.split_backward ? ActionKind::kBackwardInput
                                       : ActionKind::kBackward,
               stage.backwards, stage.gradient_at[Index(stage.backwards)],
               &best);
    }
    if (stage.weight_gradients < stage.backwards) {
      Consider(worker, s, ActionKind::kBackwardWeight, stage.weight_gradients,
               0, &best);
    }
  }
  return best;
}

void Greedy::FinishForward(int s, int m, double end) {
  workers_[Index(stages_[Index(s)].worker)].in_flight +=
      stages_[Index(s)].weight;
  ++stages_[Index(s)].forwards;
  if (s + 1 == static_cast<int>(stages_.size())) {
    stages_[Index(s)].gradient_at[Index(m)] = end;
    return;
  }
  stages_[Index(s + 1)].input_at[Index(m)] = end + TransferTime(s, s + 1, s);
}

void Greedy::FinishBackward(int s, int m, double end) {
  ++stages_[Index(s)].backwards;
  if (s == 0) return;
  stages_[Index(s - 1)].gradient_at[Index(m)] =
      end + TransferTime(s, s - 1, s - 1);
}

void Greedy::Take(const Choice& choice) {
  Stage& stage = stages_[Index(choice.stage)];
  Worker& worker = workers_[Index(stage.worker)];
  const double end = choice.start + Duration(choice.stage, choice.kind);
  worker.free_at = end;
  if (choice.kind == ActionKind::kForward) {
    FinishForward(choice.stage, choice.microbatch, end);
    worker.last_was_forward = true;
  } else if (choice.kind != ActionKind::kBackwardWeight) {
    FinishBackward(choice.stage, choice.microbatch, end);
    worker.last_was_forward = false;
  }
  if (choice.kind == ActionKind::kBackward) ++stage.weight_gradients;
  if (choice.kind == ActionKind::kBackwardWeight) ++stage.weight_gradients;
  if (choice.kind == ActionKind::kBackward ||
      choice.kind == ActionKind::kBackwardWeight) {
    worker.in_flight -= stage.weight;
  }
  schedule_.actions[Index(stage.worker)].push_back(
      Action{choice.kind, StageIndex(choice.stage),
             MicrobatchIndex(choice.microbatch)});
}

// In the order of starts, so that what a worker sees ready is all that is.
Schedule Greedy::Run() {
  for (int w = 0; w < options_.workers; ++w) choices_.push_back(BestOf(w));
  while (true) {
    const auto next = std::min_element(
        choices_.begin(), choices_.end(),
        [](const Choice& a, const Choice& b) { return a.start < b.start; });
    if (next->stage < 0) return std::move(schedule_);
    const Choice choice = *next;
    Take(choice);
    for (int s = choice.stage - 1; s <= choice.stage + 1; ++s) {
      if (s < 0 || s >= static_cast<int>(stages_.size())) continue;
      const int worker = stages_[Index(s)].worker;
      choices_[Index(worker)] = BestOf(worker);
    }
  }
}

}  // namespace

absl::StatusOr<Schedule> GreedySchedule(const GreedyOptions& options) {
  if (options.costs.size() != options.placement.size() ||
      (!options.weights.empty() &&
       options.weights.size() != options.placement.size()) ||
      (!options.transfer_times.empty() &&
       options.transfer_times.size() != options.placement.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("costs, weights and transfer times must be those of ",
                     options.placement.size(), " stages"));
  }
  Greedy greedy(options);
  if (absl::Status status = greedy.Prepare(); !status.ok()) return status;
  return greedy.Run();
}

}  // namespace stagecoach::schedule

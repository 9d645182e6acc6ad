#include "schedule/lowering.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "schedule/edge_table.h"
#include "schedule/list_run.h"
#include "schedule/shape.h"

namespace stagecoach::schedule {
namespace {

constexpr int kAbsent = -1;

size_t Size(int value) { return static_cast<size_t>(value); }

absl::Status CheckOptions(const LoweringOptions& options) {
  if (options.send_budget < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "send_budget is ", options.send_budget, "; it must be at least 1"));
  }
  if (options.max_receive_depth < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_receive_depth is ", options.max_receive_depth,
                     "; it must be at least 1, or 0 for no limit"));
  }
  return absl::OkStatus();
}

absl::Status CheckInput(const Schedule& schedule,
                        const LoweringOptions& options) {
  SC_RETURN_IF_ERROR(CheckOptions(options));
  SC_RETURN_IF_ERROR(CheckShape(schedule));
  if (schedule.lowered()) {
    return absl::InvalidArgumentError("the schedule is lowered already");
  }
  return absl::OkStatus();
}

absl::Status CheckComputeOnly(const Schedule& compute) {
  for (size_t w = 0; w < compute.actions.size(); ++w) {
    for (const Action& action : compute.actions[w]) {
      if (IsCompute(action.kind)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("w", w, ": ", ToString(action),
                       " is not a compute action; lowering adds the others"));
    }
  }
  return absl::OkStatus();
}

// A RECV and the index, in the receiver's compute list, that it stands before.
struct PlacedReceive {
  int before = 0;
  Action action;
};

// A transfer as its receiver sees it.
struct Transfer {
  Action receive;
  int consumer_at = 0;  // index of the consumer in the receiver's list
};

class Lowering {
 public:
  Lowering(const Schedule& compute, const LoweringOptions& options)
      : compute_(compute), options_(options), table_(compute) {}

  absl::StatusOr<Schedule> Run();
  absl::StatusOr<Schedule> RunWithTransfers();

 private:
  absl::Status IndexConsumers();
  absl::Status CollectTransfers();
  absl::Status AddTransfer(int edge, const Action& producer);
  void PlaceReceives();
  void EmitLists();
  void AddAwaits();
  void EmitTail(const Action& action, std::vector<Action>* list) const;
  void AddTiedReductions();
  absl::Status PlanDepths();
  absl::Status ProveLive();
  void PlanPools();

  size_t Key(StageIndex stage, MicrobatchIndex m) const {
    return stage.index() * Size(compute_.microbatches) + m.index();
  }
  absl::StatusOr<ListRun> RunOnce(bool unlimited) const;
  absl::StatusOr<bool> IsLive(int depth);

  const Schedule& compute_;
  const LoweringOptions& options_;
  const EdgeTable table_;
  bool has_backward_ = false;
  int deepest_ = 0;  // largest D without a limit
  // By stage and microbatch: index of its F, and of its B or I.
  std::vector<int> forward_at_;
  std::vector<int> gradient_at_;
  std::vector<std::vector<Transfer>> transfers_;      // by edge, in SEND order
  std::vector<std::vector<PlacedReceive>> receives_;  // by worker
  Schedule result_;
};

absl::Status Lowering::IndexConsumers() {
  const size_t chunks = Size(compute_.stages()) * Size(compute_.microbatches);
  forward_at_.assign(chunks, kAbsent);
  gradient_at_.assign(chunks, kAbsent);
  for (size_t w = 0; w < compute_.actions.size(); ++w) {
    const std::vector<Action>& list = compute_.actions[w];
    for (size_t i = 0; i < list.size(); ++i) {
      if (!IsCompute(list[i].kind) ||
          list[i].kind == ActionKind::kBackwardWeight) {
        continue;
      }
      const bool forward = list[i].kind == ActionKind::kForward;
      has_backward_ |= !forward;
      int& at =
          (forward ? forward_at_
                   : gradient_at_)[Key(list[i].stage, list[i].microbatch)];
      if (at != kAbsent) {
        return absl::InvalidArgumentError(absl::StrCat(
            "w", w, ": ", ToString(list[i]), " is the second of its kind"));
      }
      at = static_cast<int>(i);
    }
  }
  return absl::OkStatus();
}

absl::Status Lowering::AddTransfer(int edge, const Action& producer) {
  const bool forward = producer.kind == ActionKind::kForward;
  Transfer transfer;
  transfer.receive.kind =
      forward ? ActionKind::kReceiveActivation : ActionKind::kReceiveGradient;
  transfer.receive.stage =
      forward ? producer.stage.Next() : producer.stage.Previous();
  transfer.receive.microbatch = producer.microbatch;
  const size_t key = Key(transfer.receive.stage, producer.microbatch);
  transfer.consumer_at = (forward ? forward_at_ : gradient_at_)[key];
  if (transfer.consumer_at == kAbsent) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stage ", transfer.receive.stage.value(), " never uses what ",
        ToString(producer), " sends it: its ", forward ? "F" : "B",
        producer.microbatch.value(), " is missing"));
  }
  transfers_[Size(edge)].push_back(transfer);
  return absl::OkStatus();
}

absl::Status Lowering::CollectTransfers() {
  transfers_.resize(Size(table_.size()));
  for (const std::vector<Action>& list : compute_.actions) {
    for (const Action& action : list) {
      if (action.kind == ActionKind::kBackwardWeight) continue;
      const int edge = action.kind == ActionKind::kForward
                           ? table_.ActivationOut(action.stage)
                           : table_.GradientOut(action.stage);
      if (edge >= 0) SC_RETURN_IF_ERROR(AddTransfer(edge, action));
    }
  }
  return absl::OkStatus();
}

// An edge delivers in SEND order, so a transfer is received no later than the
// ones behind it: before the earliest consumer among them.
void Lowering::PlaceReceives() {
  receives_.resize(Size(compute_.workers));
  for (int e = 0; e < table_.size(); ++e) {
    std::vector<Transfer>& transfers = transfers_[Size(e)];
    int earliest = std::numeric_limits<int>::max();
    for (auto it = transfers.rbegin(); it != transfers.rend(); ++it) {
      it->consumer_at = earliest = std::min(earliest, it->consumer_at);
    }
    std::vector<PlacedReceive>& placed = receives_[table_.id(e).to.index()];
    for (const Transfer& transfer : transfers) {
      placed.push_back(PlacedReceive{transfer.consumer_at, transfer.receive});
    }
  }
  for (std::vector<PlacedReceive>& placed : receives_) {
    std::stable_sort(placed.begin(), placed.end(),
                     [](const PlacedReceive& a, const PlacedReceive& b) {
                       return a.before < b.before;
                     });
  }
}

// What follows a compute action that produces for another worker.
void Lowering::EmitTail(const Action& action, std::vector<Action>* list) const {
  const bool forward = action.kind == ActionKind::kForward;
  const bool sends = forward ? compute_.SendsActivation(action.stage)
                             : compute_.SendsGradient(action.stage);
  if (!sends || action.kind == ActionKind::kBackwardWeight) return;
  Action tail = action;
  tail.kind = forward ? ActionKind::kAwaitActivationRelease
                      : ActionKind::kAwaitGradientRelease;
  list->push_back(tail);
  tail.kind = forward ? ActionKind::kSendActivation : ActionKind::kSendGradient;
  list->push_back(tail);
}

void Lowering::EmitLists() {
  result_ = compute_;
  result_.send_budget = options_.send_budget;
  for (size_t w = 0; w < compute_.actions.size(); ++w) {
    std::vector<Action> list;
    list.reserve(2 * compute_.actions[w].size() + 2 * receives_[w].size());
    auto receive = receives_[w].begin();
    for (size_t i = 0; i < compute_.actions[w].size(); ++i) {
      for (; receive != receives_[w].end() &&
             receive->before == static_cast<int>(i);
           ++receive) {
        list.push_back(receive->action);
      }
      list.push_back(compute_.actions[w][i]);
      EmitTail(compute_.actions[w][i], &list);
    }
    result_.actions[w] = std::move(list);
  }
}

void Lowering::AddAwaits() {
  result_ = compute_;
  result_.send_budget = options_.send_budget;
  for (std::vector<Action>& list : result_.actions) {
    std::vector<Action> with_awaits;
    with_awaits.reserve(list.size() + list.size() / 2);
    for (const Action& action : list) {
      if (IsSend(action.kind)) {
        Action await = action;
        await.kind = action.kind == ActionKind::kSendActivation
                         ? ActionKind::kAwaitActivationRelease
                         : ActionKind::kAwaitGradientRelease;
        with_awaits.push_back(await);
      }
      with_awaits.push_back(action);
    }
    list = std::move(with_awaits);
  }
}

// Evaluation has no gradients to reduce.
void Lowering::AddTiedReductions() {
  if (!options_.tied_embeddings || !has_backward_) return;
  const StageIndex first(0);
  const StageIndex last(compute_.stages() - 1);
  Action reduce;
  reduce.kind = ActionKind::kReduceTied;
  reduce.stage = first;
  result_.actions[compute_.WorkerOf(first).index()].push_back(reduce);
  if (compute_.WorkerOf(first) == compute_.WorkerOf(last)) return;
  reduce.stage = last;
  result_.actions[compute_.WorkerOf(last).index()].push_back(reduce);
}

absl::StatusOr<ListRun> Lowering::RunOnce(bool unlimited) const {
  ListRunOptions options;
  options.durations.resize(result_.placement.size());
  options.unlimited_depth = unlimited;
  return RunLists(result_, options);
}

// Most transfers that were sent strictly before their RECV was reached.
int MostSentAhead(const EdgeRun& edge) {
  size_t most = 0;
  size_t reached = 0;
  for (size_t n = 0; n < edge.sent.size(); ++n) {
    while (reached < edge.reached.size() &&
           edge.reached[reached] <= edge.sent[n]) {
      ++reached;
    }
    if (n + 1 > reached) most = std::max(most, n + 1 - reached);
  }
  return static_cast<int>(most);
}

absl::Status Lowering::PlanDepths() {
  SC_ASSIGN_OR_RETURN(const ListRun run, RunOnce(/*unlimited=*/true));
  if (!run.finished) {
    return absl::InvalidArgumentError(
        absl::StrCat("the lists cannot be run in order: ", run.stuck));
  }
  const int cap = options_.max_receive_depth;
  for (const EdgeRun& edge : run.edges) {
    if (edge.sent.empty()) continue;
    EdgePlan plan;
    plan.edge = edge.edge;
    plan.receive_depth =
        std::max({2, options_.send_budget, 1 + MostSentAhead(edge)});
    deepest_ = std::max(deepest_, plan.receive_depth);
    if (cap > 0) plan.receive_depth = std::min(plan.receive_depth, cap);
    result_.edges.push_back(plan);
  }
  return absl::OkStatus();
}

// With D at least `depth` on every edge.
absl::StatusOr<bool> Lowering::IsLive(int depth) {
  const std::vector<EdgePlan> planned = result_.edges;
  for (EdgePlan& plan : result_.edges) {
    plan.receive_depth = std::max(plan.receive_depth, depth);
  }
  SC_ASSIGN_OR_RETURN(const ListRun run, RunOnce(/*unlimited=*/false));
  result_.edges = planned;
  return run.finished;
}

// The unlimited run gets through with the depths taken from it, so only a limit
// can make them too small. Then other edges may help out: all are raised to the
// smallest depth that is live, if that is within the limit.
absl::Status Lowering::ProveLive() {
  SC_ASSIGN_OR_RETURN(const bool live, IsLive(0));
  if (live) return absl::OkStatus();
  int too_small = 0;
  int enough = deepest_;
  while (too_small + 1 < enough) {
    const int middle = too_small + (enough - too_small) / 2;
    SC_ASSIGN_OR_RETURN(const bool middle_live, IsLive(middle));
    (middle_live ? enough : too_small) = middle;
  }
  if (enough > options_.max_receive_depth) {
    return absl::InvalidArgumentError(
        absl::StrCat("receive depth ", options_.max_receive_depth,
                     " is not live with send_budget ", options_.send_budget,
                     "; the smallest that is live is ", enough,
                     ": raise the limit, or send_budget by the difference"));
  }
  for (EdgePlan& plan : result_.edges) {
    plan.receive_depth = std::max(plan.receive_depth, enough);
  }
  return absl::OkStatus();
}

// A received activation is held to the end of its stage's backward (of its F if
// there is none), a gradient likewise. Only whole lists are counted.
void Lowering::PlanPools() {
  std::vector<int> held(Size(table_.size()), 0);
  std::vector<int> peak(Size(table_.size()), 0);
  const auto release = [&held](int edge) {
    if (edge >= 0) --held[Size(edge)];
  };
  for (const std::vector<Action>& list : result_.actions) {
    for (const Action& action : list) {
      if (IsReceive(action.kind)) {
        const size_t edge = Size(table_.Of(action));
        peak[edge] = std::max(peak[edge], ++held[edge]);
      } else if (action.kind == ActionKind::kBackward ||
                 action.kind == ActionKind::kBackwardWeight) {
        release(table_.ActivationIn(action.stage));
        release(table_.GradientIn(action.stage));
      } else if (action.kind == ActionKind::kForward && !has_backward_) {
        release(table_.ActivationIn(action.stage));
      }
    }
  }
  int e = 0;
  for (EdgePlan& plan : result_.edges) {
    while (!(table_.id(e) == plan.edge)) ++e;
    plan.pool_slots = peak[Size(e)] + plan.receive_depth;
  }
}

absl::StatusOr<Schedule> Lowering::Run() {
  SC_RETURN_IF_ERROR(IndexConsumers());
  SC_RETURN_IF_ERROR(CollectTransfers());
  PlaceReceives();
  EmitLists();
  AddTiedReductions();
  SC_RETURN_IF_ERROR(PlanDepths());
  SC_RETURN_IF_ERROR(ProveLive());
  PlanPools();
  return std::move(result_);
}

absl::StatusOr<Schedule> Lowering::RunWithTransfers() {
  SC_RETURN_IF_ERROR(IndexConsumers());
  AddAwaits();
  AddTiedReductions();
  SC_RETURN_IF_ERROR(PlanDepths());
  SC_RETURN_IF_ERROR(ProveLive());
  PlanPools();
  return std::move(result_);
}

absl::Status CheckTransfers(const Schedule& transfers) {
  for (size_t w = 0; w < transfers.actions.size(); ++w) {
    for (const Action& action : transfers.actions[w]) {
      if (IsCompute(action.kind) || IsSend(action.kind) ||
          IsReceive(action.kind)) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("w", w, ": ", ToString(action),
                       " is neither computation nor a transfer; lowering adds "
                       "it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> Lower(const Schedule& compute,
                               const LoweringOptions& options) {
  SC_RETURN_IF_ERROR(CheckInput(compute, options));
  SC_RETURN_IF_ERROR(CheckComputeOnly(compute));
  return Lowering(compute, options).Run();
}

absl::StatusOr<Schedule> LowerWithTransfers(const Schedule& transfers,
                                            const LoweringOptions& options) {
  SC_RETURN_IF_ERROR(CheckInput(transfers, options));
  SC_RETURN_IF_ERROR(CheckTransfers(transfers));
  return Lowering(transfers, options).RunWithTransfers();
}

}  // namespace stagecoach::schedule

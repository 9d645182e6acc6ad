#include "schedule/verifier_view.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::schedule::verifier {
namespace {

// Workers named per kind; the rest are counted.
constexpr size_t kMaxNamed = 16;

constexpr const char* kKindNames[] = {
    "shape",      "placement", "missing", "duplicate", "order",
    "edge_order", "deadlock",  "tied",    "release",   "memory",
};

}  // namespace

bool Findings::Wants(ErrorKind kind, int worker) {
  Group& group = groups_[static_cast<size_t>(kind)];
  ++group.count;
  const std::vector<WorkerIndex>& named = group.error.workers;
  return named.size() < kMaxNamed &&
         std::find(named.begin(), named.end(), WorkerIndex(worker)) ==
             named.end();
}

void Findings::Add(ErrorKind kind, int worker, const std::string& action,
                   const std::string& message) {
  VerifyError& error = groups_[static_cast<size_t>(kind)].error;
  error.workers.push_back(WorkerIndex(worker));
  if (!action.empty()) error.actions.push_back(action);
  if (error.message.empty()) error.message = message;
}

void Findings::AddWhole(ErrorKind kind, VerifyError error) {
  Group& group = groups_[static_cast<size_t>(kind)];
  ++group.count;
  group.error = std::move(error);
}

bool Findings::empty() const {
  return std::all_of(groups_.begin(), groups_.end(),
                     [](const Group& group) { return group.count == 0; });
}

std::vector<VerifyError> Findings::Take() {
  std::vector<VerifyError> errors;
  for (size_t kind = 0; kind < groups_.size(); ++kind) {
    Group& group = groups_[kind];
    if (group.count == 0) continue;
    group.error.kind = kKindNames[kind];
    if (group.count > 1) {
      absl::StrAppend(&group.error.message, " (and ", group.count - 1,
                      " more like it)");
    }
    errors.push_back(std::move(group.error));
  }
  return errors;
}

std::string At(int worker, const Action& action) {
  return absl::StrCat("w", worker, ": ", ToString(action));
}

View::View(const Schedule& schedule) : schedule_(schedule) {
  for (const WorkerIndex worker : schedule.placement) {
    worker_of_.push_back(worker.value());
  }
  for (const std::vector<Action>& list : schedule.actions) {
    for (const Action& action : list) {
      has_backward_ |= action.kind == ActionKind::kBackward ||
                       action.kind == ActionKind::kBackwardInput ||
                       action.kind == ActionKind::kBackwardWeight;
    }
  }
  NumberEdges();
  ReadPlans();
}

size_t View::Find(int from, int to, Direction direction) const {
  const auto order = [](const Edge& edge) {
    return std::make_tuple(edge.from, edge.to, edge.direction);
  };
  const auto wanted = std::make_tuple(from, to, direction);
  const auto it = std::lower_bound(edges_.begin(), edges_.end(), wanted,
                                   [&order](const Edge& edge, const auto& key) {
                                     return order(edge) < key;
                                   });
  if (it == edges_.end() || order(*it) != wanted) return edges_.size();
  return static_cast<size_t>(it - edges_.begin());
}

void View::NumberEdges() {
  const size_t count = worker_of_.size();
  activation_out_.assign(count, -1);
  gradient_out_.assign(count, -1);
  std::vector<std::tuple<int, int, Direction>> wires;
  for (size_t s = 0; s + 1 < count; ++s) {
    const int here = worker_of_[s];
    const int next = worker_of_[s + 1];
    if (here == next) continue;
    wires.emplace_back(here, next, Direction::kActivation);
    wires.emplace_back(next, here, Direction::kGradient);
  }
  std::sort(wires.begin(), wires.end());
  wires.erase(std::unique(wires.begin(), wires.end()), wires.end());
  for (const auto& [from, to, direction] : wires) {
    Edge edge;
    edge.from = from;
    edge.to = to;
    edge.direction = direction;
    edges_.push_back(edge);
  }
  for (size_t s = 0; s + 1 < count; ++s) {
    const int here = worker_of_[s];
    const int next = worker_of_[s + 1];
    if (here == next) continue;
    activation_out_[s] =
        static_cast<int>(Find(here, next, Direction::kActivation));
    gradient_out_[s + 1] =
        static_cast<int>(Find(next, here, Direction::kGradient));
  }
}

void View::ReadPlans() {
  for (const EdgePlan& plan : schedule_.edges) {
    const size_t index =
        Find(plan.edge.from.value(), plan.edge.to.value(), plan.edge.direction);
    if (index == edges_.size()) continue;
    edges_[index].depth = plan.receive_depth;
    edges_[index].pool_slots = plan.pool_slots;
  }
}

int View::edge_of(const Action& action) const {
  const int stage = action.stage.value();
  switch (action.kind) {
    case ActionKind::kSendActivation:
    case ActionKind::kAwaitActivationRelease:
      return activation_out(stage);
    case ActionKind::kReceiveActivation:
      return activation_in(stage);
    case ActionKind::kSendGradient:
    case ActionKind::kAwaitGradientRelease:
      return gradient_out(stage);
    case ActionKind::kReceiveGradient:
      return gradient_in(stage);
    default:
      return -1;
  }
}

}  // namespace stagecoach::schedule::verifier

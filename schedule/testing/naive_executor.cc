#include "schedule/testing/naive_executor.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stagecoach::schedule::testing {
namespace {

// (stage, microbatch)
using Chunk = std::pair<int, int>;

struct Wire {
  std::deque<Chunk> in_transit;  // named by the receiving stage
  std::set<Chunk> awaited;       // AWAIT run, SEND not yet
  int sent = 0;
  int reached = 0;
  int received = 0;
  int held = 0;
};

class NaiveExecutor {
 public:
  explicit NaiveExecutor(const Schedule& schedule)
      : s_(schedule), next_(schedule.actions.size(), 0) {}

  std::string Run() {
    bool moved = true;
    while (moved && wrong_.empty()) {
      moved = false;
      granted_ = false;
      for (size_t w = 0; w < next_.size() && wrong_.empty(); ++w) {
        while (wrong_.empty() && next_[w] < s_.actions[w].size() &&
               Step(static_cast<int>(w), s_.actions[w][next_[w]])) {
          ++next_[w];
          moved = true;
        }
      }
      moved |= granted_;
    }
    if (wrong_.empty()) CheckEnd();
    return wrong_;
  }

 private:
  bool Wrong(const Action& action, const std::string& what) {
    wrong_ = absl::StrCat(ToString(action), ": ", what);
    return false;
  }

  bool Crosses(int stage, int neighbour) const {
    return neighbour >= 0 && neighbour < s_.stages() &&
           s_.placement[static_cast<size_t>(stage)] !=
               s_.placement[static_cast<size_t>(neighbour)];
  }

  // False: it has to wait, or something is wrong.
  bool Step(int worker, const Action& a) {
    if (s_.placement[a.stage.index()].value() != worker) {
      return Wrong(a, "not this worker's stage");
    }
    const Chunk chunk(a.stage.value(), a.microbatch.value());
    switch (a.kind) {
      case ActionKind::kForward:
        return Forward(a, chunk);
      case ActionKind::kBackward:
        return InputGradient(a, chunk) && WeightGradient(a, chunk);
      case ActionKind::kBackwardInput:
        return InputGradient(a, chunk);
      case ActionKind::kBackwardWeight:
        return WeightGradient(a, chunk);
      case ActionKind::kSendActivation:
      case ActionKind::kSendGradient:
        return Send(a, chunk);
      case ActionKind::kReceiveActivation:
      case ActionKind::kReceiveGradient:
        return Receive(a, chunk);
      case ActionKind::kAwaitActivationRelease:
      case ActionKind::kAwaitGradientRelease:
        return Await(a, chunk);
      case ActionKind::kReduceTied:
        break;
    }
    return Wrong(a, "not known here");
  }

  bool Forward(const Action& a, const Chunk& chunk) {
    if (chunk.first > 0 && inputs_.erase(chunk) == 0) {
      return Wrong(a, "has no input");
    }
    if (++forwards_[chunk] > 1) return Wrong(a, "again");
    saved_.insert(chunk);
    const Chunk next(chunk.first + 1, chunk.second);
    if (Crosses(chunk.first, next.first)) {
      outputs_.insert(chunk);
    } else if (next.first < s_.stages()) {
      inputs_.insert(next);
    }
    return true;
  }

  bool InputGradient(const Action& a, const Chunk& chunk) {
    if (saved_.erase(chunk) == 0) return Wrong(a, "has no forward");
    if (chunk.first + 1 < s_.stages() && gradients_.erase(chunk) == 0) {
      return Wrong(a, "has no gradient");
    }
    weights_due_.insert(chunk);
    const Chunk before(chunk.first - 1, chunk.second);
    if (Crosses(chunk.first, before.first)) {
      input_gradients_.insert(chunk);
    } else if (before.first >= 0) {
      gradients_.insert(before);
    }
    return true;
  }

  bool WeightGradient(const Action& a, const Chunk& chunk) {
    if (weights_due_.erase(chunk) == 0) return Wrong(a, "has no I before it");
    ++backwards_[chunk];
    if (Crosses(chunk.first, chunk.first - 1)) {
      --WireFor(ActionKind::kReceiveActivation, a).held;
    }
    if (Crosses(chunk.first, chunk.first + 1)) {
      --WireFor(ActionKind::kReceiveGradient, a).held;
    }
    return true;
  }

  Wire& WireFor(ActionKind kind, const Action& a) {
    return wires_[s_.EdgeOf(Action{kind, a.stage, a.microbatch})];
  }

  bool OverAWire(const Action& a) const {
    const bool forth = DirectionOf(a.kind) == Direction::kActivation;
    const int stage = a.stage.value();
    return Crosses(stage, forth != IsReceive(a.kind) ? stage + 1 : stage - 1);
  }

  const EdgePlan* PlanOf(const Action& a) const {
    for (const EdgePlan& plan : s_.edges) {
      if (plan.edge == s_.EdgeOf(a)) return &plan;
    }
    return nullptr;
  }

  bool Await(const Action& a, const Chunk& chunk) {
    if (!OverAWire(a)) return Wrong(a, "crosses no wire");
    Wire& wire = WireFor(a.kind, a);
    const bool forth = DirectionOf(a.kind) == Direction::kActivation;
    if ((forth ? outputs_ : input_gradients_).count(chunk) == 0) {
      return Wrong(a, "has nothing to wait for");
    }
    if (!wire.awaited.empty()) return Wrong(a, "a second wait");
    const int granted = PlanOf(a)->receive_depth + wire.reached;
    const int acknowledged = std::min(wire.sent, granted);
    if (wire.sent - acknowledged >= s_.send_budget) return false;
    wire.awaited.insert(chunk);
    return true;
  }

  bool Send(const Action& a, const Chunk& chunk) {
    if (!OverAWire(a)) return Wrong(a, "crosses no wire");
    Wire& wire = WireFor(a.kind, a);
    if (wire.awaited.erase(chunk) == 0) return Wrong(a, "was not awaited");
    const bool forth = a.kind == ActionKind::kSendActivation;
    (forth ? outputs_ : input_gradients_).erase(chunk);
    wire.in_transit.emplace_back(chunk.first + (forth ? 1 : -1), chunk.second);
    ++wire.sent;
    return true;
  }

  bool Receive(const Action& a, const Chunk& chunk) {
    if (!OverAWire(a)) return Wrong(a, "crosses no wire");
    Wire& wire = WireFor(a.kind, a);
    if (wire.reached == wire.received) {
      ++wire.reached;
      granted_ = true;
    }
    if (wire.in_transit.empty()) return false;
    if (wire.in_transit.front() != chunk) {
      return Wrong(a, "gets another microbatch");
    }
    wire.in_transit.pop_front();
    ++wire.received;
    ++wire.held;
    const EdgePlan* plan = PlanOf(a);
    if (wire.held + plan->receive_depth > plan->pool_slots) {
      return Wrong(a, "finds the pool too small");
    }
    (a.kind == ActionKind::kReceiveActivation ? inputs_ : gradients_)
        .insert(chunk);
    return true;
  }

  void CheckEnd() {
    for (size_t w = 0; w < next_.size(); ++w) {
      if (next_[w] < s_.actions[w].size()) {
        wrong_ = absl::StrCat("w", w, " waits for ever at ",
                              ToString(s_.actions[w][next_[w]]));
        return;
      }
    }
    for (int stage = 0; stage < s_.stages(); ++stage) {
      for (int m = 0; m < s_.microbatches; ++m) {
        if (forwards_[{stage, m}] != 1 || backwards_[{stage, m}] != 1) {
          wrong_ = absl::StrCat("stage ", stage, ", microbatch ", m,
                                " did not run once");
          return;
        }
      }
    }
    for (const auto& [edge, wire] : wires_) {
      if (!wire.in_transit.empty() || !wire.awaited.empty()) {
        wrong_ = ToString(edge) + " is not empty";
      }
    }
    if (!outputs_.empty() || !input_gradients_.empty()) {
      wrong_ = "something was never sent";
    }
  }

  const Schedule& s_;
  std::vector<size_t> next_;
  std::string wrong_;
  bool granted_ = false;  // a RECV was reached for the first time
  std::map<EdgeId, Wire> wires_;
  std::set<Chunk> inputs_;           // of a stage that has not run yet
  std::set<Chunk> saved_;            // forward done, backward not
  std::set<Chunk> gradients_;        // of a stage's output
  std::set<Chunk> weights_due_;      // I done, W not
  std::set<Chunk> outputs_;          // to be sent
  std::set<Chunk> input_gradients_;  // to be sent
  std::map<Chunk, int> forwards_;
  std::map<Chunk, int> backwards_;
};

}  // namespace

std::string RunNaively(const Schedule& schedule) {
  return NaiveExecutor(schedule).Run();
}

}  // namespace stagecoach::schedule::testing

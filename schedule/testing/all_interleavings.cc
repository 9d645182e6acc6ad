#include "schedule/testing/all_interleavings.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace stagecoach::schedule::testing {
namespace {

using Chunk = std::pair<int, int>;  // (stage, microbatch)

// The stage at the other end of a communication action.
int OtherStage(const Action& a) {
  const bool up =
      (DirectionOf(a.kind) == Direction::kActivation) != IsReceive(a.kind);
  return a.stage.value() + (up ? 1 : -1);
}

// A changed list may send or receive where there is no other stage.
bool IsOn(const Schedule& schedule, const Action& a, const EdgeId& edge) {
  const int other = OtherStage(a);
  return other >= 0 && other < schedule.stages() && schedule.EdgeOf(a) == edge;
}

// What of a list does not depend on time: since transfers of an edge arrive in
// the order in which they were sent, the n-th RECV of an edge gets its n-th
// SEND whenever it gets anything, and a worker alone tells which of its actions
// can make no sense.
class Script {
 public:
  Script(const Schedule& schedule, int worker) : s_(schedule), worker_(worker) {
    const std::vector<Action>& list = s_.actions[static_cast<size_t>(worker)];
    while (length_ < static_cast<int>(list.size()) &&
           MakesSense(list[static_cast<size_t>(length_)])) {
      ++length_;
    }
    whole_ = length_ == static_cast<int>(list.size()) && unsent_.empty() &&
             awaited_.empty() && RanEverything();
  }

  // Actions up to the first that makes no sense.
  int length() const { return length_; }
  // All of them make sense, and they are this worker's part of a step.
  bool whole() const { return whole_; }

 private:
  bool Crosses(int stage, int other) const {
    return other >= 0 && other < s_.stages() &&
           s_.placement[static_cast<size_t>(stage)] !=
               s_.placement[static_cast<size_t>(other)];
  }

  bool MakesSense(const Action& a) {
    if (s_.placement[a.stage.index()].value() != worker_) return false;
    const Chunk chunk(a.stage.value(), a.microbatch.value());
    if (IsCompute(a.kind)) return Computes(a.kind, chunk);
    if (!Crosses(a.stage.value(), OtherStage(a))) return false;
    if (IsReceive(a.kind)) return Receives(a, chunk);
    const auto output = std::make_pair(DirectionOf(a.kind), chunk);
    if (IsSend(a.kind)) {
      const auto awaited = awaited_.find(s_.EdgeOf(a));
      if (awaited == awaited_.end() || awaited->second != chunk) return false;
      awaited_.erase(awaited);
      unsent_.erase(output);
      return true;
    }
    return unsent_.count(output) > 0 &&
           awaited_.emplace(s_.EdgeOf(a), chunk).second;
  }

  bool Computes(ActionKind kind, const Chunk& chunk) {
    switch (kind) {
      case ActionKind::kForward:
        return Forward(chunk);
      case ActionKind::kBackwardInput:
        return InputGradient(chunk);
      case ActionKind::kBackwardWeight:
        return WeightGradient(chunk);
      default:
        return InputGradient(chunk) && WeightGradient(chunk);
    }
  }
  bool Forward(const Chunk& chunk) {
    if (chunk.first > 0 && inputs_.erase(chunk) == 0) return false;
    if (!forward_.insert(chunk).second) return false;
    const Chunk next(chunk.first + 1, chunk.second);
    if (Crosses(chunk.first, next.first)) {
      unsent_.insert({Direction::kActivation, chunk});
    } else if (next.first < s_.stages()) {
      inputs_.insert(next);
    }
    return true;
  }
  bool InputGradient(const Chunk& chunk) {
    if (forward_.count(chunk) == 0 || !input_done_.insert(chunk).second) {
      return false;
    }
    if (chunk.first + 1 < s_.stages() && gradients_.erase(chunk) == 0) {
      return false;
    }
    const Chunk before(chunk.first - 1, chunk.second);
    if (Crosses(chunk.first, before.first)) {
      unsent_.insert({Direction::kGradient, chunk});
    } else if (before.first >= 0) {
      gradients_.insert(before);
    }
    return true;
  }
  // The slots of what was received for this chunk are free again.
  bool WeightGradient(const Chunk& chunk) {
    if (input_done_.count(chunk) == 0 || !backward_.insert(chunk).second) {
      return false;
    }
    for (const int other : {chunk.first - 1, chunk.first + 1}) {
      if (!Crosses(chunk.first, other)) continue;
      const Action receive{other < chunk.first ? ActionKind::kReceiveActivation
                                               : ActionKind::kReceiveGradient,
                           StageIndex(chunk.first),
                           MicrobatchIndex(chunk.second)};
      --held_[s_.EdgeOf(receive)];
    }
    return true;
  }
  bool Receives(const Action& a, const Chunk& chunk) {
    const EdgeId edge = s_.EdgeOf(a);
    const int number = received_[edge]++;
    int sent = 0;
    for (const Action& send : s_.actions[edge.from.index()]) {
      if (!IsSend(send.kind) || !IsOn(s_, send, edge)) continue;
      if (sent++ < number) continue;
      if (OtherStage(send) != chunk.first ||
          send.microbatch.value() != chunk.second) {
        return false;
      }
      break;
    }
    ++held_[edge];
    for (const EdgePlan& plan : s_.edges) {
      if (plan.edge == edge &&
          held_[edge] + plan.receive_depth > plan.pool_slots) {
        return false;
      }
    }
    (a.kind == ActionKind::kReceiveActivation ? inputs_ : gradients_)
        .insert(chunk);
    return true;
  }

  bool RanEverything() const {
    size_t stages = 0;
    for (const WorkerIndex worker : s_.placement) {
      stages += worker.value() == worker_ ? 1 : 0;
    }
    const size_t chunks = stages * static_cast<size_t>(s_.microbatches);
    return forward_.size() == chunks && backward_.size() == chunks;
  }

  const Schedule& s_;
  const int worker_;
  int length_ = 0;
  bool whole_ = false;
  std::set<Chunk> inputs_, gradients_;  // there, not used yet
  std::set<Chunk> forward_, input_done_, backward_;
  std::set<std::pair<Direction, Chunk>> unsent_;
  std::map<EdgeId, Chunk> awaited_;
  std::map<EdgeId, int> received_, held_;
};

// Of each worker, how many actions it has done and whether it has reached the
// RECV that is next; of each edge, how many transfers were delivered and how
// many acknowledgements were seen.
using State = std::array<uint8_t, 32>;

class Explorer {
 public:
  Explorer(const Schedule& schedule, Computations computations)
      : s_(schedule), computations_(computations) {
    for (int w = 0; w < s_.workers; ++w) scripts_.emplace_back(s_, w);
    for (const EdgePlan& plan : s_.edges) CountTransfers(plan.edge);
  }

  Interleavings Run(int64_t most_states) {
    Interleavings result;
    if (2 * scripts_.size() + 2 * s_.edges.size() > State().size()) {
      return result;
    }
    std::vector<State> open = {State{}};
    absl::flat_hash_set<State> seen(open.begin(), open.end());
    std::set<std::vector<int>> outcomes;
    std::vector<State> next;
    result.ends_well = true;
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      next.clear();
      AddSuccessors(state, &next);
      for (const State& successor : next) {
        if (seen.insert(successor).second) open.push_back(successor);
      }
      if (static_cast<int64_t>(seen.size()) > most_states) return result;
      if (!next.empty()) continue;
      outcomes.insert(Positions(state));
      result.ends_well = result.ends_well && IsGoodEnd(state);
    }
    result.all_tried = true;
    result.states = static_cast<int64_t>(seen.size());
    result.outcomes.assign(outcomes.begin(), outcomes.end());
    return result;
  }

 private:
  // done[n]: transfers of the edge among the first n actions of a worker.
  using Counts = std::vector<int>;

  void CountTransfers(const EdgeId& edge) {
    const auto count = [&](WorkerIndex worker, bool sends) {
      Counts done = {0};
      for (const Action& a : s_.actions[worker.index()]) {
        const bool matches =
            (sends ? IsSend(a.kind) : IsReceive(a.kind)) && IsOn(s_, a, edge);
        done.push_back(done.back() + (matches ? 1 : 0));
      }
      return done;
    };
    sent_.push_back(count(edge.from, true));
    received_.push_back(count(edge.to, false));
  }

  static int At(const State& state, size_t i) { return state[i]; }
  static State Raised(State state, size_t i) {
    ++state[i];
    return state;
  }
  size_t Reached(size_t worker) const { return scripts_.size() + worker; }
  size_t Delivered(size_t edge) const { return 2 * scripts_.size() + edge; }
  size_t Acknowledged(size_t edge) const {
    return Delivered(edge) + s_.edges.size();
  }

  void AddSuccessors(const State& state, std::vector<State>* next) const {
    if (computations_ == Computations::kAlone) {
      for (size_t w = 0; w < scripts_.size(); ++w) {
        if (!ComputesNext(state, w)) continue;
        next->push_back(Raised(state, w));
        return;
      }
    }
    for (size_t w = 0; w < scripts_.size(); ++w) {
      if (At(state, w) < scripts_[w].length()) Act(state, w, next);
    }
    for (size_t e = 0; e < s_.edges.size(); ++e) {
      const EdgePlan& plan = s_.edges[e];
      const int sent = Sent(state, e);
      const int granted = plan.receive_depth + Taken(state, e) +
                          (WaitsFor(state, plan.edge) ? 1 : 0);
      const int delivered = At(state, Delivered(e));
      if (delivered < std::min(sent, granted)) {
        next->push_back(Raised(state, Delivered(e)));
      }
      if (At(state, Acknowledged(e)) < delivered) {
        next->push_back(Raised(state, Acknowledged(e)));
      }
    }
  }

  bool ComputesNext(const State& state, size_t w) const {
    return At(state, w) < scripts_[w].length() &&
           IsCompute(s_.actions[w][static_cast<size_t>(At(state, w))].kind);
  }

  void Act(const State& state, size_t w, std::vector<State>* next) const {
    const Action& a = s_.actions[w][static_cast<size_t>(At(state, w))];
    State done = Raised(state, w);
    if (IsReceive(a.kind)) {
      const size_t e = EdgeNumber(a);
      if (At(state, Reached(w)) == 0) {
        next->push_back(Raised(state, Reached(w)));
        return;
      }
      if (Taken(state, e) >= At(state, Delivered(e))) return;
      done[Reached(w)] = 0;
    } else if (IsAwaitRelease(a.kind)) {
      const size_t e = EdgeNumber(a);
      const int pending = Sent(state, e) - At(state, Acknowledged(e));
      if (pending >= s_.send_budget) return;
    }
    next->push_back(done);
  }

  size_t EdgeNumber(const Action& a) const {
    size_t e = 0;
    while (!(s_.edges[e].edge == s_.EdgeOf(a))) ++e;
    return e;
  }
  int Sent(const State& state, size_t e) const {
    const int position = At(state, s_.edges[e].edge.from.index());
    return sent_[e][static_cast<size_t>(position)];
  }
  int Taken(const State& state, size_t e) const {
    const int position = At(state, s_.edges[e].edge.to.index());
    return received_[e][static_cast<size_t>(position)];
  }
  bool WaitsFor(const State& state, const EdgeId& edge) const {
    const size_t w = edge.to.index();
    if (At(state, Reached(w)) == 0) return false;
    return s_.EdgeOf(s_.actions[w][static_cast<size_t>(At(state, w))]) == edge;
  }

  std::vector<int> Positions(const State& state) const {
    std::vector<int> positions;
    for (size_t w = 0; w < scripts_.size(); ++w) {
      positions.push_back(At(state, w));
    }
    return positions;
  }
  bool IsGoodEnd(const State& state) const {
    for (size_t w = 0; w < scripts_.size(); ++w) {
      if (!scripts_[w].whole() || At(state, w) != scripts_[w].length()) {
        return false;
      }
    }
    for (size_t e = 0; e < s_.edges.size(); ++e) {
      if (Taken(state, e) != Sent(state, e)) return false;
    }
    return true;
  }

  const Schedule& s_;
  const Computations computations_;
  std::vector<Script> scripts_;
  std::vector<Counts> sent_;
  std::vector<Counts> received_;
};

}  // namespace

Interleavings TryAllInterleavings(const Schedule& schedule, int64_t most_states,
                                  Computations computations) {
  return Explorer(schedule, computations).Run(most_states);
}

}  // namespace stagecoach::schedule::testing

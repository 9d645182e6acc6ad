#include "schedule/verifier_deadlock.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stagecoach::schedule::verifier {
namespace {

// Waits spelled out in the message; the cycle's actions are all listed.
constexpr size_t kMaxSpelled = 8;

// What a stuck worker waits for: that `worker` reaches or runs `action`.
struct Wait {
  int worker = 0;
  Action action;
};

class GreedyRun {
 public:
  // D is at least `depth_floor` on every edge.
  GreedyRun(const View& view, int64_t budget, int64_t depth_floor);

  // True if every list came to its end.
  bool Run();

  bool Stuck(int worker) const {
    return Of(worker).next < view_.list(worker).size();
  }
  const Action& StandsAt(int worker) const {
    return view_.list(worker)[Of(worker).next];
  }
  Wait WaitOf(int worker, const std::vector<uint16_t>& present,
              const ReceiveOrder& receives) const;

 private:
  struct WorkerState {
    size_t next = 0;
    bool queued = true;
    bool at_meeting = false;
  };
  struct EdgeState {
    int64_t window = 0;    // K + D
    int64_t sent = 0;      // SENDs run
    int64_t reached = 0;   // RECVs reached
    int64_t received = 0;  // RECVs run
  };

  bool Step(int worker, const Action& action);
  bool Compute(const Action& action);
  bool Receive(const Action& action);
  void Send(const Action& action);
  bool Meet(int worker);
  void Wake(int worker);
  bool Needs(const Action& action, size_t* key) const;

  const WorkerState& Of(int worker) const {
    return workers_[static_cast<size_t>(worker)];
  }
  WorkerState& Of(int worker) { return workers_[static_cast<size_t>(worker)]; }
  const EdgeState& EdgeOf(const Action& action) const {
    return edges_[static_cast<size_t>(view_.edge_of(action))];
  }

  const View& view_;
  std::vector<WorkerState> workers_;
  std::vector<EdgeState> edges_;
  std::vector<int> runnable_;
  // Lists without communication only, by key: F done; B or I done.
  std::vector<uint8_t> forward_done_;
  std::vector<uint8_t> gradient_done_;
  std::vector<int> meeting_;  // workers that have a REDUCE_TIED
  size_t arrived_ = 0;
};

GreedyRun::GreedyRun(const View& view, int64_t budget, int64_t depth_floor)
    : view_(view),
      workers_(static_cast<size_t>(view.workers())),
      edges_(view.edges().size()) {
  for (size_t e = 0; e < edges_.size(); ++e) {
    edges_[e].window =
        budget + std::max<int64_t>(view.edges()[e].depth, depth_floor);
  }
  if (!view.lowered()) {
    forward_done_.assign(view.keys(), 0);
    gradient_done_.assign(view.keys(), 0);
  }
  for (int w = view.workers() - 1; w >= 0; --w) runnable_.push_back(w);
  for (int w = 0; w < view.workers(); ++w) {
    for (const Action& action : view.list(w)) {
      if (action.kind == ActionKind::kReduceTied) meeting_.push_back(w);
    }
  }
}

void GreedyRun::Wake(int worker) {
  if (Of(worker).queued) return;
  Of(worker).queued = true;
  runnable_.push_back(worker);
}

// Whether a compute action needs another stage's result, and its key.
bool GreedyRun::Needs(const Action& action, size_t* key) const {
  const int stage = action.stage.value();
  const int m = action.microbatch.value();
  if (action.kind == ActionKind::kForward) {
    if (stage == 0) return false;
    *key = view_.key(stage - 1, m);
    return true;
  }
  if (action.kind == ActionKind::kBackwardWeight) return false;
  if (stage + 1 == view_.stages()) return false;
  *key = view_.key(stage + 1, m);
  return true;
}

// Lists with communication: RECVs wait for it, and they stand before it.
bool GreedyRun::Compute(const Action& action) {
  if (view_.lowered()) return true;
  const bool forward = action.kind == ActionKind::kForward;
  std::vector<uint8_t>& done = forward ? forward_done_ : gradient_done_;
  size_t needed = 0;
  if (Needs(action, &needed) && done[needed] == 0) return false;
  if (action.kind == ActionKind::kBackwardWeight) return true;
  done[view_.key(action)] = 1;
  const int consumer = action.stage.value() + (forward ? 1 : -1);
  if (consumer >= 0 && consumer < view_.stages()) {
    Wake(view_.worker_of(consumer));
  }
  return true;
}

bool GreedyRun::Receive(const Action& action) {
  const int e = view_.edge_of(action);
  EdgeState& edge = edges_[static_cast<size_t>(e)];
  if (edge.reached == edge.received) {
    ++edge.reached;
    Wake(view_.edge(e).from);
  }
  if (edge.sent == edge.received) return false;
  ++edge.received;
  return true;
}

void GreedyRun::Send(const Action& action) {
  const int e = view_.edge_of(action);
  ++edges_[static_cast<size_t>(e)].sent;
  Wake(view_.edge(e).to);
}

bool GreedyRun::Meet(int worker) {
  if (!Of(worker).at_meeting) {
    Of(worker).at_meeting = true;
    if (++arrived_ == meeting_.size()) {
      for (const int member : meeting_) Wake(member);
    }
  }
  return arrived_ == meeting_.size();
}

bool GreedyRun::Step(int worker, const Action& action) {
  if (IsCompute(action.kind)) return Compute(action);
  if (IsReceive(action.kind)) return Receive(action);
  if (action.kind == ActionKind::kReduceTied) return Meet(worker);
  if (IsAwaitRelease(action.kind)) {
    const EdgeState& edge = EdgeOf(action);
    return edge.sent - edge.window < edge.reached;
  }
  Send(action);
  return true;
}

bool GreedyRun::Run() {
  while (!runnable_.empty()) {
    const int worker = runnable_.back();
    runnable_.pop_back();
    const std::vector<Action>& list = view_.list(worker);
    WorkerState& state = Of(worker);
    while (state.next < list.size() && Step(worker, list[state.next])) {
      ++state.next;
    }
    state.queued = false;
  }
  for (int w = 0; w < view_.workers(); ++w) {
    if (Stuck(w)) return false;
  }
  return true;
}

Wait GreedyRun::WaitOf(int worker, const std::vector<uint16_t>& present,
                       const ReceiveOrder& receives) const {
  const Action& here = StandsAt(worker);
  Wait wait;
  wait.action = here;
  if (here.kind == ActionKind::kReduceTied) {
    for (const int member : meeting_) {
      if (!Of(member).at_meeting) wait.worker = member;
    }
    wait.action.stage =
        StageIndex(wait.worker == view_.worker_of(0) ? 0 : view_.stages() - 1);
    return wait;
  }
  if (IsAwaitRelease(here.kind)) {
    const int e = view_.edge_of(here);
    const EdgeState& edge = EdgeOf(here);
    const size_t key = receives[static_cast<size_t>(e)]
                               [static_cast<size_t>(edge.sent - edge.window)];
    const size_t row = static_cast<size_t>(view_.microbatches());
    wait.worker = view_.edge(e).to;
    wait.action = Action{DirectionOf(here.kind) == Direction::kActivation
                             ? ActionKind::kReceiveActivation
                             : ActionKind::kReceiveGradient,
                         StageIndex(static_cast<int>(key / row)),
                         MicrobatchIndex(static_cast<int>(key % row))};
    return wait;
  }
  const bool from_before = here.kind == ActionKind::kForward ||
                           here.kind == ActionKind::kReceiveActivation;
  wait.action.stage = from_before ? here.stage.Previous() : here.stage.Next();
  wait.worker = view_.worker_of(wait.action.stage.value());
  if (here.kind == ActionKind::kReceiveActivation) {
    wait.action.kind = ActionKind::kSendActivation;
  } else if (here.kind == ActionKind::kReceiveGradient) {
    wait.action.kind = ActionKind::kSendGradient;
  } else if (here.kind != ActionKind::kForward) {
    const bool full =
        (present[view_.key(wait.action)] & Bit(ActionKind::kBackward)) != 0;
    wait.action.kind =
        full ? ActionKind::kBackward : ActionKind::kBackwardInput;
  }
  return wait;
}

// Every stuck worker waits for one other, so the cycles are disjoint.
std::vector<int> ShortestCycle(const std::vector<int>& waits_for) {
  std::vector<int> visited_by(waits_for.size(), -1);
  std::vector<int> shortest;
  for (size_t start = 0; start < waits_for.size(); ++start) {
    int at = static_cast<int>(start);
    while (at >= 0 && visited_by[static_cast<size_t>(at)] < 0) {
      visited_by[static_cast<size_t>(at)] = static_cast<int>(start);
      at = waits_for[static_cast<size_t>(at)];
    }
    if (at < 0 ||
        visited_by[static_cast<size_t>(at)] != static_cast<int>(start)) {
      continue;
    }
    std::vector<int> cycle;
    for (int w = at; cycle.empty() || w != at;
         w = waits_for[static_cast<size_t>(w)]) {
      cycle.push_back(w);
    }
    if (shortest.empty() || cycle.size() < shortest.size()) shortest = cycle;
  }
  std::rotate(shortest.begin(),
              std::min_element(shortest.begin(), shortest.end()),
              shortest.end());
  return shortest;
}

// The smallest value in (`dead`, `live`] for which `is_live` holds.
template <typename IsLive>
int64_t Smallest(int64_t dead, int64_t live, IsLive is_live) {
  while (dead + 1 < live) {
    const int64_t middle = dead + (live - dead) / 2;
    (is_live(middle) ? live : dead) = middle;
  }
  return live;
}

std::string Remedy(const View& view, const ReceiveOrder& receives) {
  if (!view.lowered()) return "no order of events gets past this; reorder";
  const int64_t budget = view.schedule().send_budget;
  size_t most = 0;
  for (const std::vector<size_t>& edge : receives) {
    most = std::max(most, edge.size());
  }
  const int64_t all = static_cast<int64_t>(most) + 1;
  if (!GreedyRun(view, budget, all).Run()) {
    return "no send_budget or receive_depth gets past this; reorder";
  }
  const int64_t depth = Smallest(
      -1, all, [&](int64_t d) { return GreedyRun(view, budget, d).Run(); });
  const int64_t larger_budget =
      Smallest(budget, std::max(all, budget + 1),
               [&](int64_t k) { return GreedyRun(view, k, 0).Run(); });
  return absl::StrCat("the smallest that is live: receive_depth ", depth,
                      " on every edge with send_budget ", budget,
                      ", or send_budget ", larger_budget,
                      " with the depths as they are");
}

}  // namespace

void CheckDeadlock(const View& view, const std::vector<uint16_t>& present,
                   const ReceiveOrder& receives, Findings* findings) {
  GreedyRun run(view, view.schedule().send_budget, 0);
  if (run.Run()) return;
  std::vector<Wait> waits(static_cast<size_t>(view.workers()));
  std::vector<int> waits_for(waits.size(), -1);
  for (int w = 0; w < view.workers(); ++w) {
    if (!run.Stuck(w)) continue;
    waits[static_cast<size_t>(w)] = run.WaitOf(w, present, receives);
    waits_for[static_cast<size_t>(w)] = waits[static_cast<size_t>(w)].worker;
  }
  const std::vector<int> cycle = ShortestCycle(waits_for);
  std::vector<std::string> spelled;
  VerifyError error;
  for (const int w : cycle) {
    const Wait& wait = waits[static_cast<size_t>(w)];
    error.workers.push_back(WorkerIndex(w));
    error.actions.push_back(absl::StrCat(At(w, run.StandsAt(w)), " (waits for ",
                                         ToString(wait.action), ")"));
    if (spelled.size() < kMaxSpelled) {
      spelled.push_back(absl::StrCat("w", w, " at ", ToString(run.StandsAt(w)),
                                     " waits for w", wait.worker,
                                     " to come to ", ToString(wait.action)));
    }
  }
  if (cycle.size() > kMaxSpelled) spelled.push_back("and so on");
  error.message =
      absl::StrCat(absl::StrJoin(spelled, ", "), "; ", Remedy(view, receives));
  findings->AddWhole(ErrorKind::kDeadlock, std::move(error));
}

}  // namespace stagecoach::schedule::verifier

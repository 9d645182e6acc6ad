#include "schedule/list_run.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "schedule/edge_table.h"
#include "schedule/shape.h"

namespace stagecoach::schedule {
namespace {

constexpr double kNotYet = -1;

struct Edge {
  int from = 0;
  int to = 0;
  int64_t depth = -1;  // -1: no plan
  size_t received = 0;
  std::vector<double> sent;
  std::vector<double> reached;
};

struct Worker {
  size_t next = 0;  // in its list
  double time = 0;
  double busy = 0;
  bool queued = true;
};

// The workers that have a REDUCE_TIED of one group meet at it.
struct Meeting {
  std::vector<int> members;
  size_t arrived = 0;
  double time = 0;
};

class Runner {
 public:
  Runner(const Schedule& schedule, const ListRunOptions& options)
      : schedule_(schedule), options_(options), table_(schedule) {}

  absl::Status Prepare();
  ListRun Run();

 private:
  // Each runs the worker's next action, or returns false: it has to wait.
  bool Step(int worker, const Action& action);
  bool Compute(int worker, const Action& action);
  bool Receive(int worker, const Action& action);
  bool Await(int worker, const Action& action);
  void Send(int worker, const Action& action);
  bool Reduce(int worker, const Action& action);

  void RunWorker(int worker);
  void Wake(int worker);
  double InputReadyAt(const Action& action) const;
  double Duration(const Action& action) const;
  void Finish(ListRun* run);

  Worker& At(int worker) { return workers_[static_cast<size_t>(worker)]; }
  size_t Key(StageIndex stage, MicrobatchIndex m) const {
    return stage.index() * static_cast<size_t>(schedule_.microbatches) +
           m.index();
  }
  const std::vector<Action>& List(int worker) const {
    return schedule_.actions[static_cast<size_t>(worker)];
  }

  const Schedule& schedule_;
  const ListRunOptions& options_;
  const EdgeTable table_;
  std::vector<Edge> edges_;
  std::vector<Worker> workers_;
  std::vector<int> runnable_;
  // By stage and microbatch: end of its F, and of its B or I.
  std::vector<double> forward_end_;
  std::vector<double> gradient_end_;
  absl::flat_hash_map<int, Meeting> meetings_;
  std::vector<std::vector<TimedAction>> timeline_;
};

absl::Status Runner::Prepare() {
  edges_.resize(static_cast<size_t>(table_.size()));
  for (int e = 0; e < table_.size(); ++e) {
    Edge& edge = edges_[static_cast<size_t>(e)];
    edge.from = table_.id(e).from.value();
    edge.to = table_.id(e).to.value();
    const auto plan = std::lower_bound(
        schedule_.edges.begin(), schedule_.edges.end(), table_.id(e),
        [](const EdgePlan& p, const EdgeId& id) { return p.edge < id; });
    if (plan != schedule_.edges.end() && plan->edge == table_.id(e)) {
      edge.depth = plan->receive_depth;
    }
  }
  for (int w = 0; w < schedule_.workers; ++w) {
    for (const Action& action : List(w)) {
      const int e = table_.Of(action);
      const bool wire = IsSend(action.kind) || IsReceive(action.kind) ||
                        IsAwaitRelease(action.kind);
      if (wire && e < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("w", w, ": ", ToString(action),
                         ": the neighbour stage is on the same worker"));
      }
      if (wire && !options_.unlimited_depth &&
          edges_[static_cast<size_t>(e)].depth < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("w", w, ": ", ToString(action), ": edge ",
                         ToString(table_.id(e)), " has no receive depth"));
      }
      if (action.kind == ActionKind::kReduceTied) {
        meetings_[action.microbatch.value()].members.push_back(w);
      }
    }
  }
  const size_t chunks = static_cast<size_t>(schedule_.stages()) *
                        static_cast<size_t>(schedule_.microbatches);
  forward_end_.assign(chunks, kNotYet);
  gradient_end_.assign(chunks, kNotYet);
  workers_.resize(static_cast<size_t>(schedule_.workers));
  if (options_.timeline) timeline_.resize(workers_.size());
  return absl::OkStatus();
}

void Runner::Wake(int worker) {
  if (At(worker).queued) return;
  At(worker).queued = true;
  runnable_.push_back(worker);
}

double Runner::Duration(const Action& action) const {
  const ComputeDurations& d = options_.durations[action.stage.index()];
  switch (action.kind) {
    case ActionKind::kForward:
      return d.forward;
    case ActionKind::kBackward:
      return d.backward;
    case ActionKind::kBackwardInput:
      return d.backward_input;
    default:
      return d.backward_weight;
  }
}

// kNotYet while something it needs has not been computed.
double Runner::InputReadyAt(const Action& action) const {
  const StageIndex stage = action.stage;
  const size_t own = Key(stage, action.microbatch);
  if (action.kind == ActionKind::kForward) {
    if (schedule_.IsFirst(stage)) return 0;
    return forward_end_[Key(stage.Previous(), action.microbatch)];
  }
  if (action.kind == ActionKind::kBackwardWeight) return gradient_end_[own];
  if (schedule_.IsLast(stage) || forward_end_[own] == kNotYet) {
    return forward_end_[own];
  }
  return gradient_end_[Key(stage.Next(), action.microbatch)];
}

bool Runner::Compute(int worker, const Action& action) {
  const double ready = InputReadyAt(action);
  if (ready == kNotYet) return false;
  Worker& w = At(worker);
  const double start = std::max(w.time, ready);
  const double duration = Duration(action);
  w.time = start + duration;
  w.busy += duration;
  const size_t own = Key(action.stage, action.microbatch);
  if (action.kind == ActionKind::kForward) {
    forward_end_[own] = w.time;
    if (!schedule_.IsLast(action.stage)) {
      Wake(schedule_.WorkerOf(action.stage.Next()).value());
    }
  } else if (action.kind != ActionKind::kBackwardWeight) {
    gradient_end_[own] = w.time;
    if (!schedule_.IsFirst(action.stage)) {
      Wake(schedule_.WorkerOf(action.stage.Previous()).value());
    }
  }
  if (options_.timeline) {
    timeline_[static_cast<size_t>(worker)].push_back(
        TimedAction{action, start, w.time});
  }
  return true;
}

bool Runner::Receive(int worker, const Action& action) {
  Edge& edge = edges_[static_cast<size_t>(table_.Of(action))];
  Worker& w = At(worker);
  if (edge.reached.size() == edge.received) {
    edge.reached.push_back(w.time);
    Wake(edge.from);
  }
  if (edge.sent.size() <= edge.received) return false;
  w.time = std::max(w.time, edge.sent[edge.received]);
  ++edge.received;
  return true;
}

bool Runner::Await(int worker, const Action& action) {
  const Edge& edge = edges_[static_cast<size_t>(table_.Of(action))];
  if (options_.unlimited_depth) return true;
  const int64_t sent = static_cast<int64_t>(edge.sent.size());
  // The RECV that grants the transfer that must be acknowledged.
  const int64_t granter = sent - schedule_.send_budget - edge.depth;
  if (granter < 0) return true;
  const size_t index = static_cast<size_t>(granter);
  if (edge.reached.size() <= index) return false;
  At(worker).time = std::max(At(worker).time, edge.reached[index]);
  return true;
}

void Runner::Send(int worker, const Action& action) {
  Edge& edge = edges_[static_cast<size_t>(table_.Of(action))];
  edge.sent.push_back(At(worker).time);
  Wake(edge.to);
}

bool Runner::Reduce(int worker, const Action& action) {
  Meeting& meeting = meetings_[action.microbatch.value()];
  if (meeting.arrived < meeting.members.size()) {
    // Woken for another reason while it waits here: it has arrived already.
    const auto end =
        meeting.members.begin() + static_cast<ptrdiff_t>(meeting.arrived);
    if (std::find(meeting.members.begin(), end, worker) != end) return false;
    const auto self = std::find(end, meeting.members.end(), worker);
    std::iter_swap(end, self);
    ++meeting.arrived;
    meeting.time = std::max(meeting.time, At(worker).time);
    if (meeting.arrived < meeting.members.size()) return false;
    for (const int member : meeting.members) Wake(member);
  }
  At(worker).time = std::max(At(worker).time, meeting.time);
  return true;
}

bool Runner::Step(int worker, const Action& action) {
  if (IsCompute(action.kind)) return Compute(worker, action);
  if (IsReceive(action.kind)) return Receive(worker, action);
  if (IsAwaitRelease(action.kind)) return Await(worker, action);
  if (action.kind == ActionKind::kReduceTied) return Reduce(worker, action);
  Send(worker, action);
  return true;
}

void Runner::RunWorker(int worker) {
  const std::vector<Action>& list = List(worker);
  Worker& w = At(worker);
  while (w.next < list.size() && Step(worker, list[w.next])) ++w.next;
  w.queued = false;
}

ListRun Runner::Run() {
  for (int w = schedule_.workers - 1; w >= 0; --w) runnable_.push_back(w);
  while (!runnable_.empty()) {
    const int worker = runnable_.back();
    runnable_.pop_back();
    RunWorker(worker);
  }
  ListRun run;
  Finish(&run);
  return run;
}

void Runner::Finish(ListRun* run) {
  run->finished = true;
  int stuck = 0;
  for (int w = 0; w < schedule_.workers; ++w) {
    run->makespan = std::max(run->makespan, At(w).time);
    run->busy.push_back(At(w).busy);
    if (At(w).next == List(w).size()) continue;
    run->finished = false;
    if (++stuck > 8) continue;
    absl::StrAppend(&run->stuck, stuck == 1 ? "" : ", ", "w", w,
                    " waits at its action ", At(w).next, ", ",
                    ToString(List(w)[At(w).next]));
  }
  if (stuck > 8) absl::StrAppend(&run->stuck, " and ", stuck - 8, " more");
  for (int e = 0; e < table_.size(); ++e) {
    Edge& edge = edges_[static_cast<size_t>(e)];
    run->edges.push_back(
        EdgeRun{table_.id(e), std::move(edge.sent), std::move(edge.reached)});
  }
  run->timeline = std::move(timeline_);
}

}  // namespace

absl::StatusOr<ListRun> RunLists(const Schedule& schedule,
                                 const ListRunOptions& options) {
  SC_RETURN_IF_ERROR(CheckShape(schedule));
  if (options.durations.size() != schedule.placement.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("durations for ", options.durations.size(),
                     " stages, but the schedule has ", schedule.stages()));
  }
  Runner runner(schedule, options);
  SC_RETURN_IF_ERROR(runner.Prepare());
  return runner.Run();
}

}  // namespace stagecoach::schedule

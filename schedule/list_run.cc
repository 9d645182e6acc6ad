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
  // By transfer.
  std::vector<Moment> sent;
  std::vector<Moment> reached;
  std::vector<Moment> arrived;
  std::vector<size_t> keys;  // of the sending stage; where wires take time
  Moment wire_free;
};

struct Worker {
  size_t next = 0;  // in its list
  Moment time;
  double busy = 0;
  bool queued = true;
};

// The workers that have a REDUCE_TIED of one group meet at it.
struct Meeting {
  std::vector<int> members;
  size_t arrived = 0;
  Moment time;
};

void TakeLater(const Moment& other, Moment* moment) {
  if (other.at > moment->at) *moment = other;
}

Moment Delayed(Moment moment, double by, Wait wait) {
  moment.at += by;
  moment.wait = wait;
  return moment;
}

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
  // Starts the transfers of an edge that are sent and granted.
  void Advance(int edge);
  double WireTime(const Edge& edge, size_t transfer, Direction direction) const;
  void NoteArrival(const Edge& edge, size_t transfer, double left,
                   double arrived);
  // A result of `producer`, when a consumer on another worker has it.
  Moment AtConsumer(const Moment& end, StageIndex producer, StageIndex consumer,
                    const std::vector<double>& wire) const;
  Moment InputReadyAt(const Action& action) const;
  double Duration(const Action& action) const;
  void NoteUnlowered();
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
  std::vector<Moment> forward_end_;
  std::vector<Moment> gradient_end_;
  absl::flat_hash_map<int, Meeting> meetings_;
  std::vector<std::vector<TimedAction>> timeline_;
  std::vector<double> output_left_;
  std::vector<double> output_acknowledged_;
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
  Moment not_yet;
  not_yet.at = kNotYet;
  forward_end_.assign(chunks, not_yet);
  gradient_end_.assign(chunks, not_yet);
  workers_.resize(static_cast<size_t>(schedule_.workers));
  if (options_.timeline) {
    timeline_.resize(workers_.size());
    output_left_.assign(chunks, kNotYet);
    output_acknowledged_.assign(chunks, kNotYet);
  }
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

Moment Runner::AtConsumer(const Moment& end, StageIndex producer,
                          StageIndex consumer,
                          const std::vector<double>& wire) const {
  if (end.at == kNotYet) return end;
  if (schedule_.lowered() ||
      schedule_.WorkerOf(producer) == schedule_.WorkerOf(consumer)) {
    return Delayed(end, 0, Wait::kHandOff);
  }
  const double on_wire = wire.empty() ? 0 : wire[producer.index()];
  return Delayed(end, on_wire + options_.latency, Wait::kArrival);
}

// kNotYet while something it needs has not been computed. Over a wire of a
// lowered schedule the RECV before has waited already.
Moment Runner::InputReadyAt(const Action& action) const {
  const StageIndex stage = action.stage;
  const size_t own = Key(stage, action.microbatch);
  if (action.kind == ActionKind::kForward) {
    if (schedule_.IsFirst(stage)) return Moment();
    return AtConsumer(forward_end_[Key(stage.Previous(), action.microbatch)],
                      stage.Previous(), stage, options_.activation_wire);
  }
  if (action.kind == ActionKind::kBackwardWeight) return gradient_end_[own];
  if (schedule_.IsLast(stage) || forward_end_[own].at == kNotYet) {
    return forward_end_[own];
  }
  return AtConsumer(gradient_end_[Key(stage.Next(), action.microbatch)],
                    stage.Next(), stage, options_.gradient_wire);
}

bool Runner::Compute(int worker, const Action& action) {
  const Moment ready = InputReadyAt(action);
  if (ready.at == kNotYet) return false;
  Worker& w = At(worker);
  TakeLater(ready, &w.time);
  const Moment cause = w.time;
  const double duration = Duration(action);
  w.time.at += duration;
  w.busy += duration;
  if (options_.timeline) {
    std::vector<TimedAction>& timeline = timeline_[static_cast<size_t>(worker)];
    w.time.index = static_cast<int32_t>(timeline.size());
    w.time.worker = static_cast<uint16_t>(worker);
    w.time.wait = Wait::kWorker;
    timeline.push_back(TimedAction{action, cause.at, w.time.at, cause});
  }
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
  return true;
}

double Runner::WireTime(const Edge& edge, size_t transfer,
                        Direction direction) const {
  const std::vector<double>& wire = direction == Direction::kActivation
                                        ? options_.activation_wire
                                        : options_.gradient_wire;
  if (wire.empty()) return 0;
  return wire[edge.keys[transfer] /
              static_cast<size_t>(schedule_.microbatches)];
}

void Runner::NoteArrival(const Edge& edge, size_t transfer, double left,
                         double arrived) {
  if (!options_.timeline) return;
  output_left_[edge.keys[transfer]] = left;
  output_acknowledged_[edge.keys[transfer]] = arrived + options_.latency;
}

void Runner::Advance(int index) {
  Edge& edge = edges_[static_cast<size_t>(index)];
  const Direction direction = table_.id(index).direction;
  while (edge.arrived.size() < edge.sent.size()) {
    const size_t n = edge.arrived.size();
    Moment start = edge.sent[n];
    if (start.wait == Wait::kWorker) start.wait = Wait::kArrival;
    const int64_t granter = static_cast<int64_t>(n) - edge.depth;
    if (!options_.unlimited_depth && granter >= 0) {
      const size_t reached = static_cast<size_t>(granter);
      if (edge.reached.size() <= reached) return;
      TakeLater(Delayed(edge.reached[reached], options_.latency, Wait::kGrant),
                &start);
    }
    TakeLater(edge.wire_free, &start);
    start.at += WireTime(edge, n, direction);
    edge.wire_free = start;
    const double left = start.at;
    start.at += options_.latency;
    if (direction == Direction::kActivation) {
      NoteArrival(edge, n, left, start.at);
    }
    edge.arrived.push_back(start);
    Wake(edge.from);
    Wake(edge.to);
  }
}

bool Runner::Receive(int worker, const Action& action) {
  const int index = table_.Of(action);
  Edge& edge = edges_[static_cast<size_t>(index)];
  Worker& w = At(worker);
  if (edge.reached.size() == edge.received) {
    edge.reached.push_back(w.time);
    Advance(index);
  }
  if (edge.arrived.size() <= edge.received) return false;
  TakeLater(edge.arrived[edge.received], &w.time);
  ++edge.received;
  return true;
}

bool Runner::Await(int worker, const Action& action) {
  const Edge& edge = edges_[static_cast<size_t>(table_.Of(action))];
  const int64_t last =
      static_cast<int64_t>(edge.sent.size()) - schedule_.send_budget;
  if (last < 0) return true;
  const size_t acknowledged = static_cast<size_t>(last);
  if (edge.arrived.size() <= acknowledged) return false;
  TakeLater(
      Delayed(edge.arrived[acknowledged], options_.latency, Wait::kRelease),
      &At(worker).time);
  return true;
}

void Runner::Send(int worker, const Action& action) {
  const int index = table_.Of(action);
  Edge& edge = edges_[static_cast<size_t>(index)];
  edge.sent.push_back(At(worker).time);
  if (options_.timeline || !options_.activation_wire.empty()) {
    edge.keys.push_back(Key(action.stage, action.microbatch));
  }
  Advance(index);
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
    TakeLater(At(worker).time, &meeting.time);
    if (meeting.arrived < meeting.members.size()) return false;
    for (const int member : meeting.members) Wake(member);
  }
  TakeLater(Delayed(meeting.time, 0, Wait::kTied), &At(worker).time);
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

// Without communication actions: as if sent at once, on a wire of its own.
void Runner::NoteUnlowered() {
  for (StageIndex stage(0); stage.value() < schedule_.stages(); ++stage) {
    if (!schedule_.SendsActivation(stage)) continue;
    const double wire = options_.activation_wire.empty()
                            ? 0
                            : options_.activation_wire[stage.index()];
    for (MicrobatchIndex m(0); m.value() < schedule_.microbatches; ++m) {
      const size_t key = Key(stage, m);
      if (forward_end_[key].at == kNotYet) continue;
      output_left_[key] = forward_end_[key].at + wire;
      output_acknowledged_[key] = output_left_[key] + 2 * options_.latency;
    }
  }
}

// Gives the memory of `moments` back: taken, not lent.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
std::vector<double> Times(std::vector<Moment> moments) {
  std::vector<double> times;
  times.reserve(moments.size());
  for (const Moment& moment : moments) times.push_back(moment.at);
  return times;
}

void Runner::Finish(ListRun* run) {
  run->finished = true;
  int stuck = 0;
  for (int w = 0; w < schedule_.workers; ++w) {
    TakeLater(At(w).time, &run->last);
    run->busy.push_back(At(w).busy);
    if (At(w).next == List(w).size()) continue;
    run->finished = false;
    if (++stuck > 8) continue;
    absl::StrAppend(&run->stuck, stuck == 1 ? "" : ", ", "w", w,
                    " waits at its action ", At(w).next, ", ",
                    ToString(List(w)[At(w).next]));
  }
  run->makespan = run->last.at;
  if (stuck > 8) absl::StrAppend(&run->stuck, " and ", stuck - 8, " more");
  for (int e = 0; e < table_.size(); ++e) {
    EdgeRun& edge = run->edges.emplace_back();
    edge.edge = table_.id(e);
    edge.sent = Times(std::move(edges_[static_cast<size_t>(e)].sent));
    edge.reached = Times(std::move(edges_[static_cast<size_t>(e)].reached));
  }
  if (options_.timeline && !schedule_.lowered()) NoteUnlowered();
  run->timeline = std::move(timeline_);
  run->output_left = std::move(output_left_);
  run->output_acknowledged = std::move(output_acknowledged_);
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
  for (const std::vector<double>* wire :
       {&options.activation_wire, &options.gradient_wire}) {
    if (wire->empty() || wire->size() == schedule.placement.size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("wire times for ", wire->size(),
                     " stages, but the schedule has ", schedule.stages()));
  }
  Runner runner(schedule, options);
  SC_RETURN_IF_ERROR(runner.Prepare());
  return runner.Run();
}

}  // namespace stagecoach::schedule

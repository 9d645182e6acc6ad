#include "stage_worker/engine/synthetic/virtual_run.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/tensor_descriptor.h"
#include "job/split.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/engine/local_pipeline.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"

namespace stagecoach::worker {
namespace {

using schedule::Action;
using schedule::ActionKind;
using schedule::EdgePlan;
using Key = std::pair<StageIndex, MicrobatchIndex>;
using Tensors = std::vector<TensorRef>;

// What happens next, by time; at one time, in the order of posting.
class Events {
 public:
  double now() const { return now_; }
  void At(double time, std::function<absl::Status()> event) {
    queue_.push({time, posted_++, std::move(event)});
  }
  absl::Status RunAll() {
    while (!queue_.empty()) {
      const Event next = queue_.top();
      queue_.pop();
      now_ = next.time;
      SC_RETURN_IF_ERROR(next.run());
    }
    return absl::OkStatus();
  }

 private:
  struct Event {
    double time;
    int64_t number;
    std::function<absl::Status()> run;
    bool operator<(const Event& other) const {
      return std::tie(other.time, other.number) < std::tie(time, number);
    }
  };
  double now_ = 0;
  int64_t posted_ = 0;
  std::priority_queue<Event> queue_;
};

struct Transfer {
  Key receiver;  // the stage that gets it
  Tensors tensors;
};

struct Edge {
  const EdgePlan* plan = nullptr;
  std::deque<Transfer> queued;   // sent, no grant yet
  std::deque<Transfer> arrived;  // in the receiver's pool, no RECV yet
  int sent = 0, departed = 0, taken = 0, acknowledged = 0;
  bool receiver_waits = false;
  double last_arrival = 0;
  double last_acknowledgement = 0;
  int slots = 0, peak_slots = 0;
};

struct Worker {
  memory::AccountingAllocator allocator;
  std::unique_ptr<StageEngine> engine;  // uses the allocator
  const std::vector<Action>* list = nullptr;
  size_t next = 0;
  bool computes = false;
  bool at_tied = false;
  std::map<Key, Tensors> inputs, gradients;             // for F; for B or I
  std::map<Key, Tensors> activations, input_gradients;  // for SEND
  int in_flight = 0, peak_in_flight = 0;
  int held_outputs = 0, peak_held_outputs = 0;
};

// Into memory of the receiver, as a wire does.
absl::StatusOr<Tensors> CopyTo(StageEngine* engine, const Tensors& tensors) {
  Tensors copies;
  for (const TensorRef& tensor : tensors) {
    const size_t bytes = tensor->descriptor().bytes();
    const size_t rounded = AlignedBytes(bytes + 1);
    std::shared_ptr<void> memory(std::aligned_alloc(kTensorAlignment, rounded),
                                 std::free);
    std::memcpy(memory.get(), tensor->data(), bytes);
    void* const data = memory.get();
    SC_ASSIGN_OR_RETURN(TensorRef copy, engine->Adopt(tensor->descriptor(),
                                                      data, std::move(memory)));
    copies.push_back(std::move(copy));
  }
  return copies;
}

class VirtualRun {
 public:
  VirtualRun(const job::JobSpec& spec, const schedule::Schedule& schedule,
             uint32_t seed)
      : spec_(spec),
        schedule_(schedule),
        evaluates_(spec.pipeline.schedule == "forward-only"),
        data_(spec),
        random_(seed) {}

  absl::StatusOr<VirtualRunResult> Run() {
    SC_RETURN_IF_ERROR(Build());
    for (size_t w = 0; w < workers_.size(); ++w) {
      events_.At(0, [this, w] { return Advance(w); });
    }
    SC_RETURN_IF_ERROR(events_.RunAll());
    SC_RETURN_IF_ERROR(CheckEnd());
    return Result();
  }

 private:
  double Random(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  absl::Status Build() {
    SC_ASSIGN_OR_RETURN(
        const std::vector<job::StageLayers> layers,
        job::SplitLayers(spec_.model.layers, schedule_.stages(), {}));
    for (const EdgePlan& plan : schedule_.edges) {
      edges_[plan.edge].plan = &plan;
    }
    for (int w = 0; w < schedule_.workers; ++w) {
      workers_.push_back(std::make_unique<Worker>());
      Worker& worker = *workers_.back();
      EngineOptions engine;
      engine.spec = spec_;
      engine.data = &data_;
      for (const StageIndex stage : schedule_.StagesOf(WorkerIndex(w))) {
        StageAssignment assignment;
        assignment.stage = stage;
        assignment.layers = layers[stage.index()];
        assignment.first = schedule_.IsFirst(stage);
        assignment.last = schedule_.IsLast(stage);
        engine.stages.push_back(assignment);
      }
      SC_ASSIGN_OR_RETURN(
          worker.engine,
          NewSyntheticEngine(SyntheticOptions(), &worker.allocator, engine));
      worker.list = &schedule_.actions[static_cast<size_t>(w)];
      SC_RETURN_IF_ERROR(Begin(worker.engine.get()));
    }
    return absl::OkStatus();
  }

  absl::Status Begin(StageEngine* engine) {
    const job::TrainingSpec& training = spec_.training;
    if (evaluates_) {
      return engine->BeginEvaluation(StepIndex(0), &data_,
                                     training.microbatches);
    }
    return engine->BeginStep(
        StepIndex(0), training.RowsPerStep() * spec_.data.sequence_length);
  }

  absl::StatusOr<GradientReport> Finish(StageEngine* engine) {
    if (!evaluates_) return engine->FinishGradients();
    GradientReport report;
    SC_ASSIGN_OR_RETURN(report.losses, engine->FinishEvaluation());
    return report;
  }

  // Takes the worker's actions until one takes time or has to wait.
  absl::Status Advance(size_t w) {
    Worker& worker = *workers_[w];
    bool goes_on = true;
    while (goes_on && !worker.computes && worker.next < worker.list->size()) {
      const Action& action = (*worker.list)[worker.next];
      if (IsCompute(action.kind)) {
        worker.computes = true;
        events_.At(events_.now() + Random(0.2, 2),
                   [this, w, action] { return FinishCompute(w, action); });
        return absl::OkStatus();
      }
      SC_ASSIGN_OR_RETURN(goes_on, Communicate(w, action));
      if (goes_on) ++worker.next;
    }
    return absl::OkStatus();
  }

  absl::Status FinishCompute(size_t w, const Action& action) {
    Worker& worker = *workers_[w];
    const absl::Status status = Compute(worker, action);
    if (!status.ok()) return Annotate(status, ToString(action));
    worker.computes = false;
    ++worker.next;
    return Advance(w);
  }

  static Tensors Take(std::map<Key, Tensors>* from, const Key& key) {
    Tensors tensors = std::move((*from)[key]);
    from->erase(key);
    return tensors;
  }

  absl::Status Compute(Worker& worker, const Action& action) {
    const Key key(action.stage, action.microbatch);
    switch (action.kind) {
      case ActionKind::kForward:
        return Forward(worker, key);
      case ActionKind::kBackwardInput:
        return Backward(worker, key, /*whole=*/false);
      case ActionKind::kBackwardWeight:
        Retire(worker, key);
        return worker.engine->BackwardWeight(key.first, key.second);
      default:
        Retire(worker, key);
        return Backward(worker, key, /*whole=*/true);
    }
  }

  absl::Status Forward(Worker& worker, const Key& key) {
    SC_ASSIGN_OR_RETURN(Tensors outputs,
                        worker.engine->Forward(key.first, key.second,
                                               Take(&worker.inputs, key)));
    worker.peak_in_flight = std::max(worker.peak_in_flight, ++worker.in_flight);
    if (evaluates_) Retire(worker, key);
    if (schedule_.IsLast(key.first)) return absl::OkStatus();
    if (!schedule_.SendsActivation(key.first)) {
      worker.inputs[{key.first.Next(), key.second}] = std::move(outputs);
      return absl::OkStatus();
    }
    worker.activations[key] = std::move(outputs);
    worker.peak_held_outputs =
        std::max(worker.peak_held_outputs, ++worker.held_outputs);
    return absl::OkStatus();
  }

  absl::Status Backward(Worker& worker, const Key& key, bool whole) {
    StageEngine& engine = *worker.engine;
    Tensors output_gradients = Take(&worker.gradients, key);
    absl::StatusOr<Tensors> gradients =
        whole ? engine.Backward(key.first, key.second,
                                std::move(output_gradients))
              : engine.BackwardInput(key.first, key.second,
                                     std::move(output_gradients));
    SC_RETURN_IF_ERROR(gradients.status());
    if (schedule_.IsFirst(key.first)) return absl::OkStatus();
    if (schedule_.SendsGradient(key.first)) {
      worker.input_gradients[key] = *std::move(gradients);
    } else {
      worker.gradients[{key.first.Previous(), key.second}] =
          *std::move(gradients);
    }
    return absl::OkStatus();
  }

  // The chunk is done: what was received for it is used for the last time.
  void Retire(Worker& worker, const Key& key) {
    --worker.in_flight;
    for (const ActionKind kind :
         {ActionKind::kReceiveActivation, ActionKind::kReceiveGradient}) {
      const bool activation = kind == ActionKind::kReceiveActivation;
      if (activation ? schedule_.IsFirst(key.first)
                     : schedule_.IsLast(key.first)) {
        continue;
      }
      const auto edge =
          edges_.find(schedule_.EdgeOf({kind, key.first, key.second}));
      // A forward-only schedule has no gradients.
      if (edge != edges_.end()) --edge->second.slots;
    }
  }

  // False: it has to wait.
  absl::StatusOr<bool> Communicate(size_t w, const Action& action) {
    if (action.kind == ActionKind::kReduceTied) return ReduceTied(w);
    Worker& worker = *workers_[w];
    Edge& edge = edges_.at(schedule_.EdgeOf(action));
    if (IsAwaitRelease(action.kind)) {
      return edge.sent - edge.acknowledged < schedule_.send_budget;
    }
    if (IsSend(action.kind)) {
      Send(worker, action, &edge);
      return true;
    }
    return Receive(worker, action, &edge);
  }

  void Send(Worker& worker, const Action& action, Edge* edge) {
    const bool activation = action.kind == ActionKind::kSendActivation;
    const Key key(action.stage, action.microbatch);
    Transfer transfer;
    transfer.receiver = {
        activation ? action.stage.Next() : action.stage.Previous(),
        action.microbatch};
    transfer.tensors =
        Take(activation ? &worker.activations : &worker.input_gradients, key);
    edge->queued.push_back(std::move(transfer));
    ++edge->sent;
    Depart(edge);
  }

  // Whatever is granted goes on its way.
  void Depart(Edge* edge) {
    while (!edge->queued.empty() &&
           edge->departed < edge->plan->receive_depth + edge->taken +
                                (edge->receiver_waits ? 1 : 0)) {
      ++edge->departed;
      edge->peak_slots = std::max(edge->peak_slots, ++edge->slots);
      edge->last_arrival =
          std::max(edge->last_arrival, events_.now() + Random(0, 2));
      const auto transfer =
          std::make_shared<Transfer>(std::move(edge->queued.front()));
      edge->queued.pop_front();
      events_.At(edge->last_arrival,
                 [this, edge, transfer] { return Arrive(edge, transfer); });
    }
  }

  absl::Status Arrive(Edge* edge, const std::shared_ptr<Transfer>& transfer) {
    const size_t receiver = edge->plan->edge.to.index();
    SC_ASSIGN_OR_RETURN(Tensors copies, CopyTo(workers_[receiver]->engine.get(),
                                               transfer->tensors));
    edge->arrived.push_back({transfer->receiver, std::move(copies)});
    edge->last_acknowledgement =
        std::max(edge->last_acknowledgement, events_.now() + Random(0, 2));
    events_.At(edge->last_acknowledgement,
               [this, edge, transfer] { return Acknowledge(edge, transfer); });
    return Advance(receiver);
  }

  // The sender's output goes.
  absl::Status Acknowledge(Edge* edge,
                           const std::shared_ptr<Transfer>& transfer) {
    const size_t sender = edge->plan->edge.from.index();
    transfer->tensors.clear();
    ++edge->acknowledged;
    if (edge->plan->edge.direction == Direction::kActivation) {
      --workers_[sender]->held_outputs;
    }
    return Advance(sender);
  }

  absl::StatusOr<bool> Receive(Worker& worker, const Action& action,
                               Edge* edge) {
    edge->receiver_waits = edge->arrived.empty();
    Depart(edge);
    if (edge->receiver_waits) return false;
    const Key key(action.stage, action.microbatch);
    Transfer transfer = std::move(edge->arrived.front());
    edge->arrived.pop_front();
    if (transfer.receiver != key) {
      return absl::InternalError(
          absl::StrCat(ToString(action), " gets the microbatch of another: ",
                       transfer.receiver.second.value()));
    }
    ++edge->taken;
    (action.kind == ActionKind::kReceiveActivation ? worker.inputs
                                                   : worker.gradients)[key] =
        std::move(transfer.tensors);
    Depart(edge);
    return true;
  }

  // Once both workers are there.
  absl::StatusOr<bool> ReduceTied(size_t w) {
    const size_t owner = schedule_.placement.front().index();
    const size_t other = schedule_.placement.back().index();
    StageEngine& owners = *workers_[owner]->engine;
    if (owner == other) {
      SC_RETURN_IF_ERROR(owners.ReduceTiedLocally());
      return true;
    }
    const size_t peer = w == owner ? other : owner;
    if (tied_done_) return true;
    workers_[w]->at_tied = true;
    if (!workers_[peer]->at_tied) return false;
    StageEngine& others = *workers_[other]->engine;
    SC_ASSIGN_OR_RETURN(const TensorRef copy, others.CopyTiedGradient());
    SC_ASSIGN_OR_RETURN(const Tensors sent, CopyTo(&owners, {copy}));
    SC_RETURN_IF_ERROR(owners.AddTiedGradient(sent[0]));
    SC_ASSIGN_OR_RETURN(const TensorRef sum, owners.CopyTiedGradient());
    SC_ASSIGN_OR_RETURN(const Tensors back, CopyTo(&others, {sum}));
    SC_RETURN_IF_ERROR(others.SetTiedGradient(back[0]));
    tied_done_ = true;
    events_.At(events_.now(), [this, peer] { return Advance(peer); });
    return true;
  }

  absl::Status CheckEnd() const {
    for (size_t w = 0; w < workers_.size(); ++w) {
      const Worker& worker = *workers_[w];
      if (worker.next < worker.list->size()) {
        return absl::FailedPreconditionError(
            absl::StrCat("w", w, " waits for ever at ",
                         ToString((*worker.list)[worker.next])));
      }
      if (worker.in_flight != 0 || worker.held_outputs != 0) {
        return absl::InternalError(
            absl::StrCat("w", w, " still holds ", worker.in_flight, " chunks, ",
                         worker.held_outputs, " outputs"));
      }
    }
    for (const auto& [id, edge] : edges_) {
      if (edge.acknowledged == edge.sent && edge.slots == 0) continue;
      return absl::InternalError(ToString(id) + " is not empty");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<VirtualRunResult> Result() {
    VirtualRunResult result;
    result.makespan = events_.now();
    std::map<MicrobatchIndex, double> losses;
    std::map<int64_t, double> norms;
    for (const auto& worker : workers_) {
      SC_ASSIGN_OR_RETURN(const GradientReport report,
                          Finish(worker->engine.get()));
      for (const MicrobatchLoss& loss : report.losses) {
        losses[loss.microbatch] = loss.loss_sum;
      }
      for (const ParameterNorm& norm : report.norms) {
        norms[norm.global_index] = norm.squared;
      }
      result.peak_in_flight.push_back(worker->peak_in_flight);
      result.peak_held_outputs.push_back(worker->peak_held_outputs);
    }
    for (const auto& [microbatch, loss] : losses) result.loss_sum += loss;
    for (const auto& [index, norm] : norms) {
      result.gradient_norm_squared += norm;
    }
    for (const auto& [id, edge] : edges_) {
      result.peak_slots.push_back(edge.peak_slots);
    }
    return result;
  }

  const job::JobSpec spec_;
  const schedule::Schedule& schedule_;
  const bool evaluates_;
  PatternData data_;
  std::mt19937 random_;
  // Before what may hold tensors of the engines' memory.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<schedule::EdgeId, Edge> edges_;
  Events events_;
  bool tied_done_ = false;
};

}  // namespace

absl::StatusOr<VirtualRunResult> RunVirtually(
    const job::JobSpec& spec, const schedule::Schedule& schedule,
    uint32_t seed) {
  return VirtualRun(spec, schedule, seed).Run();
}

}  // namespace stagecoach::worker

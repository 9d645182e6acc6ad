#include "job/memory_prediction.h"

#include <deque>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/tensor_descriptor.h"

namespace stagecoach::job {
namespace {

using schedule::Action;
using schedule::ActionKind;
using schedule::EdgeId;

// The ends of the interval: acknowledged at once and, where that may be,
// produced in the receiver's memory; or late and copied.
enum class Acknowledged { kAtOnce, kLate };

// One worker's bytes along its list.
class ListWalk {
 public:
  ListWalk(const MemoryQuestion& question, const schedule::Schedule& schedule,
           WorkerIndex worker, Acknowledged acknowledged, CategoryBytes base)
      : question_(question),
        schedule_(schedule),
        worker_(worker),
        profile_(question.profiles[worker.index()]),
        acknowledged_(acknowledged),
        base_(base),
        now_(base),
        peak_(base) {}

  absl::Status Run(bool evaluating);
  const CategoryBytes& peak() const { return peak_; }

 private:
  using Key = std::pair<StageIndex, MicrobatchIndex>;
  // An output that waits for its SEND or its release.
  struct Held {
    Key key;
    CategoryBytes bytes;
    bool sent = false;
    bool acknowledged = false;
    bool until_backward = false;
  };

  absl::StatusOr<const StageMemory*> Find(StageIndex stage) const;
  absl::Status Compute(const Action& action);
  void Evaluate(const StageMemory& stage, const Key& key);
  void Forward(const StageMemory& stage, const Key& key);
  void Backward(const StageMemory& stage, const Key& key);
  void BackwardInput(const StageMemory& stage, const Key& key);
  void BackwardWeight(const StageMemory& stage, const Key& key);
  // Of an output that is sent: what of it may never lie in this worker's
  // memory. Whether it does, the path and the moment decide.
  CategoryBytes InReceiver(bool sent, const CategoryBytes& output) const {
    const bool in_place = question_.in_place &&
                          question_.release != ReleasePolicy::kNever &&
                          acknowledged_ == Acknowledged::kAtOnce && sent;
    return in_place ? output : CategoryBytes();
  }
  void SetForward(const Key& key, const CategoryBytes& output);
  void SetGradient(const Key& key, const CategoryBytes& output);
  void BackwardDone(const Key& key);
  void Send(const Action& action);
  void AwaitRelease(const Action& action);
  void ReduceTied();
  void Finish();

  // What was handed over by another stage of this worker, and goes now.
  void Give(std::map<Key, CategoryBytes>* handed, const Key& key);
  void Produce(Direction direction, WorkerIndex to, const Key& key,
               const CategoryBytes& bytes);
  // False if the entry stays for its backward.
  bool TryRelease(Held* held);
  void Raise(const CategoryBytes& over) { peak_.RaiseTo(now_ + over); }

  const MemoryQuestion& question_;
  const schedule::Schedule& schedule_;
  const WorkerIndex worker_;
  const WorkerMemoryProfile& profile_;
  const Acknowledged acknowledged_;
  const CategoryBytes base_;
  bool evaluating_ = false;
  CategoryBytes now_;
  CategoryBytes peak_;
  CategoryBytes tied_;  // held
  std::map<EdgeId, std::deque<Held>> held_;
  // By the stage that takes it.
  std::map<Key, CategoryBytes> inputs_;
  std::map<Key, CategoryBytes> gradients_;
};

absl::StatusOr<const StageMemory*> ListWalk::Find(StageIndex stage) const {
  for (const StageMemory& memory : profile_.stages) {
    if (memory.stage == stage) return &memory;
  }
  return absl::InvalidArgumentError(absl::StrCat("no memory profile of stage ",
                                                 stage.value(), " on worker ",
                                                 worker_.value()));
}

absl::Status ListWalk::Run(bool evaluating) {
  evaluating_ = evaluating;
  for (const Action& action : schedule_.actions[worker_.index()]) {
    if (schedule::IsCompute(action.kind)) {
      SC_RETURN_IF_ERROR(Compute(action));
    } else if (schedule::IsSend(action.kind)) {
      Send(action);
    } else if (schedule::IsAwaitRelease(action.kind)) {
      AwaitRelease(action);
    } else if (action.kind == ActionKind::kReduceTied) {
      ReduceTied();
    }
  }
  Finish();
  if (now_ == base_) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("worker ", worker_.value(), ": ", now_.total - base_.total,
                   " bytes are left after the list of ", schedule_.kind));
}

absl::Status ListWalk::Compute(const Action& action) {
  SC_ASSIGN_OR_RETURN(const StageMemory* const stage, Find(action.stage));
  const Key key(action.stage, action.microbatch);
  const bool half = action.kind == ActionKind::kBackwardInput ||
                    action.kind == ActionKind::kBackwardWeight;
  if (half && !stage->splits) {
    return absl::InvalidArgumentError(
        absl::StrCat("stage ", action.stage.value(),
                     " was not measured with its backward in two halves"));
  }
  switch (action.kind) {
    case ActionKind::kForward:
      evaluating_ ? Evaluate(*stage, key) : Forward(*stage, key);
      break;
    case ActionKind::kBackwardInput:
      BackwardInput(*stage, key);
      break;
    case ActionKind::kBackwardWeight:
      BackwardWeight(*stage, key);
      break;
    default:
      Backward(*stage, key);
  }
  return absl::OkStatus();
}

void ListWalk::Evaluate(const StageMemory& stage, const Key& key) {
  Raise(stage.evaluation_peak);
  Give(&inputs_, key);
  SetForward(key, stage.evaluation_output);
}

void ListWalk::Forward(const StageMemory& stage, const Key& key) {
  const CategoryBytes in_receiver =
      InReceiver(schedule_.SendsActivation(key.first), stage.output);
  Raise(stage.forward_peak - in_receiver);
  now_ += stage.retained;
  if (!stage.keeps_input) Give(&inputs_, key);
  SetForward(key, stage.output - in_receiver);
}

void ListWalk::Backward(const StageMemory& stage, const Key& key) {
  const CategoryBytes in_receiver =
      InReceiver(schedule_.SendsGradient(key.first), stage.backward_output);
  Raise(stage.backward_peak - in_receiver);
  now_ -= stage.retained;
  Give(&inputs_, key);
  Give(&gradients_, key);
  BackwardDone(key);
  SetGradient(key, stage.backward_output - in_receiver);
}

void ListWalk::BackwardInput(const StageMemory& stage, const Key& key) {
  const CategoryBytes in_receiver = InReceiver(
      schedule_.SendsGradient(key.first), stage.backward_input_output);
  Raise(stage.backward_input_peak - in_receiver);
  now_ += stage.kept_for_weight;
  now_ -= stage.retained;
  if (!stage.keeps_input_for_weight) Give(&inputs_, key);
  if (!stage.keeps_gradient_for_weight) Give(&gradients_, key);
  SetGradient(key, stage.backward_input_output - in_receiver);
}

void ListWalk::BackwardWeight(const StageMemory& stage, const Key& key) {
  Raise(stage.backward_weight_peak);
  now_ -= stage.kept_for_weight;
  Give(&inputs_, key);
  Give(&gradients_, key);
  BackwardDone(key);
}

void ListWalk::SetForward(const Key& key, const CategoryBytes& output) {
  if (schedule_.IsLast(key.first)) return;
  const StageIndex next = key.first.Next();
  now_ += output;
  if (schedule_.SendsActivation(key.first)) {
    Produce(Direction::kActivation, schedule_.WorkerOf(next), key, output);
  } else {
    inputs_[Key(next, key.second)] = output;
  }
}

void ListWalk::SetGradient(const Key& key, const CategoryBytes& output) {
  if (schedule_.IsFirst(key.first)) return;
  const StageIndex previous = key.first.Previous();
  now_ += output;
  if (schedule_.SendsGradient(key.first)) {
    Produce(Direction::kGradient, schedule_.WorkerOf(previous), key, output);
  } else {
    gradients_[Key(previous, key.second)] = output;
  }
}

void ListWalk::Give(std::map<Key, CategoryBytes>* handed, const Key& key) {
  const auto found = handed->find(key);
  if (found == handed->end()) return;
  now_ -= found->second;
  handed->erase(found);
}

void ListWalk::Produce(Direction direction, WorkerIndex to, const Key& key,
                       const CategoryBytes& bytes) {
  EdgeId edge;
  edge.from = worker_;
  edge.to = to;
  edge.direction = direction;
  Held held;
  held.key = key;
  held.bytes = bytes;
  held.until_backward = direction == Direction::kActivation &&
                        question_.release == ReleasePolicy::kNever;
  held_[edge].push_back(held);
  Raise({});
}

bool ListWalk::TryRelease(Held* held) {
  held->acknowledged = true;
  if (held->until_backward) return false;
  now_ -= held->bytes;
  return true;
}

void ListWalk::Send(const Action& action) {
  std::deque<Held>& entries = held_[schedule_.EdgeOf(action)];
  for (auto it = entries.begin(); it != entries.end(); ++it) {
    if (it->key != Key(action.stage, action.microbatch)) continue;
    it->sent = true;
    if (acknowledged_ == Acknowledged::kAtOnce && TryRelease(&*it)) {
      entries.erase(it);
    }
    return;
  }
}

void ListWalk::AwaitRelease(const Action& action) {
  std::deque<Held>& entries = held_[schedule_.EdgeOf(action)];
  int pending = 0;
  for (const Held& held : entries) pending += held.sent && !held.acknowledged;
  for (auto it = entries.begin();
       it != entries.end() && pending >= schedule_.send_budget;) {
    if (!it->sent || it->acknowledged) {
      ++it;
      continue;
    }
    --pending;
    it = TryRelease(&*it) ? entries.erase(it) : it + 1;
  }
}

void ListWalk::BackwardDone(const Key& key) {
  if (!schedule_.SendsActivation(key.first)) return;
  for (auto& [edge, entries] : held_) {
    if (edge.direction != Direction::kActivation) continue;
    for (auto it = entries.begin(); it != entries.end(); ++it) {
      if (it->key != key) continue;
      it->until_backward = false;
      if (it->acknowledged) {
        now_ -= it->bytes;
        entries.erase(it);
      }
      return;
    }
  }
}

void ListWalk::ReduceTied() {
  if (schedule_.placement.front() == schedule_.placement.back()) return;
  CategoryBytes copy;
  copy.Add(MemoryCategory::kWireSend, profile_.tied_gradient_bytes);
  Raise(copy);
  // Acknowledged at the end of the step at the latest.
  if (acknowledged_ == Acknowledged::kLate) {
    now_ += copy;
    tied_ += copy;
  }
}

// After the list the ledger is empty.
void ListWalk::Finish() {
  for (const auto& [edge, entries] : held_) {
    for (const Held& held : entries) now_ -= held.bytes;
  }
  held_.clear();
  now_ -= tied_;
  if (evaluating_) return;
  Raise(profile_.norms_peak);
  Raise(profile_.update_peak);
}

absl::StatusOr<CategoryBytes> PeakOf(const MemoryQuestion& question,
                                     WorkerIndex worker,
                                     Acknowledged acknowledged) {
  const WorkerMemoryProfile& profile = question.profiles[worker.index()];
  CategoryBytes base = profile.resident;
  base.Add(MemoryCategory::kWireReceive,
           question.receive_pool_bytes[worker.index()]);
  CategoryBytes copy;
  if (question.checkpoints) {
    copy.Add(MemoryCategory::kOther, profile.state_copy_bytes);
  }
  CategoryBytes peak = base + copy;
  if (acknowledged == Acknowledged::kLate) base += copy;
  // All copies are there at the end of a step, before its outcome; of its
  // update, and of what else the step takes, only what is there for certain.
  const auto own = profile.state_copy_bytes;
  const size_t workers = question.profiles.size();
  const auto others =
      question.profiles[(worker.index() + workers - 1) % workers]
          .state_copy_bytes;
  CategoryBytes copies;
  copies.Add(MemoryCategory::kOther, question.copies * (own + others));
  peak.RaiseTo(base + copies);
  if (acknowledged == Acknowledged::kLate) {
    base += copies;
  } else if (question.copies > 0) {
    base.Add(MemoryCategory::kOther, own + (question.copies > 1 ? others : 0));
  }
  ListWalk step(question, *question.schedule, worker, acknowledged, base);
  SC_RETURN_IF_ERROR(step.Run(/*evaluating=*/false));
  peak.RaiseTo(step.peak());
  if (question.evaluation == nullptr) return peak;
  ListWalk evaluation(question, *question.evaluation, worker, acknowledged,
                      base);
  SC_RETURN_IF_ERROR(evaluation.Run(/*evaluating=*/true));
  peak.RaiseTo(evaluation.peak());
  return peak;
}

int64_t Slots(int64_t slots, int64_t bytes) {
  return slots * static_cast<int64_t>(AlignedBytes(static_cast<size_t>(bytes)));
}

}  // namespace

absl::StatusOr<std::vector<MemoryInterval>> PredictMemory(
    const MemoryQuestion& question) {
  const auto workers = static_cast<size_t>(question.schedule->workers);
  if (question.profiles.size() != workers ||
      question.receive_pool_bytes.size() != workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory profiles of ", question.profiles.size(),
                     " workers for a schedule of ", workers));
  }
  std::vector<MemoryInterval> intervals;
  for (WorkerIndex worker(0); worker.index() < workers;
       worker = worker.Next()) {
    MemoryInterval interval;
    SC_ASSIGN_OR_RETURN(interval.low,
                        PeakOf(question, worker, Acknowledged::kAtOnce));
    SC_ASSIGN_OR_RETURN(interval.high,
                        PeakOf(question, worker, Acknowledged::kLate));
    intervals.push_back(interval);
  }
  return intervals;
}

std::vector<int64_t> ReceivePoolBytes(const schedule::Schedule& schedule,
                                      int64_t boundary_bytes,
                                      int64_t tied_gradient_bytes) {
  std::vector<int64_t> pools(static_cast<size_t>(schedule.workers));
  for (const schedule::EdgePlan& plan : schedule.edges) {
    pools[plan.edge.to.index()] += Slots(plan.pool_slots, boundary_bytes);
  }
  const WorkerIndex owner = schedule.placement.front();
  const WorkerIndex other = schedule.placement.back();
  if (tied_gradient_bytes > 0 && owner != other) {
    pools[owner.index()] += Slots(1, tied_gradient_bytes);
    pools[other.index()] += Slots(1, tied_gradient_bytes);
  }
  return pools;
}

}  // namespace stagecoach::job

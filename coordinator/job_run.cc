#include "coordinator/job_run.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"
#include "base/status.h"
#include "job/loss_scale_proto.h"

namespace stagecoach::coordinator {
namespace {

const char* PhaseName(JobRun::Phase phase) {
  switch (phase) {
    case JobRun::Phase::kResuming:
      return "the job is being taken over";
    case JobRun::Phase::kProfiling:
      return "the model is being profiled";
    case JobRun::Phase::kAssigning:
      return "stages are being built";
    case JobRun::Phase::kConnecting:
      return "edges are being opened";
    case JobRun::Phase::kStepping:
      return "steps are running";
    case JobRun::Phase::kFinishing:
      return "the job is being finished";
    case JobRun::Phase::kReleasing:
      return "the job is being let go";
  }
  return "?";
}

absl::Status OutOfOrder(const std::string& what) {
  return absl::InternalError(
      absl::StrCat(what, "; are all workers of one build?"));
}

}  // namespace

JobRun::JobRun(std::string job_id, Epoch epoch, v1::JobSpec spec,
               std::shared_ptr<const PlannedJob> planned,
               std::vector<Member> members)
    : job_id_(std::move(job_id)),
      epoch_(epoch),
      spec_(std::move(spec)),
      planned_(std::move(planned)),
      members_(std::move(members)),
      resumed_from_(planned_->checkpoint),
      receive_pool_bytes_(members_.size()),
      memory_profiles_(members_.size()),
      step_(planned_->first_step),
      loss_scale_(planned_->spec.training),
      prepared_(members_.size()),
      applied_(members_.size(), planned_->first_step),
      copied_(members_.size(), -1),
      finished_(members_.size()),
      secured_step_(planned_->first_step),
      first_step_(planned_->first_step),
      reports_(members_.size()) {
  for (size_t i = 0; i < members_.size(); ++i) {
    holding_.insert(static_cast<int>(i));
  }
}

void JobRun::RestoreLossScale(const std::optional<v1::LossScaleState>& first,
                              const std::vector<StepRecord>& steps) {
  if (first.has_value()) loss_scale_.Restore(job::FromProto(*first));
  for (const StepRecord& step : steps) loss_scale_.Record(step.skipped);
}

v1::CoordinatorMessage JobRun::AssignFor(int worker) const {
  v1::CoordinatorMessage message;
  v1::Assign* assign = message.mutable_assign();
  assign->set_job_id(job_id_);
  *assign->mutable_spec() = spec_;
  assign->set_worker_index(worker);
  for (StageIndex stage :
       planned_->plan.schedule.StagesOf(WorkerIndex(worker))) {
    v1::AssignedStage* entry = assign->add_stages();
    entry->set_stage(stage.value());
    entry->set_layer_begin(planned_->plan.stages[stage.index()].begin);
    entry->set_layer_end(planned_->plan.stages[stage.index()].end);
  }
  assign->set_schedule_id(planned_->schedule_id);
  *assign->mutable_schedule() = planned_->schedule;
  if (planned_->plan.evaluation.workers > 0) {
    *assign->mutable_evaluation() = planned_->evaluation;
  }
  for (const Member& member : members_) {
    v1::JobPeer* peer = assign->add_peers();
    peer->set_worker(member.name);
    peer->set_incarnation(member.incarnation.value());
    peer->set_peer_address(member.peer_address);
  }
  assign->set_checkpoint(resumed_from_);
  if (!planned_->sources.empty()) {
    assign->mutable_restore()->set_step(planned_->first_step);
    assign->mutable_restore()->mutable_sources()->Assign(
        planned_->sources.begin(), planned_->sources.end());
  }
  assign->set_slot_bytes(planned_->plan.boundary.bytes());
  return message;
}

JobRun::Output JobRun::Start() {
  if (!planned_->plan.provisional) return Assign(planned_);
  Enter(Phase::kProfiling);
  Output output;
  for (size_t i = 0; i < members_.size(); ++i) {
    const int worker = static_cast<int>(i);
    output.messages.emplace_back(worker, ProfileFor(worker));
  }
  return output;
}

v1::CoordinatorMessage JobRun::ProfileFor(int worker) const {
  v1::CoordinatorMessage message;
  v1::Profile* profile = message.mutable_profile();
  profile->set_job_id(job_id_);
  *profile->mutable_spec() = spec_;
  // One is as good as another: workers of a job are alike.
  profile->set_measure(worker == 0);
  return message;
}

JobRun::Output JobRun::Assign(std::shared_ptr<const PlannedJob> planned) {
  Output output;
  if (phase_ != Phase::kProfiling && phase_ != Phase::kAssigning) return output;
  Enter(Phase::kAssigning);
  planned_ = std::move(planned);
  for (size_t i = 0; i < members_.size(); ++i) {
    const int worker = static_cast<int>(i);
    output.messages.emplace_back(worker, AssignFor(worker));
  }
  return output;
}

void JobRun::Broadcast(const v1::CoordinatorMessage& message,
                       Output* output) const {
  for (size_t i = 0; i < members_.size(); ++i) {
    output->messages.emplace_back(static_cast<int>(i), message);
  }
}

void JobRun::Enter(Phase phase) {
  phase_ = phase;
  answered_.clear();
}

absl::Status JobRun::Answer(int worker, Phase phase, const char* message) {
  if (phase_ != phase) {
    return OutOfOrder(
        absl::StrCat("sent ", message, " while ", PhaseName(phase_)));
  }
  if (!answered_.insert(worker).second) {
    return OutOfOrder(absl::StrCat("sent ", message, " twice"));
  }
  return absl::OkStatus();
}

JobRun::Output JobRun::OnMessage(int worker, const v1::WorkerMessage& message,
                                 absl::Time now) {
  Output output;
  output.culprit = worker;
  const bool resumes = message.has_resumed() || message.has_kept_step();
  if (phase_ == Phase::kReleasing && !message.has_released() && !resumes) {
    return output;
  }
  if (phase_ == Phase::kResuming && !message.has_released() && !resumes) {
    deferred_.emplace_back(worker, message);
    return output;
  }
  const Phase before = phase_;
  output.status = HandleAnswer(worker, message, now, &output);
  if (output.status.ok()) output.status = Advance(now, &output);
  if (before != Phase::kResuming || phase_ == Phase::kResuming) return output;
  for (const auto& [sender, deferred] : std::exchange(deferred_, {})) {
    if (!output.status.ok()) break;
    output.culprit = sender;
    output.status = HandleAnswer(sender, deferred, now, &output);
    if (output.status.ok()) output.status = Advance(now, &output);
  }
  return output;
}

absl::Status JobRun::HandleAnswer(int worker, const v1::WorkerMessage& message,
                                  absl::Time now, Output* output) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kProfiled:
      return OnProfiled(worker, message.profiled());
    case v1::WorkerMessage::kAssigned:
      return OnAssigned(worker, message.assigned());
    case v1::WorkerMessage::kConnected:
      return OnConnected(worker, message.connected());
    case v1::WorkerMessage::kPrepared:
      return OnPrepared(worker, message.prepared());
    case v1::WorkerMessage::kApplied:
      return OnApplied(worker, message.applied());
    case v1::WorkerMessage::kStateCopied:
      NoteCopied(worker, message.state_copied());
      return absl::OkStatus();
    case v1::WorkerMessage::kCheckpointWritten:
      return OnCheckpointWritten(worker, message.checkpoint_written(), output);
    case v1::WorkerMessage::kCheckpointSealed:
      return OnCheckpointSealed(message.checkpoint_sealed(), now, output);
    case v1::WorkerMessage::kFinished:
      return OnFinished(worker, message.finished(), output);
    case v1::WorkerMessage::kReleased:
      return OnReleased(worker, message.released(), output);
    case v1::WorkerMessage::kKeptStep:
      return OnKeptStep(worker, message.kept_step());
    case v1::WorkerMessage::kResumed:
      return OnResumed(worker, message.resumed(), now, output);
    default:
      return OutOfOrder("sent a message that is no answer");
  }
}

absl::Status JobRun::OnProfiled(int worker, const v1::Profiled& profiled) {
  SC_RETURN_IF_ERROR(Answer(worker, Phase::kProfiling, "Profiled"));
  if (profiled.has_profile() == (worker == 0)) {
    if (worker == 0) profile_ = profiled.profile();
    return absl::OkStatus();
  }
  return OutOfOrder(worker == 0 ? "was to measure the model and did not"
                                : "measured the model though it was not to");
}

absl::Status JobRun::OnAssigned(int worker, const v1::Assigned& assigned) {
  SC_RETURN_IF_ERROR(Answer(worker, Phase::kAssigning, "Assigned"));
  NoteAssigned(worker, assigned);
  return absl::OkStatus();
}

void JobRun::NoteAssigned(int worker, const v1::Assigned& assigned) {
  const size_t index = static_cast<size_t>(worker);
  receive_pool_bytes_[index] = assigned.receive_pool_bytes();
  if (assigned.has_memory_profile()) {
    memory_profiles_[index] = assigned.memory_profile();
  }
}

absl::Status JobRun::OnConnected(int worker, const v1::Connected& connected) {
  SC_RETURN_IF_ERROR(Answer(worker, Phase::kConnecting, "Connected"));
  edges_.insert(edges_.end(), connected.edges().begin(),
                connected.edges().end());
  return absl::OkStatus();
}

absl::Status JobRun::OnPrepared(int worker, const v1::Prepared& prepared) {
  const size_t index = static_cast<size_t>(worker);
  if (phase_ != Phase::kStepping || prepared.step() != step_ ||
      step_ >= planned_->spec.training.steps) {
    return OutOfOrder(absl::StrCat("sent Prepared of step ", prepared.step(),
                                   " while ", PhaseName(phase_), ", step ",
                                   step_));
  }
  SC_RETURN_IF_ERROR(Answer(worker, Phase::kStepping, "Prepared"));
  prepared_[index] = prepared;
  // A worker does one thing after the other.
  applied_[index] = step_;
  return absl::OkStatus();
}

absl::Status JobRun::OnApplied(int worker, const v1::Applied& applied) {
  int64_t& count = applied_[static_cast<size_t>(worker)];
  if (phase_ != Phase::kStepping || applied.step() != count ||
      applied.step() >= step_) {
    return OutOfOrder(absl::StrCat("applied step ", applied.step(), " after ",
                                   count, " steps, of which ", step_,
                                   " are committed"));
  }
  ++count;
  return absl::OkStatus();
}

void JobRun::NoteCopied(int worker, const v1::StateCopied& copied) {
  int64_t& newest = copied_[static_cast<size_t>(worker)];
  newest = std::max(newest, copied.step());
}

void JobRun::SetSources(std::vector<v1::StateSource> sources) {
  auto planned = std::make_shared<PlannedJob>(*planned_);
  planned->sources = std::move(sources);
  planned_ = std::move(planned);
}

void JobRun::LetGo(int worker, const v1::WorkerMemory* memory, Output* output) {
  OnGone(worker);
  WorkerReleased event;
  event.worker = members_[static_cast<size_t>(worker)].name;
  event.job_id = job_id_;
  if (memory != nullptr) event.memory = *memory;
  output->events.push_back(std::move(event));
}

absl::Status JobRun::OnFinished(int worker, const v1::Finished& finished,
                                Output* output) {
  SC_RETURN_IF_ERROR(Answer(worker, Phase::kFinishing, "Finished"));
  finished_[static_cast<size_t>(worker)] = finished;
  for (const v1::ParameterDigest& parameter : finished.parameters()) {
    parameters_.emplace_back(parameter, worker);
  }
  LetGo(worker, finished.has_memory() ? &finished.memory() : nullptr, output);
  auto& event = std::get<WorkerReleased>(output->events.back());
  event.finished = true;
  event.parameters.assign(finished.parameters().begin(),
                          finished.parameters().end());
  for (const v1::MicrobatchLoss& loss : finished.evaluation_losses()) {
    event.evaluation_losses.push_back({loss.microbatch(), loss.loss_sum()});
  }
  return absl::OkStatus();
}

absl::Status JobRun::OnReleased(int worker, const v1::Released& released,
                                Output* output) {
  if (holding_.count(worker) == 0) return absl::OkStatus();
  LetGo(worker, released.has_memory() ? &released.memory() : nullptr, output);
  if (phase_ == Phase::kReleasing) return absl::OkStatus();
  return absl::InternalError("let go of the job without being told to");
}

absl::Status JobRun::Advance(absl::Time now, Output* output) {
  if (phase_ == Phase::kStepping && step_ == planned_->spec.training.steps) {
    const bool applied_everywhere =
        *std::min_element(applied_.begin(), applied_.end()) == step_;
    const bool stored = !checkpoint_.has_value() && !step_held_;
    if (!applied_everywhere || !stored) return absl::OkStatus();
    Enter(Phase::kFinishing);
    Broadcast(FinishMessage(), output);
    return absl::OkStatus();
  }
  if (phase_ == Phase::kStepping && copying_) {
    output->may_move = AllCopied();
    return absl::OkStatus();
  }
  if (phase_ == Phase::kStepping && !step_begun_ && !step_held_) {
    const bool applied_everywhere =
        *std::min_element(applied_.begin(), applied_.end()) == step_;
    if (!applied_everywhere) return absl::OkStatus();
    if (next_plan_ != nullptr) {
      ChangePlan(output);
    } else {
      BeginStep(now, output);
    }
    return absl::OkStatus();
  }
  if (!AllAnswered()) return absl::OkStatus();
  switch (phase_) {
    case Phase::kProfiling:
      // The caller may take a while: it is asked once.
      output->profile = std::exchange(profile_, std::nullopt);
      return absl::OkStatus();
    case Phase::kAssigning: {
      Enter(Phase::kConnecting);
      edges_.clear();
      v1::CoordinatorMessage connect;
      connect.mutable_connect()->set_job_id(job_id_);
      Broadcast(connect, output);
      return absl::OkStatus();
    }
    case Phase::kConnecting:
      if (over_limit_) return absl::OkStatus();
      SC_RETURN_IF_ERROR(EnterStepping(now, output));
      if (over_limit_) return absl::OkStatus();
      // A resumed job may have no step left, and after a recovery another plan
      // may wait.
      return step_begun_ ? absl::OkStatus() : Advance(now, output);
    case Phase::kStepping:
      return CommitMustWait() ? absl::OkStatus() : CommitStep(now, output);
    case Phase::kFinishing:
      return Succeed(output);
    case Phase::kResuming:
    case Phase::kReleasing:
      break;
  }
  return absl::OkStatus();
}

std::vector<int> JobRun::Owing() const {
  std::vector<int> owing;
  if (phase_ != Phase::kStepping) return owing;
  for (size_t i = 0; i < members_.size(); ++i) {
    const int worker = static_cast<int>(i);
    if (applied_[i] < step_ || (step_begun_ && answered_.count(worker) == 0)) {
      owing.push_back(worker);
    }
  }
  return owing;
}

absl::Status JobRun::Drain() {
  if (phase_ == Phase::kStepping && members_.size() > 1) {
    draining_ = true;
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("no step boundary comes");
}

void JobRun::CopyStates(Output* output) {
  copying_ = true;
  v1::CoordinatorMessage message;
  message.mutable_copy_state()->set_job_id(job_id_);
  message.mutable_copy_state()->set_step(step_);
  Broadcast(message, output);
}

absl::Status JobRun::Succeed(Output* output) {
  std::stable_sort(parameters_.begin(), parameters_.end(),
                   [](const auto& a, const auto& b) {
                     return a.first.name() < b.first.name();
                   });
  JobSucceeded event;
  event.job_id = job_id_;
  for (const auto& [parameter, worker] : parameters_) {
    if (!event.parameters.empty() &&
        event.parameters.back().name() == parameter.name()) {
      output->culprit = worker;
      return OutOfOrder(absl::StrCat("reported parameter ", parameter.name(),
                                     ", which another worker has too"));
    }
    event.parameters.push_back(parameter);
  }
  event.parameters_sha256 = HashOfParameters(event.parameters);
  if (EvaluationIsDue(planned_->spec, step_)) {
    std::vector<const MicrobatchLosses*> losses;
    for (const v1::Finished& finished : finished_) {
      losses.push_back(&finished.evaluation_losses());
    }
    SC_ASSIGN_OR_RETURN(
        event.evaluation_loss,
        EvaluationLoss(planned_->spec, losses, &output->culprit));
  }
  output->events.push_back(std::move(event));
  return absl::OkStatus();
}

JobRun::Output JobRun::Release(const std::string& reason, bool keep_states) {
  Enter(Phase::kReleasing);
  keep_states_ = keep_states;
  Output output;
  const v1::CoordinatorMessage message = AbortMessage(reason);
  for (int worker : holding_) output.messages.emplace_back(worker, message);
  return output;
}

v1::CoordinatorMessage JobRun::AbortMessage(const std::string& reason) const {
  v1::CoordinatorMessage message;
  message.mutable_abort()->set_job_id(job_id_);
  message.mutable_abort()->set_reason(reason);
  message.mutable_abort()->set_keep_states(keep_states_);
  return message;
}

std::string JobRun::TransportOfEdges() const {
  std::set<std::string> kinds;
  for (absl::string_view edge : edges_) {
    const size_t colon = edge.find(": ");
    if (colon != absl::string_view::npos) edge.remove_prefix(colon + 2);
    // Without the reason.
    kinds.insert(std::string(edge.substr(0, edge.find(" ("))));
  }
  return kinds.empty() ? "none" : absl::StrJoin(kinds, "+");
}

std::string HashOfParameters(
    const std::vector<v1::ParameterDigest>& parameters) {
  constexpr absl::string_view kZero("\0", 1);
  Sha256 hash;
  for (const v1::ParameterDigest& parameter : parameters) {
    hash.Update(absl::StrCat(parameter.name(), kZero, parameter.dtype(), kZero,
                             absl::StrJoin(parameter.shape(), ","), kZero,
                             parameter.sha256(), "\n"));
  }
  return hash.FinishHex();
}

}  // namespace stagecoach::coordinator

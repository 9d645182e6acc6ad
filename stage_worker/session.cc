#include "stage_worker/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/bytes.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/status.h"
#include "job/memory_proto.h"
#include "job/parse.h"
#include "job/profile_proto.h"
#include "job/spec_proto.h"
#include "schedule/formats/formats.h"
#include "stage_worker/check_assignment.h"
#include "stage_worker/engine/model_profiler.h"
#include "stage_worker/memory_report.h"

namespace stagecoach::worker {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

// Which states may follow which; FAILED and RELEASING may follow any but IDLE.
bool MayFollow(SessionState from, SessionState to) {
  switch (to) {
    case SessionState::kIdle:
      return from == SessionState::kReleasing ||
             from == SessionState::kFinishing;
    case SessionState::kProfiling:
      return from == SessionState::kIdle;
    case SessionState::kProfiled:
      return from == SessionState::kProfiling;
    case SessionState::kBuilding:
      return from == SessionState::kIdle || from == SessionState::kProfiled ||
             from == SessionState::kReady;
    case SessionState::kBuilt:
      return from == SessionState::kBuilding;
    case SessionState::kConnecting:
      return from == SessionState::kBuilt;
    case SessionState::kReady:
      return from == SessionState::kConnecting ||
             from == SessionState::kPrepared;
    case SessionState::kStepping:
      return from == SessionState::kReady;
    case SessionState::kPrepared:
      return from == SessionState::kStepping;
    case SessionState::kFinishing:
      return from == SessionState::kReady;
    case SessionState::kFailed:
    case SessionState::kReleasing:
      return from != SessionState::kIdle;
  }
  return false;
}

v1::FailureKind KindOf(const absl::Status& status,
                       const std::string& blamed_worker) {
  if (!blamed_worker.empty()) return v1::FAILURE_KIND_WORKER_LOST;
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return v1::FAILURE_KIND_OUT_OF_MEMORY;
    case absl::StatusCode::kInvalidArgument:
      return v1::FAILURE_KIND_INVALID;
    // A peer that cannot be reached, though no edge says whose end was seen.
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return v1::FAILURE_KIND_WORKER_LOST;
    default:
      return v1::FAILURE_KIND_INTERNAL;
  }
}

LogFields FieldsOf(const std::string& job_id, Epoch epoch) {
  LogFields fields;
  fields.job = job_id;
  fields.epoch = epoch.value();
  return fields;
}

// "stages 0 (layers 0-3), 3 (layers 9-12)"
std::string StagesText(const v1::Assign& assign) {
  std::vector<std::string> stages;
  for (const v1::AssignedStage& stage : assign.stages()) {
    stages.push_back(absl::StrCat(stage.stage(), " (layers ",
                                  stage.layer_begin(), " to ",
                                  stage.layer_end() - 1, ")"));
  }
  return absl::StrCat(stages.size() == 1 ? "stage " : "stages ",
                      absl::StrJoin(stages, ", "));
}

void ToProto(const Position& position, v1::Position* proto) {
  proto->set_step(position.step.value());
  proto->set_action(schedule::ToString(position.action));
  proto->set_stage(position.action.stage.value());
  proto->set_microbatch(position.action.microbatch.value());
  proto->set_waiting_for(position.waiting_for);
}

void ToProto(const std::vector<MicrobatchLoss>& losses,
             google::protobuf::RepeatedPtrField<v1::MicrobatchLoss>* proto) {
  for (const MicrobatchLoss& loss : losses) {
    v1::MicrobatchLoss* entry = proto->Add();
    entry->set_microbatch(loss.microbatch.value());
    entry->set_loss_sum(loss.loss_sum);
  }
}

void ToProto(const Placement::StepOutcome& outcome, v1::Prepared* proto) {
  ToProto(outcome.gradients.losses, proto->mutable_losses());
  for (const ParameterNorm& norm : outcome.gradients.norms) {
    v1::ParameterNorm* entry = proto->add_norms();
    entry->set_global_index(norm.global_index);
    entry->set_squared(norm.squared);
  }
  proto->set_all_finite(outcome.gradients.all_finite);
  proto->set_compute_start_nanoseconds(
      outcome.timing.compute_start_nanoseconds);
  proto->set_compute_end_nanoseconds(outcome.timing.compute_end_nanoseconds);
  proto->set_busy_nanoseconds(outcome.timing.busy_nanoseconds);
}

void ToProto(const ParameterDigest& digest, v1::ParameterDigest* proto) {
  proto->set_name(digest.name);
  proto->set_dtype(DTypeName(digest.descriptor.dtype));
  for (int64_t size : digest.descriptor.shape) proto->add_shape(size);
  proto->set_sha256(digest.sha256);
}

}  // namespace

const char* SessionStateName(SessionState state) {
  switch (state) {
    case SessionState::kIdle:
      return "IDLE";
    case SessionState::kProfiling:
      return "PROFILING";
    case SessionState::kProfiled:
      return "PROFILED";
    case SessionState::kBuilding:
      return "BUILDING";
    case SessionState::kBuilt:
      return "BUILT";
    case SessionState::kConnecting:
      return "CONNECTING";
    case SessionState::kReady:
      return "READY";
    case SessionState::kStepping:
      return "STEPPING";
    case SessionState::kPrepared:
      return "PREPARED";
    case SessionState::kFinishing:
      return "FINISHING";
    case SessionState::kFailed:
      return "FAILED";
    case SessionState::kReleasing:
      return "RELEASING";
  }
  return "?";
}

Session::Session(const SessionOptions& options) : options_(options) {}

void Session::Transition(SessionState to) {
  if (!MayFollow(state_, to)) {
    LogError(absl::StrCat("session: no way from ", SessionStateName(state_),
                          " to ", SessionStateName(to)));
    return;
  }
  state_ = to;
}

bool Session::Expect(SessionState state, const char* message) {
  if (state_ == state) return true;
  // A message that crossed our own failure report, or one of a coordinator that
  // is wrong: neither may change anything.
  LogWarning(
      absl::StrCat(message, " ignored in state ", SessionStateName(state_)));
  return false;
}

bool Session::IsCurrent(Epoch epoch) const {
  return state_ != SessionState::kIdle && held_.epoch == epoch;
}

void Session::Send(v1::WorkerMessage message) {
  // Before that the coordinator would take it for part of an earlier session.
  // What counts is told by Resume.
  if (!welcomed_ && !message.has_register_()) return;
  v1::Fence* fence = message.mutable_fence();
  fence->set_term(term_.value());
  fence->set_incarnation(options_.incarnation.value());
  fence->set_epoch(held_.epoch.value());
  options_.send(std::move(message));
}

bool Session::PassesFence(const v1::CoordinatorMessage& message) {
  const v1::Fence& fence = message.fence();
  if (Term(fence.term()) < term_) {
    ++refused_.old_term;
    return false;
  }
  if (fence.incarnation() != 0 &&
      Incarnation(fence.incarnation()) != options_.incarnation) {
    ++refused_.other_incarnation;
    return false;
  }
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
    case v1::CoordinatorMessage::kMemoryQuery:
    case v1::CoordinatorMessage::kLogAcknowledged:
    case v1::CoordinatorMessage::kShutdown:
      return true;
    case v1::CoordinatorMessage::kProfile:
      if (Epoch(fence.epoch()) > last_epoch_) return true;
      break;
    case v1::CoordinatorMessage::kAssign:
      if (Epoch(fence.epoch()) > last_epoch_) return true;
      if (state_ == SessionState::kProfiled &&
          IsCurrent(Epoch(fence.epoch()))) {
        return true;
      }
      break;
    default:
      if (IsCurrent(Epoch(fence.epoch()))) return true;
  }
  ++refused_.other_epoch;
  return false;
}

void Session::OnMessage(const v1::CoordinatorMessage& message) {
  if (!PassesFence(message)) return;
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      return OnWelcome(message.welcome());
    case v1::CoordinatorMessage::kProfile:
      return OnProfile(message.profile(), Epoch(message.fence().epoch()));
    case v1::CoordinatorMessage::kAssign:
      return OnAssign(message.assign(), Epoch(message.fence().epoch()));
    case v1::CoordinatorMessage::kConnect:
      return OnConnect();
    case v1::CoordinatorMessage::kReschedule:
      return OnReschedule(message.reschedule());
    case v1::CoordinatorMessage::kStepBegin:
      return OnStepBegin(message.step_begin());
    case v1::CoordinatorMessage::kStepCommit:
      return OnStepCommit(message.step_commit());
    case v1::CoordinatorMessage::kWriteCheckpoint:
      return OnWriteCheckpoint(message.write_checkpoint());
    case v1::CoordinatorMessage::kSealCheckpoint:
      return OnSealCheckpoint(message.seal_checkpoint());
    case v1::CoordinatorMessage::kFinish:
      return OnFinish(message.finish());
    case v1::CoordinatorMessage::kAbort:
      return OnAbort(message.abort().reason());
    case v1::CoordinatorMessage::kMemoryQuery:
      return OnMemoryQuery(message.memory_query());
    case v1::CoordinatorMessage::kLogAcknowledged:
      return OnLogAcknowledged(message.log_acknowledged());
    case v1::CoordinatorMessage::kShutdown:
      return options_.on_shutdown(message.shutdown().reason());
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      LogWarning("empty message from the coordinator");
  }
}

absl::StatusOr<schedule::Schedule> Session::ScheduleOf(
    const v1::Assign& assign) {
  if (assign.has_schedule()) {
    SC_ASSIGN_OR_RETURN(schedule_, schedule::FromProto(assign.schedule()));
    schedule_id_ = assign.schedule_id();
  }
  if (schedule_id_ != assign.schedule_id()) {
    return absl::FailedPreconditionError(
        absl::StrCat("schedule ", assign.schedule_id(), " is not known here"));
  }
  return schedule_;
}

absl::StatusOr<PlacementOptions> Session::OptionsOf(const v1::Assign& assign,
                                                    Epoch epoch) {
  PlacementOptions options;
  options.job_id = assign.job_id();
  options.epoch = epoch;
  SC_ASSIGN_OR_RETURN(options.spec, job::FromProto(assign.spec()));
  SC_ASSIGN_OR_RETURN(options.schedule, ScheduleOf(assign));
  if (assign.has_evaluation()) {
    SC_ASSIGN_OR_RETURN(options.evaluation,
                        schedule::FromProto(assign.evaluation()));
  }
  options.worker = WorkerIndex(assign.worker_index());
  for (const v1::JobPeer& peer : assign.peers()) {
    options.worker_names.push_back(peer.worker());
  }
  for (const v1::AssignedStage& stage : assign.stages()) {
    StageAssignment assignment;
    assignment.stage = StageIndex(stage.stage());
    assignment.layers.begin = stage.layer_begin();
    assignment.layers.end = stage.layer_end();
    assignment.first = options.schedule.IsFirst(assignment.stage);
    assignment.last = options.schedule.IsLast(assignment.stage);
    options.stages.push_back(assignment);
  }
  held_.steps = options.spec.training.steps;
  options.boundary_bytes = static_cast<size_t>(assign.slot_bytes());
  options.checkpoint = assign.checkpoint();
  options.on_aborted = [weak = weak_from_this(), epoch] {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->options_.executor->Add([self, epoch] {
      if (!self->IsCurrent(epoch) || self->held_.placement == nullptr) return;
      self->Fail(self->held_.placement->abort_flag().status());
    });
  };
  SC_RETURN_IF_ERROR(CheckAssignment(options));
  return options;
}

void Session::OnProfile(const v1::Profile& profile, Epoch epoch) {
  if (!Expect(SessionState::kIdle, "Profile")) return;
  Transition(SessionState::kProfiling);
  last_epoch_ = epoch;
  held_ = Held();
  held_.job_id = profile.job_id();
  held_.epoch = epoch;
  if (!profile.measure()) return SendProfiled(nullptr);
  LogAboutJob("measures the model's layers");
  ProfilerOptions options;
  auto spec = job::FromProto(profile.spec());
  if (!spec.ok()) return Fail(spec.status());
  const absl::Status valid = job::Validate(*spec);
  if (!valid.ok()) return Fail(valid);
  options.spec = *std::move(spec);
  options.engine_factory = options_.parts.engine_factory;
  options.allocator = options_.parts.allocator;
  options.clock = options_.parts.clock;
  profile_cancelled_ = std::make_shared<std::atomic<bool>>(false);
  options.cancelled = [flag = profile_cancelled_] { return flag->load(); };
  building_ = true;
  auto self = shared_from_this();
  options_.engine->Add([self, epoch, options]() mutable {
    absl::StatusOr<job::ModelProfile> measured;
    auto data = self->options_.parts.data_factory(options.spec);
    if (data.ok()) {
      options.data = data->get();
      measured = ProfileModel(options);
    } else {
      measured = data.status();
    }
    self->options_.executor->Add([self, epoch, measured = std::move(measured)] {
      self->OnProfiled(epoch, measured);
    });
  });
}

void Session::OnProfiled(Epoch epoch,
                         const absl::StatusOr<job::ModelProfile>& profile) {
  building_ = false;
  if (!IsCurrent(epoch)) return;
  if (state_ == SessionState::kReleasing) return OnAbort("");
  if (!profile.ok()) return Fail(profile.status());
  SendProfiled(&*profile);
}

void Session::SendProfiled(const job::ModelProfile* profile) {
  Transition(SessionState::kProfiled);
  v1::WorkerMessage message;
  v1::Profiled* profiled = message.mutable_profiled();
  profiled->set_job_id(held_.job_id);
  if (profile != nullptr) {
    job::ToProto(*profile, profiled->mutable_profile());
  }
  *held_.answers.mutable_profiled() = *profiled;
  Send(std::move(message));
}

transport::ControlChannelFactory Session::ControlChannels() const {
  if (options_.control == nullptr) return nullptr;
  ControlledPlacement placement;
  placement.worker = options_.worker;
  placement.job_id = held_.job_id;
  placement.epoch = held_.epoch;
  placement.peers = held_.peers;
  return options_.control->ChannelsOf(std::move(placement));
}

void Session::OnAssign(const v1::Assign& assign, Epoch epoch) {
  if (state_ != SessionState::kProfiled &&
      !Expect(SessionState::kIdle, "Assign")) {
    return;
  }
  SC_FAILPOINT("worker.assign");
  Transition(SessionState::kBuilding);
  last_epoch_ = epoch;
  held_ = Held();
  held_.job_id = assign.job_id();
  held_.epoch = epoch;
  held_.answers.set_schedule_id(assign.schedule_id());
  for (const v1::JobPeer& peer : assign.peers()) {
    PeerAddress address;
    address.worker = peer.worker();
    address.incarnation = Incarnation(peer.incarnation());
    address.address = peer.peer_address();
    held_.peers.push_back(std::move(address));
  }
  LogAboutJob(absl::StrCat("assigned: ", StagesText(assign), " of ",
                           assign.peers_size(), " workers as number ",
                           assign.worker_index()));
  auto placement_options = OptionsOf(assign, epoch);
  if (!placement_options.ok()) return Fail(placement_options.status());
  CheckpointWriter::Options writer;
  writer.job_id = held_.job_id;
  writer.epoch = epoch;
  writer.spec = placement_options->spec;
  writer.stages = placement_options->schedule.stages();
  writer.files = options_.files;
  held_.checkpoints = std::make_shared<CheckpointWriter>(writer);
  placement_options->paths_of =
      [own = placement_options->worker, paths = options_.directory->paths(),
       peers = held_.peers](WorkerIndex worker) -> absl::StatusOr<WorkerPaths> {
    if (worker == own) return paths;
    return DescribePaths(peers[worker.index()], kConnectTimeout);
  };
  placement_options->control_channels = ControlChannels();
  building_ = true;
  auto self = shared_from_this();
  options_.engine->Add(
      [self, epoch, placement_options = *std::move(placement_options)] {
        absl::StatusOr<std::shared_ptr<Placement>> built =
            Placement::Create(self->options_.parts, placement_options);
        self->options_.executor->Add([self, epoch, built = std::move(built)] {
          self->OnBuilt(epoch, built);
        });
      });
}

void Session::OnBuilt(Epoch epoch,
                      absl::StatusOr<std::shared_ptr<Placement>> built) {
  building_ = false;
  if (!IsCurrent(epoch)) return;
  if (built.ok()) held_.placement = *built;
  if (state_ == SessionState::kReleasing) return OnAbort("");
  if (!built.ok()) return Fail(built.status());
  SendAssigned();
}

void Session::SendAssigned() {
  Transition(SessionState::kBuilt);
  LogAboutJob(
      absl::StrCat("stages are built, data is open; receive pool ",
                   FormatByteSize(held_.placement->receive_pool_bytes())));
  PeerDirectory::Entry entry;
  entry.job_id = held_.job_id;
  entry.epoch = held_.epoch;
  for (const PeerLink::Description& end : held_.placement->Describe()) {
    entry.endpoints.push_back({end.kind, end.descriptor});
  }
  options_.directory->Publish(entry);
  v1::WorkerMessage message;
  message.mutable_assigned()->set_job_id(held_.job_id);
  message.mutable_assigned()->set_receive_pool_bytes(
      held_.placement->receive_pool_bytes());
  if (held_.placement->memory_profile().has_value()) {
    job::ToProto(*held_.placement->memory_profile(),
                 message.mutable_assigned()->mutable_memory_profile());
  }
  *held_.answers.mutable_assigned() = message.assigned();
  Send(std::move(message));
}

void Session::OnConnect() {
  if (!Expect(SessionState::kBuilt, "Connect")) return;
  Transition(SessionState::kConnecting);
  const Held held = held_;
  OnEngine<absl::Status>(
      [held](Placement& placement) {
        auto resolve = [&](WorkerIndex worker, const std::string& kind) {
          return DescribePeer(held.peers[worker.index()], held.job_id,
                              held.epoch, kind, kConnectTimeout);
        };
        return placement.Connect(resolve, kConnectTimeout);
      },
      [this, epoch = held_.epoch](const absl::Status& status) {
        if (!IsCurrent(epoch) || state_ != SessionState::kConnecting) return;
        if (!status.ok()) return Fail(status);
        Transition(SessionState::kReady);
        v1::WorkerMessage message;
        v1::Connected* connected = message.mutable_connected();
        connected->set_job_id(held_.job_id);
        for (const std::string& edge : held_.placement->EdgeSummaries()) {
          connected->add_edges(edge);
        }
        LogAboutJob(absl::StrCat(
            "connected: ", connected->edges().empty()
                               ? std::string("no edges")
                               : absl::StrJoin(connected->edges(), "; ")));
        *held_.answers.mutable_connected() = *connected;
        Send(std::move(message));
      });
}

void Session::OnReschedule(const v1::Reschedule& reschedule) {
  if (!Expect(SessionState::kReady, "Reschedule")) return;
  Transition(SessionState::kBuilding);
  auto schedule = schedule::FromProto(reschedule.schedule());
  if (!schedule.ok()) return Fail(schedule.status());
  absl::StatusOr<schedule::Schedule> evaluation = schedule::Schedule();
  if (reschedule.has_evaluation()) {
    evaluation = schedule::FromProto(reschedule.evaluation());
    if (!evaluation.ok()) return Fail(evaluation.status());
  }
  PlacementOptions changed = held_.placement->options();
  changed.schedule = *schedule;
  changed.evaluation = *evaluation;
  const absl::Status fits = CheckAssignment(changed);
  if (!fits.ok()) return Fail(fits);
  schedule_ = *schedule;
  schedule_id_ = reschedule.schedule_id();
  LogAboutJob(absl::StrCat("takes another schedule: ", schedule_.kind));
  held_.answers.set_schedule_id(reschedule.schedule_id());
  options_.directory->Withdraw();
  OnEngine<absl::Status>(
      [schedule = *std::move(schedule),
       evaluation = *std::move(evaluation)](Placement& placement) {
        return placement.ChangeSchedule(schedule, evaluation);
      },
      [this, epoch = held_.epoch](const absl::Status& status) {
        if (!IsCurrent(epoch) || state_ != SessionState::kBuilding) return;
        if (!status.ok()) return Fail(status);
        SendAssigned();
      });
}

void Session::OnStepBegin(const v1::StepBegin& begin) {
  ForgetSteps(begin.recorded_steps());
  if (!Expect(SessionState::kReady, "StepBegin")) return;
  Transition(SessionState::kStepping);
  OnEngine<absl::StatusOr<v1::Prepared>>(
      [begin](Placement& placement) -> absl::StatusOr<v1::Prepared> {
        const StepIndex step(begin.step());
        v1::Prepared prepared;
        prepared.set_job_id(begin.job_id());
        prepared.set_step(step.value());
        if (begin.evaluate()) {
          SC_ASSIGN_OR_RETURN(const Placement::Evaluation evaluation,
                              placement.Evaluate(step));
          ToProto(evaluation.losses, prepared.mutable_evaluation_losses());
          prepared.set_evaluation_nanoseconds(evaluation.nanoseconds);
        }
        SC_ASSIGN_OR_RETURN(const Placement::StepOutcome outcome,
                            placement.RunStep(step, begin.target_tokens()));
        ToProto(outcome, &prepared);
        return prepared;
      },
      [this, epoch = held_.epoch](absl::StatusOr<v1::Prepared> prepared) {
        OnStepDone(epoch, std::move(prepared));
      });
}

void Session::OnStepDone(Epoch epoch, absl::StatusOr<v1::Prepared> prepared) {
  if (!IsCurrent(epoch) || state_ != SessionState::kStepping) return;
  if (!prepared.ok()) return Fail(prepared.status());
  Transition(SessionState::kPrepared);
  v1::WorkerMessage message;
  LogFields fields = FieldsOf(held_.job_id, held_.epoch);
  fields.step = prepared->step();
  LogDebug(absl::StrCat("prepared; busy for ",
                        absl::FormatDuration(
                            absl::Nanoseconds(prepared->busy_nanoseconds()))),
           fields);
  *message.mutable_prepared() = *std::move(prepared);
  KeepPrepared(message.prepared());
  SC_FAILPOINT("worker.prepared");
  Send(std::move(message));
}

void Session::OnStepCommit(const v1::StepCommit& commit) {
  if (!Expect(SessionState::kPrepared, "StepCommit")) return;
  SC_FAILPOINT("worker.commit");
  KeepOutcome(commit);
  // Ready at once: the engine works in order, so the next step may be queued
  // behind the update.
  Transition(SessionState::kReady);
  UpdateOptions update;
  update.step = StepIndex(commit.step());
  update.clip_factor = commit.clip_factor();
  update.learning_rate = commit.learning_rate();
  OnEngine<absl::Status>(
      [update, skip = commit.skip()](Placement& placement) {
        return placement.Apply(update, skip);
      },
      [this, epoch = held_.epoch,
       step = commit.step()](const absl::Status& status) {
        if (!IsCurrent(epoch) || state_ == SessionState::kFailed) return;
        if (!status.ok()) return Fail(status);
        v1::WorkerMessage message;
        message.mutable_applied()->set_job_id(held_.job_id);
        message.mutable_applied()->set_step(step);
        held_.answers.set_applied_steps(step + 1);
        SC_FAILPOINT("worker.applied");
        Send(std::move(message));
      });
}

void Session::OnFinish(const v1::Finish& finish) {
  if (!Expect(SessionState::kReady, "Finish")) return;
  Transition(SessionState::kFinishing);
  OnEngine<absl::StatusOr<v1::Finished>>(
      [finish, steps = held_.steps](
          Placement& placement) -> absl::StatusOr<v1::Finished> {
        v1::Finished finished;
        finished.set_job_id(finish.job_id());
        if (finish.evaluate()) {
          SC_ASSIGN_OR_RETURN(const Placement::Evaluation evaluation,
                              placement.Evaluate(StepIndex(steps)));
          ToProto(evaluation.losses, finished.mutable_evaluation_losses());
        }
        SC_ASSIGN_OR_RETURN(const std::vector<ParameterDigest> digests,
                            placement.DigestParameters());
        for (const ParameterDigest& digest : digests) {
          ToProto(digest, finished.add_parameters());
        }
        placement.Stop();
        return finished;
      },
      [this, epoch = held_.epoch](absl::StatusOr<v1::Finished> ended) {
        if (!IsCurrent(epoch) || state_ != SessionState::kFinishing) return;
        if (!ended.ok()) return Fail(ended.status());
        v1::WorkerMessage message;
        v1::Finished* finished = message.mutable_finished();
        *finished = *std::move(ended);
        ToProto(options_.worker, held_.placement->Memory(),
                finished->mutable_memory());
        options_.directory->Withdraw();
        *held_.answers.mutable_finished() = *finished;
        LogAboutJob(absl::StrCat(
            "finished; at most ",
            FormatByteSize(finished->memory().allocated_bytes().peak()),
            " were allocated"));
        SendRestOfLog();
        Send(std::move(message));
        // The engine may still drop its own reference: let it be the last.
        options_.engine->Add([placement = held_.placement] {});
        held_.placement.reset();
        Transition(SessionState::kIdle);
        Register();
      });
}

void Session::Fail(const absl::Status& status) {
  if (state_ == SessionState::kIdle || state_ == SessionState::kFailed ||
      state_ == SessionState::kReleasing) {
    return;
  }
  Transition(SessionState::kFailed);
  v1::WorkerMessage message;
  v1::WorkerFailed* failed = message.mutable_failed();
  failed->set_job_id(held_.job_id);
  failed->set_message(std::string(status.message()));
  std::string blamed;
  if (held_.placement != nullptr) {
    blamed = held_.placement->abort_flag().blamed_worker();
    const std::optional<Position> position = held_.placement->position();
    if (position) ToProto(*position, failed->mutable_position());
  }
  failed->set_kind(KindOf(status, blamed));
  failed->set_blamed_worker(blamed);
  LogError(status.message(), FieldsOf(held_.job_id, held_.epoch));
  *held_.answers.mutable_failed() = *failed;
  Send(std::move(message));
  if (held_.checkpoints != nullptr) held_.checkpoints->Cancel();
  if (held_.placement == nullptr) return;
  held_.placement->Abort(status);
  options_.engine->Add([placement = held_.placement] { placement->Stop(); });
}

void Session::OnAbort(const std::string& reason) {
  if (state_ == SessionState::kIdle) return;
  if (!reason.empty()) LogAboutJob(absl::StrCat("aborted: ", reason));
  if (state_ != SessionState::kReleasing) Transition(SessionState::kReleasing);
  options_.directory->Withdraw();
  if (held_.checkpoints != nullptr) held_.checkpoints->Cancel();
  // OnBuilt or OnProfiled comes back here: a build cannot be interrupted, and a
  // profile only between two actions.
  profile_cancelled_->store(true);
  if (building_) return;
  if (held_.placement == nullptr) return SendReleased(nullptr);
  held_.placement->Abort(absl::CancelledError(
      absl::StrCat("the coordinator ended the job: ", reason)));
  OnEngine<v1::WorkerMemory>(
      [this](Placement& placement) {
        placement.Stop();
        v1::WorkerMemory memory;
        ToProto(options_.worker, placement.Memory(), &memory);
        return memory;
      },
      [this, epoch = held_.epoch](const v1::WorkerMemory& memory) {
        if (!IsCurrent(epoch)) return;
        SendReleased(&memory);
      });
}

void Session::SendReleased(const v1::WorkerMemory* memory) {
  v1::WorkerMessage message;
  v1::Released* released = message.mutable_released();
  released->set_job_id(held_.job_id);
  if (memory != nullptr) *released->mutable_memory() = *memory;
  *held_.answers.mutable_released() = *released;
  LogAboutJob("has let go of everything");
  SendRestOfLog();
  Send(std::move(message));
  options_.engine->Add([placement = held_.placement] {});
  held_.placement.reset();
  Transition(SessionState::kIdle);
  Register();
}

void Session::SendHeartbeat() {
  v1::WorkerMessage message;
  v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_sequence(++heartbeats_);
  if (state_ != SessionState::kIdle) {
    heartbeat->set_job_id(held_.job_id);
    if (held_.placement != nullptr) {
      const std::optional<Position> position = held_.placement->position();
      if (position) ToProto(*position, heartbeat->mutable_position());
    }
  }
  Send(std::move(message));
  SendNextLog();
}

void Session::OnLogAcknowledged(const v1::LogAcknowledged& acknowledged) {
  if (options_.logs == nullptr) return;
  options_.logs->Acknowledge(acknowledged.job_id(), acknowledged.next_offset());
  SendNextLog();
}

void Session::SendLog(JobLogs::Chunk chunk) {
  v1::WorkerMessage message;
  message.mutable_log()->set_job_id(chunk.job_id);
  message.mutable_log()->set_offset(chunk.offset);
  message.mutable_log()->set_data(std::move(chunk.data));
  Send(std::move(message));
}

void Session::SendNextLog() {
  if (options_.logs == nullptr) return;
  if (auto chunk = options_.logs->Next(); chunk.has_value()) {
    SendLog(*std::move(chunk));
  }
}

void Session::SendRestOfLog() {
  if (options_.logs == nullptr) return;
  for (JobLogs::Chunk& chunk : options_.logs->Rest(held_.job_id)) {
    SendLog(std::move(chunk));
  }
}

void Session::LogAboutJob(absl::string_view message) const {
  LogInfo(message, FieldsOf(held_.job_id, held_.epoch));
}

void Session::Stop(std::function<void()> done) {
  profile_cancelled_->store(true);
  if (held_.checkpoints != nullptr) held_.checkpoints->Cancel();
  if (held_.placement != nullptr) {
    held_.placement->Abort(absl::CancelledError("the worker is stopping"));
  }
  options_.engine->Add([placement = std::move(held_.placement),
                        done = std::move(done)]() mutable {
    if (placement != nullptr) placement->Stop();
    placement.reset();
    done();
  });
}

}  // namespace stagecoach::worker

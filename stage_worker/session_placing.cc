// A placement, until its first step: profiled, built, connected; and again for
// another schedule.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/bytes.h"
#include "base/failpoint.h"
#include "base/status.h"
#include "job/memory_proto.h"
#include "job/parse.h"
#include "job/profile_proto.h"
#include "job/spec_proto.h"
#include "schedule/formats/formats.h"
#include "stage_worker/check_assignment.h"
#include "stage_worker/engine/model_profiler.h"
#include "stage_worker/session.h"

namespace stagecoach::worker {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

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

}  // namespace

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
  const absl::Status copies = PrepareCopies(assign, &*placement_options);
  if (!copies.ok()) return Fail(copies);
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
  SC_FAILPOINT("worker.schedule.installed");
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

}  // namespace stagecoach::worker

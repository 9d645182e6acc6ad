// Copies of the stages' state in memory: of each step's beginning in the
// neighbour's, and in the own apart from the engine's.
#include <utility>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/status.h"
#include "stage_worker/session.h"
#include "stage_worker/session_fields.h"

namespace stagecoach::worker {
namespace {

PeerAddress FromProto(const v1::JobPeer& peer) {
  PeerAddress address;
  address.worker = peer.worker();
  address.incarnation = Incarnation(peer.incarnation());
  address.address = peer.peer_address();
  return address;
}

}  // namespace

absl::Status Session::PrepareCopies(const v1::Assign& assign,
                                    PlacementOptions* placement) {
  const bool wanted = placement->spec.recovery.neighbour_copy;
  if (options_.vault == nullptr) {
    if (!wanted && !assign.has_restore()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "recovery.neighbour_copy: this worker keeps no copies");
  }
  options_.vault->Begin(held_.job_id, held_.epoch,
                        /*keep=*/assign.has_restore());
  if (assign.has_restore()) {
    placement->restore =
        [restore = RestoreOf(assign, *placement)](StageEngine* engine) {
          return RestoreState(restore, engine);
        };
  }
  if (held_.peers.size() < 2) return absl::OkStatus();
  held_.copies_steps = wanted;
  NeighbourCopies::Options copies;
  copies.job_id = held_.job_id;
  copies.epoch = held_.epoch;
  copies.neighbour =
      held_.peers[(placement->worker.index() + 1) % held_.peers.size()];
  copies.vault = options_.vault;
  copies.carrier = options_.carrier;
  copies.executor = options_.copies;
  held_.copies = std::make_shared<NeighbourCopies>(std::move(copies));
  return absl::OkStatus();
}

RestoreOptions Session::RestoreOf(const v1::Assign& assign,
                                  const PlacementOptions& placement) const {
  RestoreOptions restore;
  restore.job_id = held_.job_id;
  restore.epoch = held_.epoch;
  restore.step = assign.restore().step();
  for (const v1::StateSource& source : assign.restore().sources()) {
    restore.sources.push_back(
        {StageIndex(source.stage()), FromProto(source.keeper())});
  }
  bool owner = false;
  bool tied = false;
  for (const StageAssignment& stage : placement.stages) {
    restore.wanted.push_back(stage.stage);
    owner |= stage.first;
    tied |= stage.last && placement.spec.model.tie_embeddings;
  }
  if (tied && !owner) restore.wanted.push_back(StageIndex(0));
  restore.vault = options_.vault;
  restore.carrier = options_.carrier;
  return restore;
}

absl::Status Session::CopyState(const std::shared_ptr<NeighbourCopies>& copies,
                                Epoch epoch, StepIndex step,
                                Placement& placement) {
  if (copies == nullptr) return absl::OkStatus();
  SC_ASSIGN_OR_RETURN(std::vector<StageState> states, placement.ExportState());
  auto self = shared_from_this();
  copies->Copy(step.value(), std::move(states),
               [self, epoch, step](absl::Status status) {
                 self->options_.executor->Add(
                     [self, epoch, step, status = std::move(status)] {
                       self->OnCopied(epoch, step.value(), status);
                     });
               });
  return absl::OkStatus();
}

void Session::OnCopyState(const v1::CopyState& copy) {
  if (!Expect(SessionState::kReady, "CopyState")) return;
  OnEngine<absl::Status>(
      [this, copies = held_.copies, epoch = held_.epoch,
       step = copy.step()](Placement& placement) {
        return CopyState(copies, epoch, StepIndex(step), placement);
      },
      [this, epoch = held_.epoch](const absl::Status& status) {
        if (!status.ok() && IsCurrent(epoch)) Fail(status);
      });
}

void Session::OnCopied(Epoch epoch, int64_t step, const absl::Status& status) {
  if (!IsCurrent(epoch) || !HoldsLivePlacement()) return;
  if (!status.ok()) {
    return Fail(Annotate(status, "the copy of this worker's stages"));
  }
  SC_FAILPOINT("worker.state.copied");
  v1::WorkerMessage message;
  message.mutable_state_copied()->set_job_id(held_.job_id);
  message.mutable_state_copied()->set_step(step);
  *held_.answers.mutable_state_copied() = message.state_copied();
  Send(std::move(message));
}

void Session::CancelCopies() {
  if (held_.copies != nullptr) held_.copies->Cancel();
}

void Session::DropCopies(const std::string& job_id) {
  if (options_.vault != nullptr) options_.vault->Drop(job_id);
}

v1::KeptStates Session::ListCopies() const {
  v1::KeptStates kept;
  if (options_.vault == nullptr) return kept;
  kept.set_job_id(options_.vault->job_id());
  for (const StateVault::Name& name : options_.vault->List(kept.job_id())) {
    v1::KeptState* state = kept.add_states();
    state->set_stage(name.stage.value());
    state->set_step(name.step);
  }
  return kept;
}

}  // namespace stagecoach::worker

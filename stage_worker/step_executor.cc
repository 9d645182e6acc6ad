#include "stage_worker/step_executor.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::worker {
namespace {

using schedule::Action;
using schedule::ActionKind;

// Tied-gradient transfers belong to no microbatch.
constexpr MicrobatchIndex kNoMicrobatch{-1};

int64_t NowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::vector<transport::OutgoingTensor> Outgoing(
    const std::vector<TensorRef>& tensors) {
  std::vector<transport::OutgoingTensor> outgoing;
  outgoing.reserve(tensors.size());
  for (const TensorRef& tensor : tensors) {
    outgoing.push_back({tensor->descriptor(), tensor->data()});
  }
  return outgoing;
}

}  // namespace

StepExecutor::StepExecutor(const StepExecutorOptions& options)
    : options_(options),
      schedule_(*options.schedule),
      slots_(options.schedule, options.worker, options.link, options.engine) {
  cells_.resize(static_cast<size_t>(schedule_.stages()));
  for (StageIndex stage : schedule_.StagesOf(options_.worker)) {
    cells_[stage.index()].resize(static_cast<size_t>(schedule_.microbatches));
  }
}

absl::StatusOr<StepTiming> StepExecutor::RunStep(StepIndex step,
                                                 int64_t target_tokens) {
  step_ = step;
  timing_ = StepTiming();
  SC_RETURN_IF_ERROR(options_.engine->BeginStep(step, target_tokens));
  SC_RETURN_IF_ERROR(RunList());
  return timing_;
}

absl::StatusOr<std::vector<MicrobatchLoss>> StepExecutor::RunEvaluation(
    StepIndex step, DataSource* data) {
  step_ = step;
  SC_RETURN_IF_ERROR(
      options_.engine->BeginEvaluation(step, data, schedule_.microbatches));
  SC_RETURN_IF_ERROR(RunList());
  // No backward comes that would let go of what release = "never" keeps.
  for (StageIndex stage : schedule_.StagesOf(options_.worker)) {
    for (int m = 0; m < schedule_.microbatches; ++m) {
      options_.ledger->BackwardDone(step, stage, MicrobatchIndex(m));
    }
  }
  return options_.engine->FinishEvaluation();
}

absl::Status StepExecutor::RunList() {
  const std::vector<Action>& list = schedule_.actions[options_.worker.index()];
  for (at_ = 0; at_ < list.size(); ++at_) {
    const Action& action = list[at_];
    if (options_.abort->IsSet()) return options_.abort->status();
    Position position;
    position.step = step_;
    position.action = action;
    options_.position->Set(position);
    SC_RETURN_IF_ERROR(Run(action));
    NameRetentions();
    options_.after_action(step_, action);
    options_.between_actions();
  }
  // No transfer crosses a step.
  SC_RETURN_IF_ERROR(WaitUntil("acknowledgements of the step",
                               [this] { return options_.ledger->Empty(); }));
  NameRetentions();
  return absl::OkStatus();
}

void StepExecutor::Clear() {
  for (auto& row : cells_) {
    for (Cell& cell : row) cell = Cell();
  }
  slots_.Clear();
}

absl::Status StepExecutor::Run(const Action& action) {
  if (IsCompute(action.kind)) return Compute(action);
  if (IsReceive(action.kind)) return Receive(action);
  if (IsSend(action.kind)) return Send(action);
  if (IsAwaitRelease(action.kind)) return AwaitRelease(action);
  return ReduceTied();
}

absl::Status StepExecutor::Compute(const Action& action) {
  const int64_t start = NowNanoseconds();
  if (timing_.compute_start_nanoseconds == 0) {
    timing_.compute_start_nanoseconds = start;
  }
  if (options_.produce_in_place) slots_.Offer(at_);
  absl::Status status;
  switch (action.kind) {
    case ActionKind::kForward:
      status = Forward(action);
      break;
    case ActionKind::kBackwardWeight:
      status = BackwardWeight(action);
      break;
    default:
      status = Backward(action);
  }
  timing_.compute_end_nanoseconds = NowNanoseconds();
  timing_.busy_nanoseconds += timing_.compute_end_nanoseconds - start;
  return status;
}

absl::Status StepExecutor::Forward(const Action& action) {
  Cell& cell = CellOf(action.stage, action.microbatch);
  SC_ASSIGN_OR_RETURN(std::vector<TensorRef> outputs,
                      options_.engine->Forward(action.stage, action.microbatch,
                                               std::move(cell.inputs)));
  cell.inputs.clear();
  if (schedule_.IsLast(action.stage)) return absl::OkStatus();
  if (!schedule_.SendsActivation(action.stage)) {
    CellOf(action.stage.Next(), action.microbatch).inputs = std::move(outputs);
    return absl::OkStatus();
  }
  return HandOver(Key(action.stage, action.microbatch, Direction::kActivation),
                  schedule_.WorkerOf(action.stage.Next()), std::move(outputs),
                  &cell);
}

absl::Status StepExecutor::HandOver(const memory::TransferKey& key,
                                    WorkerIndex to,
                                    std::vector<TensorRef> outputs,
                                    Cell* cell) {
  const std::string& peer = options_.link->PeerName(to);
  const bool activation = key.direction == Direction::kActivation;
  SC_ASSIGN_OR_RETURN(std::optional<SlotOutput> in_slot, slots_.Take(&outputs));
  if (in_slot) {
    // The slot is the ledger's output, without anything that could be dropped.
    memory::Ledger::Output entry;
    entry.bytes = static_cast<int64_t>(in_slot->descriptor.bytes());
    SC_RETURN_IF_ERROR(options_.ledger->Produce(key, {std::move(entry)}, peer));
    (activation ? cell->activation_in_slot : cell->gradient_in_slot) =
        std::move(in_slot);
    return absl::OkStatus();
  }
  SC_ASSIGN_OR_RETURN((activation ? cell->activation : cell->gradient),
                      HandToLedger(key, std::move(outputs), peer));
  return absl::OkStatus();
}

absl::Status StepExecutor::Backward(const Action& action) {
  Cell& cell = CellOf(action.stage, action.microbatch);
  std::vector<TensorRef> gradients = std::move(cell.output_gradients);
  cell.output_gradients.clear();
  const bool full = action.kind == ActionKind::kBackward;
  auto result =
      full ? options_.engine->Backward(action.stage, action.microbatch,
                                       std::move(gradients))
           : options_.engine->BackwardInput(action.stage, action.microbatch,
                                            std::move(gradients));
  SC_RETURN_IF_ERROR(result.status());
  if (full) {
    options_.ledger->BackwardDone(step_, action.stage, action.microbatch);
  }
  if (schedule_.IsFirst(action.stage)) return absl::OkStatus();
  if (!schedule_.SendsGradient(action.stage)) {
    CellOf(action.stage.Previous(), action.microbatch).output_gradients =
        *std::move(result);
    return absl::OkStatus();
  }
  return HandOver(Key(action.stage, action.microbatch, Direction::kGradient),
                  schedule_.WorkerOf(action.stage.Previous()),
                  *std::move(result), &cell);
}

absl::Status StepExecutor::BackwardWeight(const Action& action) {
  SC_RETURN_IF_ERROR(
      options_.engine->BackwardWeight(action.stage, action.microbatch));
  options_.ledger->BackwardDone(step_, action.stage, action.microbatch);
  return absl::OkStatus();
}

absl::Status StepExecutor::Receive(const Action& action) {
  const Direction direction = DirectionOf(action.kind);
  const StageIndex producer = direction == Direction::kActivation
                                  ? action.stage.Previous()
                                  : action.stage.Next();
  LinkEdge edge;
  edge.id = schedule_.EdgeOf(action);
  SC_ASSIGN_OR_RETURN(
      std::vector<TensorRef> tensors,
      TakeTransfer(edge, Key(producer, action.microbatch, direction)));
  Cell& cell = CellOf(action.stage, action.microbatch);
  (direction == Direction::kActivation ? cell.inputs : cell.output_gradients) =
      std::move(tensors);
  return absl::OkStatus();
}

absl::Status StepExecutor::AwaitRelease(const Action& action) {
  const Direction direction = DirectionOf(action.kind);
  const std::string& peer = Receiver(action);
  return WaitUntil("send budget", [&] {
    return options_.ledger->InBudget(peer, direction) < schedule_.send_budget;
  });
}

absl::Status StepExecutor::Send(const Action& action) {
  const Direction direction = DirectionOf(action.kind);
  Cell& cell = CellOf(action.stage, action.microbatch);
  auto& tensors =
      direction == Direction::kActivation ? cell.activation : cell.gradient;
  auto& in_slot = direction == Direction::kActivation ? cell.activation_in_slot
                                                      : cell.gradient_in_slot;
  LinkEdge edge;
  edge.id = schedule_.EdgeOf(action);
  const memory::TransferKey key =
      Key(action.stage, action.microbatch, direction);
  if (in_slot) {
    const SlotOutput output = *std::exchange(in_slot, std::nullopt);
    return options_.link->SendFromSlot(edge, key, output.descriptor,
                                       output.slot);
  }
  return options_.link->Send(edge, key, std::exchange(tensors, {}));
}

absl::Status StepExecutor::ReduceTied() {
  LinkEdge to_other;
  to_other.tied = true;
  to_other.id.direction = Direction::kGradient;
  to_other.id.from = schedule_.placement.front();
  to_other.id.to = schedule_.placement.back();
  if (to_other.id.from == to_other.id.to) {
    return options_.engine->ReduceTiedLocally();
  }
  LinkEdge to_owner = to_other;
  std::swap(to_owner.id.from, to_owner.id.to);
  return options_.worker == to_other.id.from
             ? ReduceTiedAsOwner(to_other, to_owner)
             : ReduceTiedAsOther(to_owner, to_other);
}

absl::Status StepExecutor::ReduceTiedAsOwner(const LinkEdge& to_other,
                                             const LinkEdge& from_other) {
  const StageIndex last(schedule_.stages() - 1);
  SC_ASSIGN_OR_RETURN(
      std::vector<TensorRef> received,
      TakeTransfer(from_other, Key(last, kNoMicrobatch, Direction::kGradient)));
  SC_RETURN_IF_ERROR(options_.engine->AddTiedGradient(received.front()));
  return SendTied(to_other, StageIndex(0));
}

absl::Status StepExecutor::ReduceTiedAsOther(const LinkEdge& to_owner,
                                             const LinkEdge& from_owner) {
  SC_RETURN_IF_ERROR(SendTied(to_owner, StageIndex(schedule_.stages() - 1)));
  SC_ASSIGN_OR_RETURN(std::vector<TensorRef> received,
                      TakeTransfer(from_owner, Key(StageIndex(0), kNoMicrobatch,
                                                   Direction::kGradient)));
  return options_.engine->SetTiedGradient(received.front());
}

absl::Status StepExecutor::SendTied(const LinkEdge& edge, StageIndex stage) {
  SC_ASSIGN_OR_RETURN(TensorRef gradient, options_.engine->CopyTiedGradient());
  const memory::TransferKey key =
      Key(stage, kNoMicrobatch, Direction::kGradient);
  SC_ASSIGN_OR_RETURN(std::vector<transport::OutgoingTensor> tensors,
                      HandToLedger(key, {std::move(gradient)},
                                   options_.link->PeerName(edge.id.to)));
  return options_.link->Send(edge, key, std::move(tensors));
}

absl::StatusOr<std::vector<transport::OutgoingTensor>>
StepExecutor::HandToLedger(const memory::TransferKey& key,
                           std::vector<TensorRef> outputs,
                           const std::string& peer) {
  std::vector<transport::OutgoingTensor> outgoing = Outgoing(outputs);
  std::vector<memory::Ledger::Output> entries;
  entries.reserve(outputs.size());
  for (TensorRef& tensor : outputs) {
    memory::Ledger::Output entry;
    entry.watch = tensor->watch();
    entry.storage = tensor->storage();
    entry.bytes = static_cast<int64_t>(tensor->descriptor().bytes());
    entry.payload = std::move(tensor);
    entries.push_back(std::move(entry));
  }
  SC_RETURN_IF_ERROR(options_.ledger->Produce(key, std::move(entries), peer));
  return outgoing;
}

absl::StatusOr<std::vector<TensorRef>> StepExecutor::TakeTransfer(
    const LinkEdge& edge, const memory::TransferKey& expected) {
  std::optional<transport::ReceivedTransfer> transfer;
  SC_RETURN_IF_ERROR(WaitUntil("transfer", [&] {
    transfer = options_.link->Take(edge);
    return transfer.has_value();
  }));
  const transport::TransferHeader& header = transfer->header;
  if (header.step != expected.step || header.stage != expected.stage ||
      header.microbatch != expected.microbatch ||
      header.epoch != expected.epoch) {
    return absl::InternalError(absl::StrCat(
        "edge ", edge.Name(), " brought ", transport::ToString(header),
        " where ", memory::ToString(expected), " was due"));
  }
  std::vector<TensorRef> tensors;
  tensors.reserve(transfer->tensors.size());
  for (const transport::IncomingTensor& tensor : transfer->tensors) {
    SC_ASSIGN_OR_RETURN(TensorRef adopted,
                        options_.engine->Adopt(tensor.descriptor, tensor.data,
                                               transfer->memory));
    tensors.push_back(std::move(adopted));
  }
  return tensors;
}

absl::Status StepExecutor::WaitUntil(const char* waiting_for,
                                     const std::function<bool()>& condition) {
  if (condition()) return absl::OkStatus();
  options_.position->SetWaiting(waiting_for);
  absl::Status status = options_.link->WaitUntil([&] {
    options_.between_actions();
    return condition();
  });
  options_.position->SetWaiting("");
  return status;
}

void StepExecutor::NameRetentions() {
  for (const memory::UnnamedRetention& retention :
       options_.ledger->TakeUnnamed()) {
    const std::string op = options_.engine->RetainingOp(
        retention.key.stage, retention.key.microbatch, retention.storage);
    if (!op.empty()) options_.ledger->NameRetention(retention, op);
  }
}

StepExecutor::Cell& StepExecutor::CellOf(StageIndex stage,
                                         MicrobatchIndex microbatch) {
  return cells_[stage.index()][microbatch.index()];
}

memory::TransferKey StepExecutor::Key(StageIndex stage,
                                      MicrobatchIndex microbatch,
                                      Direction direction) const {
  memory::TransferKey key;
  key.epoch = options_.epoch;
  key.step = step_;
  key.replica = options_.replica;
  key.microbatch = microbatch;
  key.stage = stage;
  key.direction = direction;
  return key;
}

const std::string& StepExecutor::Receiver(const Action& action) const {
  return options_.link->PeerName(schedule_.EdgeOf(action).to);
}

}  // namespace stagecoach::worker

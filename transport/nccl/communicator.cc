#include "transport/nccl/communicator.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::nccl {
namespace {

constexpr int kRanks = 2;

int RankOf(two_sided::Way way) { return way == two_sided::Way::kSend ? 0 : 1; }

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(
    std::shared_ptr<const Device> device, Way way, std::string name) {
  auto communicator = std::unique_ptr<Communicator>(
      new Communicator(std::move(device), way, std::move(name)));
  const Libraries& libraries = communicator->libraries();
  // Not ordered with the default stream: the engine's work must not wait for a
  // peer.
  SC_RETURN_IF_ERROR(
      libraries.Check(libraries.cuda.cudaStreamCreateWithFlags(
                          &communicator->stream_, cudaStreamNonBlocking),
                      "cudaStreamCreateWithFlags"));
  return communicator;
}

Communicator::~Communicator() {
  if (communicator_ != nullptr) (void)Abort({this});
  running_.clear();
  if (stream_ != nullptr) (void)libraries().cuda.cudaStreamDestroy(stream_);
}

absl::StatusOr<std::string> Communicator::Introduce() {
  if (way_ == Way::kSend) return std::string();
  SC_RETURN_IF_ERROR(libraries().Check(libraries().nccl.ncclGetUniqueId(&id_),
                                       "ncclGetUniqueId"));
  return std::string(id_.internal, sizeof(id_.internal));
}

absl::Status Communicator::Begin(const std::string& other) {
  if (way_ == Way::kSend) {
    if (other.size() != sizeof(id_.internal)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a unique id of ", other.size(), " bytes instead of ",
                       sizeof(id_.internal)));
    }
    std::memcpy(id_.internal, other.data(), sizeof(id_.internal));
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name_.c_str();
  // A few multiprocessors at most: they are the engine's, and communicators
  // whose kernels cannot run side by side may wait for each other.
  config.maxCTAs = 4;
  const ncclResult_t result = libraries().nccl.ncclCommInitRankConfig(
      &communicator_, kRanks, id_, RankOf(way_), &config);
  state_ = State::kInitialising;
  if (result == ncclInProgress) return absl::OkStatus();
  return libraries().Check(result, "ncclCommInitRankConfig", communicator_);
}

absl::Status Communicator::Register(const two_sided::PoolMemory& pool) {
  // All pools of an endpoint are its carrier's.
  const auto& memory = static_cast<const DeviceMemory&>(pool);
  if (!memory.by_nccl()) return absl::OkStatus();
  void* registration = nullptr;
  SC_RETURN_IF_ERROR(libraries().Check(
      libraries().nccl.ncclCommRegister(communicator_, memory.data(),
                                        memory.bytes(), &registration),
      "ncclCommRegister", communicator_));
  registrations_.push_back(registration);
  return absl::OkStatus();
}

void Communicator::Submit(two_sided::GroupTransfer transfer) {
  waiting_.push_back(std::move(transfer));
}

absl::StatusOr<bool> Communicator::CallIsOver() {
  ncclResult_t asynchronous = ncclSuccess;
  SC_RETURN_IF_ERROR(libraries().Check(
      libraries().nccl.ncclCommGetAsyncError(communicator_, &asynchronous),
      "ncclCommGetAsyncError", communicator_));
  if (asynchronous == ncclInProgress) return false;
  SC_RETURN_IF_ERROR(libraries().Check(asynchronous,
                                       state_ == State::kInitialising
                                           ? "making the communicator"
                                           : "the communicator",
                                       communicator_));
  return true;
}

absl::Status Communicator::Step(std::vector<uint64_t>* completed) {
  if (state_ == State::kNew || state_ == State::kGone) return absl::OkStatus();
  SC_ASSIGN_OR_RETURN(const bool over, CallIsOver());
  switch (state_) {
    case State::kInitialising:
      if (over) state_ = State::kReady;
      return absl::OkStatus();
    case State::kFinalizing:
      return over ? Destroy() : absl::OkStatus();
    default:
      break;
  }
  if (over) {
    if (std::exchange(launching_, false)) {
      const uint64_t sequence = waiting_.front().sequence;
      waiting_.pop_front();
      SC_RETURN_IF_ERROR(MarkEnd(sequence));
    }
    SC_RETURN_IF_ERROR(StartNext());
  }
  return TakeCompleted(completed);
}

absl::Status Communicator::StartNext() {
  while (!waiting_.empty() && !launching_) {
    SC_RETURN_IF_ERROR(Launch(waiting_.front()));
    if (launching_) return absl::OkStatus();
    const uint64_t sequence = waiting_.front().sequence;
    waiting_.pop_front();
    SC_RETURN_IF_ERROR(MarkEnd(sequence));
  }
  return absl::OkStatus();
}

absl::Status Communicator::Launch(const two_sided::GroupTransfer& transfer) {
  const NcclFunctions& nccl = libraries().nccl;
  if (transfer.after != nullptr) {
    // The carrier's, too.
    SC_RETURN_IF_ERROR(
        static_cast<const DeviceEvent&>(*transfer.after).HoldBack(stream_));
  }
  const int peer = 1 - RankOf(way_);
  SC_RETURN_IF_ERROR(
      libraries().Check(nccl.ncclGroupStart(), "ncclGroupStart"));
  absl::Status posted;
  for (const two_sided::Piece& piece : transfer.pieces) {
    if (piece.bytes == 0) continue;
    const ncclResult_t result =
        way_ == Way::kSend ? nccl.ncclSend(piece.data, piece.bytes, ncclUint8,
                                           peer, communicator_, stream_)
                           : nccl.ncclRecv(piece.data, piece.bytes, ncclUint8,
                                           peer, communicator_, stream_);
    if (result == ncclInProgress) continue;
    posted = libraries().Check(
        result, way_ == Way::kSend ? "ncclSend" : "ncclRecv", communicator_);
    if (!posted.ok()) break;
  }
  // Also after an error: a group that stays open swallows the thread's next
  // calls, the abort among them.
  const ncclResult_t ended = nccl.ncclGroupEnd();
  SC_RETURN_IF_ERROR(posted);
  launching_ = ended == ncclInProgress;
  if (launching_) return absl::OkStatus();
  return libraries().Check(ended, "ncclGroupEnd", communicator_);
}

absl::Status Communicator::MarkEnd(uint64_t sequence) {
  SC_ASSIGN_OR_RETURN(std::unique_ptr<DeviceEvent> event, TakeEvent());
  SC_RETURN_IF_ERROR(event->Record(stream_));
  running_.push_back(Running{sequence, std::move(event)});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceEvent>> Communicator::TakeEvent() {
  if (spare_events_.empty()) return DeviceEvent::Create(device_);
  std::unique_ptr<DeviceEvent> event = std::move(spare_events_.back());
  spare_events_.pop_back();
  return event;
}

absl::Status Communicator::TakeCompleted(std::vector<uint64_t>* completed) {
  while (!running_.empty()) {
    SC_ASSIGN_OR_RETURN(const bool passed, running_.front().event->HasPassed());
    if (!passed) return absl::OkStatus();
    completed->push_back(running_.front().sequence);
    spare_events_.push_back(std::move(running_.front().event));
    running_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status Communicator::Finalize() {
  for (void* registration : registrations_) {
    SC_RETURN_IF_ERROR(libraries().Check(
        libraries().nccl.ncclCommDeregister(communicator_, registration),
        "ncclCommDeregister", communicator_));
  }
  registrations_.clear();
  const ncclResult_t result = libraries().nccl.ncclCommFinalize(communicator_);
  state_ = State::kFinalizing;
  if (result == ncclInProgress) return absl::OkStatus();
  return libraries().Check(result, "ncclCommFinalize", communicator_);
}

absl::Status Communicator::Destroy() {
  const ncclResult_t result = libraries().nccl.ncclCommDestroy(communicator_);
  LetGo();
  // The handle is no longer valid, so the error has no detail.
  return libraries().Check(result, "ncclCommDestroy");
}

void Communicator::LetGo() {
  communicator_ = nullptr;
  registrations_.clear();
  launching_ = false;
  waiting_.clear();
  running_.clear();
  state_ = State::kGone;
}

absl::Status Communicator::Abort(
    const std::vector<two_sided::Communicator*>& communicators) {
  const Libraries* libraries = nullptr;
  std::vector<Communicator*> own;
  own.reserve(communicators.size());
  for (two_sided::Communicator* any : communicators) {
    own.push_back(static_cast<Communicator*>(any));
  }
  for (Communicator* each : own) {
    if (each->communicator_ != nullptr) libraries = &each->libraries();
  }
  absl::Status status;
  if (libraries != nullptr) {
    (void)libraries->nccl.ncclGroupStart();
    for (Communicator* each : own) {
      if (each->communicator_ == nullptr) continue;
      const ncclResult_t result =
          libraries->nccl.ncclCommAbort(each->communicator_);
      if (result != ncclInProgress && status.ok()) {
        status = libraries->Check(result, "ncclCommAbort");
      }
    }
    const ncclResult_t ended = libraries->nccl.ncclGroupEnd();
    if (ended != ncclInProgress && status.ok()) {
      status = libraries->Check(ended, "ncclGroupEnd");
    }
  }
  for (Communicator* each : own) each->LetGo();
  return status;
}

}  // namespace stagecoach::transport::nccl

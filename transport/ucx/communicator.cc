#include "transport/ucx/communicator.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/two_sided/control_message.h"

namespace stagecoach::transport::ucx {
namespace {

constexpr uint64_t kGreeting = 1;
constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};
// Looks at what has arrived before others have their turn.
constexpr int kProgressAtOnce = 1000;
// What ending a connection needs, as a rule. What is not over then is ended
// with the worker.
constexpr int kProgressToEnd = 10000;

// So that nothing which was meant for an earlier owner of an address is taken.
uint64_t RandomTag() {
  std::random_device device;
  return ((uint64_t{device()} << 32) | device()) & ~kGreeting;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(
    std::shared_ptr<const Context> context, Way way,
    std::set<Communicator*>* live) {
  auto communicator = std::unique_ptr<Communicator>(
      new Communicator(std::move(context), way, live));
  const Libraries& libraries = communicator->libraries();
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  SC_RETURN_IF_ERROR(libraries.Check(
      libraries.ucp_worker_create(communicator->context_->get(), &params,
                                  &communicator->worker_),
      "ucp_worker_create"));
  SC_RETURN_IF_ERROR(
      libraries.Check(libraries.ucp_worker_get_efd(communicator->worker_,
                                                   &communicator->events_),
                      "ucp_worker_get_efd"));
  return communicator;
}

Communicator::Communicator(std::shared_ptr<const Context> context, Way way,
                           std::set<Communicator*>* live)
    : context_(std::move(context)), way_(way), live_(live), tag_(RandomTag()) {
  live_->insert(this);
}

Communicator::~Communicator() {
  Destroy();
  live_->erase(this);
}

// --- making it ---------------------------------------------------------------

absl::StatusOr<std::string> Communicator::Introduce() {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  SC_RETURN_IF_ERROR(libraries().Check(
      libraries().ucp_worker_get_address(worker_, &address, &bytes),
      "ucp_worker_get_address"));
  std::string introduction(sizeof(tag_), '\0');
  std::memcpy(&introduction[0], &tag_, sizeof(tag_));
  introduction.append(reinterpret_cast<const char*>(address), bytes);
  libraries().ucp_worker_release_address(worker_, address);
  if (introduction.size() <= two_sided::kMaxTextBytes) return introduction;
  return absl::ResourceExhaustedError(absl::StrCat(
      "UCX's address has ", bytes,
      " bytes, more than a control message holds; let it use fewer devices "
      "(UCX_NET_DEVICES)"));
}

absl::Status Communicator::Begin(const std::string& other) {
  if (other.size() <= sizeof(peers_tag_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an introduction of ", other.size(), " bytes"));
  }
  std::memcpy(&peers_tag_, other.data(), sizeof(peers_tag_));
  state_ = State::kInitialising;
  SC_RETURN_IF_ERROR(CreateEndpoint(reinterpret_cast<const ucp_address_t*>(
      other.data() + sizeof(peers_tag_))));
  PostReceive(two_sided::Piece(), tag_ | kGreeting, &greeting_received_);
  PostSend(two_sided::Piece(), peers_tag_ | kGreeting, &greeting_sent_);
  return absl::OkStatus();
}

absl::Status Communicator::CreateEndpoint(const ucp_address_t* address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = address;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &OnPeerError;
  params.err_handler.arg = this;
  return libraries().Check(
      libraries().ucp_ep_create(worker_, &params, &endpoint_), "ucp_ep_create");
}

absl::Status Communicator::TakeGreetings() {
  if (!greeting_sent_.done() || !greeting_received_.done()) {
    return absl::OkStatus();
  }
  SC_RETURN_IF_ERROR(CheckDone(greeting_sent_));
  SC_RETURN_IF_ERROR(CheckDone(greeting_received_));
  state_ = State::kReady;
  return absl::OkStatus();
}

// --- messages ----------------------------------------------------------------

void Communicator::OnSent(void* /*request*/, ucs_status_t status,
                          void* operation) {
  static_cast<Operation*>(operation)->status = status;
}

void Communicator::OnReceived(void* /*request*/, ucs_status_t status,
                              const ucp_tag_recv_info_t* info,
                              void* operation) {
  auto* const received = static_cast<Operation*>(operation);
  if (status == UCS_OK) received->received = *info;
  received->status = status;
}

void Communicator::OnPeerError(void* self, ucp_ep_h /*endpoint*/,
                               ucs_status_t status) {
  auto* const communicator = static_cast<Communicator*>(self);
  if (!communicator->failure_.ok()) return;
  communicator->failure_ = absl::UnavailableError(
      communicator->libraries().Check(status, "the connection").message());
}

void Communicator::PostSend(const two_sided::Piece& piece, uint64_t tag,
                            Operation* operation) {
  operation->bytes = piece.bytes;
  operation->received.length = piece.bytes;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &OnSent;
  param.user_data = operation;
  Track(libraries().ucp_tag_send_nbx(endpoint_, piece.data, piece.bytes, tag,
                                     &param),
        operation);
}

void Communicator::PostReceive(const two_sided::Piece& piece, uint64_t tag,
                               Operation* operation) {
  operation->bytes = piece.bytes;
  ucp_request_param_t param{};
  // UCX 1.13 tells the callback alone how much there was of a message that is
  // here already.
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = &OnReceived;
  param.user_data = operation;
  Track(libraries().ucp_tag_recv_nbx(worker_, piece.data, piece.bytes, tag,
                                     kWholeTag, &param),
        operation);
}

void Communicator::Track(ucs_status_ptr_t request, Operation* operation) {
  if (UCS_PTR_IS_PTR(request)) {
    operation->request = request;
  } else {
    // Over, or never begun; no callback comes.
    operation->status = UCS_PTR_STATUS(request);
  }
}

void Communicator::Submit(two_sided::GroupTransfer transfer) {
  Running running;
  running.sequence = transfer.sequence;
  for (const two_sided::Piece& piece : transfer.pieces) {
    if (piece.bytes == 0) continue;
    running.operations.push_back(std::make_unique<Operation>());
    Operation* const operation = running.operations.back().get();
    if (way_ == Way::kSend) {
      PostSend(piece, peers_tag_, operation);
    } else {
      PostReceive(piece, tag_, operation);
    }
  }
  running_.push_back(std::move(running));
}

// --- progress ----------------------------------------------------------------

void Communicator::Progress() {
  for (int i = 0; i < kProgressAtOnce; ++i) {
    if (libraries().ucp_worker_progress(worker_) == 0) return;
  }
}

absl::Status Communicator::Step(std::vector<uint64_t>* completed) {
  if (state_ == State::kNew || state_ == State::kGone) return absl::OkStatus();
  Progress();
  if (state_ == State::kFinalizing) {
    if (closed_.done()) Destroy();
    return absl::OkStatus();
  }
  absl::Status status;
  if (state_ == State::kInitialising) {
    status = TakeGreetings();
    // A peer may be done with the edge as soon as that is ready.
    if (state_ == State::kReady) return absl::OkStatus();
  } else {
    status = TakeCompleted(completed);
  }
  if (failure_.ok()) failure_ = status;
  return failure_;
}

absl::Status Communicator::TakeCompleted(std::vector<uint64_t>* completed) {
  while (!running_.empty()) {
    const Operations& operations = running_.front().operations;
    for (const std::unique_ptr<Operation>& operation : operations) {
      if (!operation->done()) return absl::OkStatus();
      SC_RETURN_IF_ERROR(CheckDone(*operation));
    }
    for (const std::unique_ptr<Operation>& operation : operations) {
      if (operation->request != nullptr) {
        libraries().ucp_request_free(operation->request);
      }
    }
    completed->push_back(running_.front().sequence);
    running_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status Communicator::CheckDone(const Operation& operation) const {
  SC_RETURN_IF_ERROR(libraries().Check(
      operation.status,
      way_ == Way::kSend ? "ucp_tag_send_nbx" : "ucp_tag_recv_nbx"));
  if (operation.received.length == operation.bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a message of ",
                                          operation.received.length,
                                          " bytes for ", operation.bytes));
}

bool Communicator::Arm(std::vector<pollfd>* events) {
  if (state_ == State::kNew || state_ == State::kGone || !failure_.ok()) {
    return true;
  }
  const ucs_status_t status = libraries().ucp_worker_arm(worker_);
  if (status == UCS_OK) {
    events->push_back({events_, POLLIN, 0});
    return true;
  }
  if (status != UCS_ERR_BUSY) {
    failure_ = libraries().Check(status, "ucp_worker_arm");
  }
  return false;
}

// --- ending it ---------------------------------------------------------------

void Communicator::CloseEndpoint(uint32_t flags) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                       UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = &OnSent;
  param.user_data = &closed_;
  param.flags = flags;
  Track(libraries().ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &param),
        &closed_);
}

absl::Status Communicator::Finalize() {
  state_ = State::kFinalizing;
  // The peer may still wait for what is on its way.
  CloseEndpoint(failure_.ok() ? 0 : UCP_EP_CLOSE_FLAG_FORCE);
  return absl::OkStatus();
}

void Communicator::Abort() { Destroy(); }

std::vector<Communicator::Operation*> Communicator::UnderWay() {
  std::vector<Operation*> all = {&greeting_sent_, &greeting_received_,
                                 &closed_};
  for (const Running& running : running_) {
    for (const auto& operation : running.operations) {
      all.push_back(operation.get());
    }
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const Operation* operation) {
                             return operation->request == nullptr;
                           }),
            all.end());
  return all;
}

void Communicator::Destroy() {
  state_ = State::kGone;
  if (worker_ == nullptr) return;
  if (endpoint_ != nullptr) CloseEndpoint(UCP_EP_CLOSE_FLAG_FORCE);
  const std::vector<Operation*> operations = UnderWay();
  for (Operation* operation : operations) {
    if (!operation->done()) {
      libraries().ucp_request_cancel(worker_, operation->request);
    }
  }
  for (int i = 0; i < kProgressToEnd; ++i) {
    const bool over =
        std::all_of(operations.begin(), operations.end(),
                    [](const Operation* each) { return each->done(); });
    if (over) break;
    (void)libraries().ucp_worker_progress(worker_);
  }
  // Also what is not over: the worker ends it, without a callback, and wants to
  // be the only one that still knows of it.
  for (Operation* operation : operations) {
    libraries().ucp_request_free(operation->request);
    operation->request = nullptr;
  }
  libraries().ucp_worker_destroy(std::exchange(worker_, nullptr));
  running_.clear();
}

}  // namespace stagecoach::transport::ucx

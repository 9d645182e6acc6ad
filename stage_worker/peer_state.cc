#include "stage_worker/peer_state.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/bytes.h"
#include "base/status.h"
#include "rpc/channel.h"
#include "stagecoach/v1/peer.grpc.pb.h"

namespace stagecoach::worker {
namespace {

// Far below gRPC's limit of a message.
constexpr int64_t kPieceBytes = 1 << 20;
// For one piece. The coordinator finds out sooner whether a peer lives.
constexpr absl::Duration kPieceTimeout = absl::Seconds(5);

std::string Named(const PeerAddress& peer) {
  return absl::StrCat("worker ", peer.worker, " at ", peer.address);
}

absl::StatusOr<DType> DTypeNamed(const std::string& name) {
  for (int value = 1; DTypeBytes(static_cast<DType>(value)) > 0; ++value) {
    const auto dtype = static_cast<DType>(value);
    if (name == DTypeName(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a copied tensor of unknown type \"", name, "\""));
}

void ToProto(const StateLayout& layout, v1::StateLayout* proto) {
  for (const StateLayout::Tensor& tensor : layout.tensors) {
    v1::StateTensorLayout* entry = proto->add_tensors();
    entry->set_name(tensor.name);
    entry->set_dtype(DTypeName(tensor.descriptor.dtype));
    for (const int64_t size : tensor.descriptor.shape) entry->add_shape(size);
    entry->set_optimizer(tensor.optimizer);
  }
}

absl::StatusOr<StateLayout> FromProto(const v1::StateLayout& proto) {
  StateLayout layout;
  for (const v1::StateTensorLayout& entry : proto.tensors()) {
    StateLayout::Tensor tensor;
    tensor.name = entry.name();
    SC_ASSIGN_OR_RETURN(tensor.descriptor.dtype, DTypeNamed(entry.dtype()));
    tensor.descriptor.shape.assign(entry.shape().begin(), entry.shape().end());
    tensor.optimizer = entry.optimizer();
    layout.tensors.push_back(std::move(tensor));
  }
  SC_RETURN_IF_ERROR(layout.Validate());
  return layout;
}

absl::Status CheckMeant(const v1::Fence& fence, Incarnation incarnation) {
  if (Incarnation(fence.incarnation()) == incarnation) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "another process than the one that was placed");
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + kPieceTimeout));
}

}  // namespace

absl::Status TakeState(const v1::KeepStateRequest& request,
                       Incarnation incarnation, StateVault* vault) {
  SC_RETURN_IF_ERROR(CheckMeant(request.fence(), incarnation));
  const StateVault::Name name = {StageIndex(request.stage()), request.step()};
  StateLayout layout;
  if (request.has_layout()) {
    SC_ASSIGN_OR_RETURN(layout, FromProto(request.layout()));
  }
  return vault->Receive(request.job_id(), Epoch(request.fence().epoch()), name,
                        request.has_layout() ? &layout : nullptr,
                        request.offset(), request.data());
}

absl::Status GiveState(const v1::FetchStateRequest& request,
                       Incarnation incarnation, const StateVault& vault,
                       v1::FetchStateResponse* response) {
  SC_RETURN_IF_ERROR(CheckMeant(request.fence(), incarnation));
  if (request.offset() < 0 || request.bytes() < 0) {
    return absl::InvalidArgumentError("a piece of a copy before its beginning");
  }
  const auto state =
      vault.Find(request.job_id(), StageIndex(request.stage()), request.step());
  if (state == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("stage ", request.stage(), " of ", request.job_id(),
                     " after ", request.step(), " steps is not kept here"));
  }
  if (request.offset() == 0) {
    ToProto(LayoutOf(*state), response->mutable_layout());
  }
  response->set_data(ReadState(*state, request.offset(),
                               std::min(request.bytes(), kPieceBytes)));
  return absl::OkStatus();
}

absl::Status SendState(const StateRequest& request, const StageState& state,
                       const std::atomic<bool>& cancelled) {
  auto stub = v1::PeerService::NewStub(rpc::Connect(request.peer.address));
  const StateLayout layout = LayoutOf(state);
  const int64_t total = layout.bytes();
  int64_t offset = 0;
  do {
    if (cancelled) return absl::CancelledError("the job let go");
    v1::KeepStateRequest piece;
    piece.mutable_fence()->set_epoch(request.epoch.value());
    piece.mutable_fence()->set_incarnation(request.peer.incarnation.value());
    piece.set_job_id(request.job_id);
    piece.set_stage(request.name.stage.value());
    piece.set_step(request.name.step);
    if (offset == 0) ToProto(layout, piece.mutable_layout());
    piece.set_offset(offset);
    piece.set_data(ReadState(state, offset, kPieceBytes));
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::KeepStateResponse response;
    SC_RETURN_IF_ERROR(
        Annotate(rpc::FromGrpc(stub->KeepState(&context, piece, &response)),
                 Named(request.peer)));
    offset += static_cast<int64_t>(piece.data().size());
  } while (offset < total);
  return absl::OkStatus();
}

absl::StatusOr<StageState> FetchState(const StateRequest& request,
                                      memory::AccountingAllocator* allocator) {
  auto stub = v1::PeerService::NewStub(rpc::Connect(request.peer.address));
  StateLayout layout;
  std::shared_ptr<void> block;
  int64_t total = 0;
  int64_t offset = 0;
  do {
    v1::FetchStateRequest question;
    question.mutable_fence()->set_incarnation(request.peer.incarnation.value());
    question.set_job_id(request.job_id);
    question.set_stage(request.name.stage.value());
    question.set_step(request.name.step);
    question.set_offset(offset);
    question.set_bytes(kPieceBytes);
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::FetchStateResponse piece;
    SC_RETURN_IF_ERROR(
        Annotate(rpc::FromGrpc(stub->FetchState(&context, question, &piece)),
                 Named(request.peer)));
    if (offset == 0) {
      SC_ASSIGN_OR_RETURN(layout, FromProto(piece.layout()));
      total = layout.bytes();
      block = AllocateCopy(allocator, total);
      if (block == nullptr) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "no room for stage ", request.name.stage.value(), " from ",
            Named(request.peer), ", ", FormatByteSize(total)));
      }
    }
    const auto size = static_cast<int64_t>(piece.data().size());
    if (size > total - offset || (size == 0 && offset < total)) {
      return absl::DataLossError(absl::StrCat(Named(request.peer), " gives ",
                                              size, " bytes at ", offset,
                                              " of a copy of ", total));
    }
    std::memcpy(static_cast<char*>(block.get()) + offset, piece.data().data(),
                piece.data().size());
    offset += size;
  } while (offset < total);
  return StateOf(request.name.stage, layout, block);
}

StateCarrier PeerCarrier(memory::AccountingAllocator* allocator) {
  StateCarrier carrier;
  carrier.send = SendState;
  carrier.fetch = [allocator](const StateRequest& request) {
    return FetchState(request, allocator);
  };
  return carrier;
}

}  // namespace stagecoach::worker

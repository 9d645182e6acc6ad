#include "stage_worker/peer_service.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "rpc/channel.h"

namespace stagecoach::worker {

grpc::ServerUnaryReactor* PeerService::Describe(
    grpc::CallbackServerContext* context,
    const v1::DescribePeerRequest* request,
    v1::DescribePeerResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto entry =
      directory_->Find(request->job_id(), Epoch(request->fence().epoch()));
  if (!entry.ok()) {
    reactor->Finish(rpc::ToGrpc(entry.status()));
    return reactor;
  }
  response->set_worker(worker_);
  response->set_incarnation(incarnation_.value());
  v1::TransportDescription* transport = response->add_transports();
  transport->set_kind(entry->kind);
  transport->set_address(entry->descriptor);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

absl::StatusOr<std::string> DescribePeer(const PeerAddress& peer,
                                         const std::string& job_id, Epoch epoch,
                                         const std::string& kind,
                                         absl::Duration timeout) {
  auto stub = v1::PeerService::NewStub(rpc::Connect(peer.address));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  v1::DescribePeerRequest request;
  request.set_job_id(job_id);
  request.mutable_fence()->set_epoch(epoch.value());
  request.mutable_fence()->set_incarnation(peer.incarnation.value());
  v1::DescribePeerResponse response;
  const absl::Status status =
      rpc::FromGrpc(stub->Describe(&context, request, &response));
  if (!status.ok()) {
    return Annotate(status,
                    absl::StrCat("worker ", peer.worker, " at ", peer.address));
  }
  if (response.incarnation() != peer.incarnation.value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", peer.worker, " at ", peer.address,
                     " is another process than the one that was placed"));
  }
  for (const v1::TransportDescription& transport : response.transports()) {
    if (transport.kind() == kind) return transport.address();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", peer.worker, " does not offer transport ", kind));
}

}  // namespace stagecoach::worker

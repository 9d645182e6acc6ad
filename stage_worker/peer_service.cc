#include "stage_worker/peer_service.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "rpc/channel.h"
#include "stage_worker/peer_state.h"

namespace stagecoach::worker {

absl::Status PeerService::Answer(const v1::DescribePeerRequest& request,
                                 v1::DescribePeerResponse* response) const {
  SC_ASSIGN_OR_RETURN(
      const PeerDirectory::Entry entry,
      directory_->Find(request.job_id(), Epoch(request.fence().epoch())));
  response->set_worker(worker_);
  response->set_incarnation(incarnation_.value());
  for (const PeerDirectory::Endpoint& endpoint : entry.endpoints) {
    v1::TransportDescription* transport = response->add_transports();
    transport->set_kind(endpoint.kind);
    transport->set_address(endpoint.descriptor);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* PeerService::Describe(
    grpc::CallbackServerContext* context,
    const v1::DescribePeerRequest* request,
    v1::DescribePeerResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpc(Answer(*request, response)));
  return reactor;
}

grpc::ServerUnaryReactor* PeerService::DescribePaths(
    grpc::CallbackServerContext* context,
    const v1::DescribePathsRequest* /*request*/,
    v1::DescribePathsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const WorkerPaths& paths = directory_->paths();
  response->set_worker(worker_);
  response->set_incarnation(incarnation_.value());
  response->set_boot_id(paths.location.boot_id);
  response->set_network_namespace(paths.location.network_namespace);
  response->set_user_id(paths.location.user_id);
  for (const PathOffer& offer : paths.offers) {
    v1::PathOffer* proto = response->add_offers();
    proto->set_kind(offer.kind);
    proto->set_obstacle(offer.obstacle);
    proto->set_detail(offer.detail);
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* PeerService::KeepState(
    grpc::CallbackServerContext* context, const v1::KeepStateRequest* request,
    v1::KeepStateResponse* /*response*/) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpc(TakeState(*request, incarnation_, vault_)));
  return reactor;
}

grpc::ServerUnaryReactor* PeerService::FetchState(
    grpc::CallbackServerContext* context, const v1::FetchStateRequest* request,
    v1::FetchStateResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(
      rpc::ToGrpc(GiveState(*request, incarnation_, *vault_, response)));
  return reactor;
}

namespace {

std::string Named(const PeerAddress& peer) {
  return absl::StrCat("worker ", peer.worker, " at ", peer.address);
}

absl::Status CheckIncarnation(const PeerAddress& peer, uint64_t incarnation) {
  if (incarnation == peer.incarnation.value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Named(peer), " is another process than the one that was placed"));
}

void SetDeadline(absl::Duration timeout, grpc::ClientContext* context) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

}  // namespace

absl::StatusOr<WorkerPaths> DescribePaths(const PeerAddress& peer,
                                          absl::Duration timeout) {
  auto stub = v1::PeerService::NewStub(rpc::Connect(peer.address));
  grpc::ClientContext context;
  SetDeadline(timeout, &context);
  v1::DescribePathsResponse response;
  const absl::Status status = rpc::FromGrpc(
      stub->DescribePaths(&context, v1::DescribePathsRequest(), &response));
  if (!status.ok()) return Annotate(status, Named(peer));
  SC_RETURN_IF_ERROR(CheckIncarnation(peer, response.incarnation()));
  WorkerPaths paths;
  paths.location.boot_id = response.boot_id();
  paths.location.network_namespace = response.network_namespace();
  paths.location.user_id = response.user_id();
  for (const v1::PathOffer& offer : response.offers()) {
    paths.offers.push_back(
        PathOffer{offer.kind(), offer.obstacle(), offer.detail()});
  }
  return paths;
}

absl::StatusOr<std::string> DescriptorIn(
    const v1::DescribePeerResponse& response, const PeerAddress& peer,
    const std::string& kind) {
  SC_RETURN_IF_ERROR(CheckIncarnation(peer, response.incarnation()));
  for (const v1::TransportDescription& transport : response.transports()) {
    if (transport.kind() == kind) return transport.address();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", peer.worker, " does not offer transport ", kind));
}

absl::StatusOr<std::string> DescribePeer(const PeerAddress& peer,
                                         const std::string& job_id, Epoch epoch,
                                         const std::string& kind,
                                         absl::Duration timeout) {
  auto stub = v1::PeerService::NewStub(rpc::Connect(peer.address));
  grpc::ClientContext context;
  SetDeadline(timeout, &context);
  v1::DescribePeerRequest request;
  request.set_job_id(job_id);
  request.mutable_fence()->set_epoch(epoch.value());
  request.mutable_fence()->set_incarnation(peer.incarnation.value());
  v1::DescribePeerResponse response;
  const absl::Status status =
      rpc::FromGrpc(stub->Describe(&context, request, &response));
  if (!status.ok()) return Annotate(status, Named(peer));
  return DescriptorIn(response, peer, kind);
}

}  // namespace stagecoach::worker

#include "coordinator/cluster_service.h"

#include "coordinator/unary.h"

namespace stagecoach::coordinator {

grpc::ServerUnaryReactor* ClusterService::ListWorkers(
    grpc::CallbackServerContext* context, const v1::ListWorkersRequest* request,
    v1::ListWorkersResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->ListWorkers(*request, ReplyTo(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* ClusterService::GetCoordinator(
    grpc::CallbackServerContext* context,
    const v1::GetCoordinatorRequest* request,
    v1::GetCoordinatorResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->GetCoordinator(*request, ReplyTo(reactor, response));
  return reactor;
}

}  // namespace stagecoach::coordinator

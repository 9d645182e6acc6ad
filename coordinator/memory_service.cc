#include "coordinator/memory_service.h"

#include "coordinator/unary.h"

namespace stagecoach::coordinator {

grpc::ServerUnaryReactor* MemoryService::GetStats(
    grpc::CallbackServerContext* context,
    const v1::GetMemoryStatsRequest* request,
    v1::GetMemoryStatsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->GetMemoryStats(*request, ReplyTo(reactor, response));
  return reactor;
}

}  // namespace stagecoach::coordinator

#ifndef STAGECOACH_COORDINATOR_CLUSTER_SERVICE_H_
#define STAGECOACH_COORDINATOR_CLUSTER_SERVICE_H_

#include "coordinator/controller.h"
#include "stagecoach/v1/cluster.grpc.pb.h"

namespace stagecoach::coordinator {

// Forwards to the controller, which must outlive the server. Thread-safe; never
// blocks.
class ClusterService final : public v1::ClusterService::CallbackService {
 public:
  explicit ClusterService(Controller* controller) : controller_(controller) {}

  grpc::ServerUnaryReactor* ListWorkers(
      grpc::CallbackServerContext* context,
      const v1::ListWorkersRequest* request,
      v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* GetCoordinator(
      grpc::CallbackServerContext* context,
      const v1::GetCoordinatorRequest* request,
      v1::GetCoordinatorResponse* response) override;

 private:
  Controller* const controller_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_CLUSTER_SERVICE_H_

#ifndef STAGECOACH_COORDINATOR_MEMORY_SERVICE_H_
#define STAGECOACH_COORDINATOR_MEMORY_SERVICE_H_

#include "coordinator/controller.h"
#include "stagecoach/v1/memory.grpc.pb.h"

namespace stagecoach::coordinator {

// Forwards to the controller, which must outlive the server. Thread-safe; never
// blocks.
class MemoryService final : public v1::MemoryService::CallbackService {
 public:
  explicit MemoryService(Controller* controller) : controller_(controller) {}

  grpc::ServerUnaryReactor* GetStats(
      grpc::CallbackServerContext* context,
      const v1::GetMemoryStatsRequest* request,
      v1::GetMemoryStatsResponse* response) override;

 private:
  Controller* const controller_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_MEMORY_SERVICE_H_

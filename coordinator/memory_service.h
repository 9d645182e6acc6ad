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
  grpc::ServerWriteReactor<v1::GetMemoryStatsResponse>* WatchStats(
      grpc::CallbackServerContext* context,
      const v1::WatchMemoryStatsRequest* request) override;
  grpc::ServerUnaryReactor* ListHeld(
      grpc::CallbackServerContext* context,
      const v1::GetMemoryStatsRequest* request,
      v1::GetMemoryStatsResponse* response) override;
  grpc::ServerUnaryReactor* Snapshot(
      grpc::CallbackServerContext* context,
      const v1::GetMemoryStatsRequest* request,
      v1::GetMemoryStatsResponse* response) override;
  grpc::ServerUnaryReactor* ResetPeak(
      grpc::CallbackServerContext* context,
      const v1::GetMemoryStatsRequest* request,
      v1::GetMemoryStatsResponse* response) override;
  grpc::ServerUnaryReactor* Trim(grpc::CallbackServerContext* context,
                                 const v1::GetMemoryStatsRequest* request,
                                 v1::GetMemoryStatsResponse* response) override;

 private:
  grpc::ServerUnaryReactor* Ask(MemoryQueryKind kind,
                                grpc::CallbackServerContext* context,
                                const v1::GetMemoryStatsRequest& request,
                                v1::GetMemoryStatsResponse* response);

  Controller* const controller_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_MEMORY_SERVICE_H_

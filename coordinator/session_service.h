#ifndef STAGECOACH_COORDINATOR_SESSION_SERVICE_H_
#define STAGECOACH_COORDINATOR_SESSION_SERVICE_H_

#include "coordinator/controller.h"
#include "stagecoach/v1/session.grpc.pb.h"

namespace stagecoach::coordinator {

// Hands the streams of workers to the controller, which must outlive the
// server. Thread-safe; never blocks.
class SessionService final : public v1::SessionService::CallbackService {
 public:
  explicit SessionService(Controller* controller) : controller_(controller) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  Controller* const controller_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_SESSION_SERVICE_H_

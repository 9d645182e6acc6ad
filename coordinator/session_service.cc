#include "coordinator/session_service.h"

#include <memory>
#include <utility>

#include "rpc/channel.h"
#include "rpc/server_stream.h"

namespace stagecoach::coordinator {
namespace {

// A worker has a handful of messages under way at most.
constexpr size_t kQueueLimit = 1024;

// gRPC uses it until OnDone, the controller for as long as it likes: after the
// end it only answers "unavailable".
class SessionReactor final
    : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>,
      public WorkerLink,
      public std::enable_shared_from_this<SessionReactor> {
 public:
  explicit SessionReactor(Controller* controller)
      : controller_(controller),
        stream_([this](const v1::CoordinatorMessage* m) { StartWrite(m); },
                [this](const grpc::Status& s) { this->Finish(s); },
                kQueueLimit) {}

  void Start() {
    self_ = shared_from_this();
    controller_->OnConnected(self_);
    StartRead(&incoming_);
  }

  // ---- WorkerLink, on the controller's executor ----
  absl::Status Send(v1::CoordinatorMessage message) override {
    return stream_.Write(std::move(message));
  }
  void Close(const absl::Status& status) override {
    stream_.Finish(rpc::ToGrpc(status));
  }

  // ---- on gRPC's threads ----
  void OnReadDone(bool ok) override {
    if (!ok || stream_.finishing()) {
      controller_->OnDisconnected(shared_from_this());
      stream_.Finish(grpc::Status::OK);
      return;
    }
    controller_->OnMessage(shared_from_this(), std::move(incoming_));
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override { stream_.OnWriteDone(ok); }
  void OnDone() override { self_.reset(); }

 private:
  Controller* const controller_;
  rpc::ServerStream<v1::CoordinatorMessage> stream_;
  v1::WorkerMessage incoming_;
  std::shared_ptr<SessionReactor> self_;
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>*
SessionService::Session(grpc::CallbackServerContext* /*context*/) {
  auto reactor = std::make_shared<SessionReactor>(controller_);
  reactor->Start();
  return reactor.get();
}

}  // namespace stagecoach::coordinator

#include "coordinator/memory_service.h"

#include <memory>
#include <utility>

#include "coordinator/links.h"
#include "coordinator/unary.h"
#include "rpc/channel.h"
#include "rpc/server_stream.h"

namespace stagecoach::coordinator {
namespace {

// A few messages that wait are enough: a client that does not keep up with one
// each interval is cut.
constexpr size_t kMessagesWaiting = 4;

// Lives as SessionReactor does.
class StatsReactor final
    : public grpc::ServerWriteReactor<v1::GetMemoryStatsResponse>,
      public MemoryWatcher,
      public std::enable_shared_from_this<StatsReactor> {
 public:
  explicit StatsReactor(Controller* controller)
      : controller_(controller),
        stream_(
            [this](const v1::GetMemoryStatsResponse* next) {
              this->StartWrite(next);
            },
            [this](const grpc::Status& s) { this->Finish(s); },
            kMessagesWaiting) {}

  void Start(const v1::WatchMemoryStatsRequest& request) {
    self_ = shared_from_this();
    controller_->WatchMemory(request, self_);
  }

  // ---- MemoryWatcher, on the controller's executor ----
  absl::Status Push(v1::GetMemoryStatsResponse figures) override {
    return stream_.Write(std::move(figures));
  }
  void End(const absl::Status& status) override {
    stream_.FinishAfterWrites(rpc::ToGrpc(status));
  }

  // ---- on gRPC's threads ----
  void OnWriteDone(bool ok) override { stream_.OnWriteDone(ok); }
  void OnCancel() override {
    controller_->UnwatchMemory(shared_from_this());
    stream_.Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { self_.reset(); }

 private:
  Controller* const controller_;
  rpc::ServerStream<v1::GetMemoryStatsResponse> stream_;
  std::shared_ptr<StatsReactor> self_;
};

}  // namespace

grpc::ServerUnaryReactor* MemoryService::Ask(
    MemoryQueryKind kind, grpc::CallbackServerContext* context,
    const v1::GetMemoryStatsRequest& request,
    v1::GetMemoryStatsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->AskMemory(kind, request, ReplyTo(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* MemoryService::GetStats(
    grpc::CallbackServerContext* context,
    const v1::GetMemoryStatsRequest* request,
    v1::GetMemoryStatsResponse* response) {
  return Ask(MemoryQueryKind::kStats, context, *request, response);
}

grpc::ServerWriteReactor<v1::GetMemoryStatsResponse>* MemoryService::WatchStats(
    grpc::CallbackServerContext* /*context*/,
    const v1::WatchMemoryStatsRequest* request) {
  auto reactor = std::make_shared<StatsReactor>(controller_);
  reactor->Start(*request);
  return reactor.get();
}

grpc::ServerUnaryReactor* MemoryService::ListHeld(
    grpc::CallbackServerContext* context,
    const v1::GetMemoryStatsRequest* request,
    v1::GetMemoryStatsResponse* response) {
  return Ask(MemoryQueryKind::kHeld, context, *request, response);
}

grpc::ServerUnaryReactor* MemoryService::Snapshot(
    grpc::CallbackServerContext* context,
    const v1::GetMemoryStatsRequest* request,
    v1::GetMemoryStatsResponse* response) {
  return Ask(MemoryQueryKind::kSnapshot, context, *request, response);
}

grpc::ServerUnaryReactor* MemoryService::ResetPeak(
    grpc::CallbackServerContext* context,
    const v1::GetMemoryStatsRequest* request,
    v1::GetMemoryStatsResponse* response) {
  return Ask(MemoryQueryKind::kResetPeak, context, *request, response);
}

grpc::ServerUnaryReactor* MemoryService::Trim(
    grpc::CallbackServerContext* context,
    const v1::GetMemoryStatsRequest* request,
    v1::GetMemoryStatsResponse* response) {
  return Ask(MemoryQueryKind::kTrim, context, *request, response);
}

}  // namespace stagecoach::coordinator

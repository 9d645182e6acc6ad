#include "coordinator/job_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "coordinator/job_reader.h"
#include "coordinator/unary.h"
#include "rpc/channel.h"
#include "rpc/server_stream.h"

namespace stagecoach::coordinator {
namespace {

// Lives as SessionReactor does.
class WatchReactor final
    : public grpc::ServerWriteReactor<v1::WatchJobResponse>,
      public JobWatcher,
      public std::enable_shared_from_this<WatchReactor> {
 public:
  WatchReactor(Controller* controller, int64_t revision, size_t queue_limit)
      : controller_(controller),
        written_revision_(revision),
        stream_([this](const v1::WatchJobResponse* event) { Begin(event); },
                [this](const grpc::Status& s) { this->Finish(s); },
                queue_limit) {}

  void Start(const v1::WatchJobRequest& request) {
    self_ = shared_from_this();
    controller_->Watch(request, self_);
  }

  // ---- JobWatcher, on the controller's executor ----
  absl::Status Push(v1::WatchJobResponse event) override {
    absl::Status status = stream_.Write(std::move(event));
    if (absl::IsResourceExhausted(status)) Cut();
    return status;
  }
  void End(const absl::Status& status) override {
    stream_.FinishAfterWrites(rpc::ToGrpc(status));
  }

  // ---- on gRPC's threads ----
  void OnWriteDone(bool ok) override {
    if (ok) {
      MutexLock lock(&mu_);
      written_revision_ = writing_revision_;
    }
    stream_.OnWriteDone(ok);
  }
  void OnCancel() override {
    controller_->Unwatch(shared_from_this());
    stream_.Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { self_.reset(); }

 private:
  void Begin(const v1::WatchJobResponse* event) {
    {
      MutexLock lock(&mu_);
      writing_revision_ = event->job().revision();
    }
    StartWrite(event);
  }

  void Cut() {
    int64_t revision = 0;
    {
      MutexLock lock(&mu_);
      revision = written_revision_;
    }
    stream_.Finish(rpc::ToGrpc(absl::ResourceExhaustedError(absl::StrCat(
        "this watcher reads too slowly; resume with after_revision = ",
        revision, ", or the last one received"))));
  }

  Controller* const controller_;
  Mutex mu_;
  int64_t writing_revision_ SC_GUARDED_BY(mu_) = 0;
  int64_t written_revision_ SC_GUARDED_BY(mu_);
  rpc::ServerStream<v1::WatchJobResponse> stream_;
  std::shared_ptr<WatchReactor> self_;
};

// A stream of a job's events or logs. Lives as SessionReactor does.
template <typename Cursor>
class ReadReactor final
    : public grpc::ServerWriteReactor<typename Cursor::Response>,
      public CursorReader<Cursor>,
      public std::enable_shared_from_this<ReadReactor<Cursor>> {
 public:
  using Response = typename Cursor::Response;

  ReadReactor(Controller* controller, const typename Cursor::Request& request)
      : CursorReader<Cursor>(request),
        controller_(controller),
        stream_([this](const Response* next) { this->StartWrite(next); },
                [this](const grpc::Status& s) { this->Finish(s); },
                kMessagesUnderWay) {}

  void Start(const typename Cursor::Request& request) {
    self_ = this->shared_from_this();
    controller_->Read(request.version(), request.job_id(), self_);
  }

  // ---- JobReader, on the controller's executor ----
  void End(const absl::Status& status) override {
    stream_.FinishAfterWrites(rpc::ToGrpc(status));
  }

  // ---- on gRPC's threads ----
  void OnWriteDone(bool ok) override {
    // The end of the write may be the end of the stream.
    std::shared_ptr<ReadReactor> self = this->shared_from_this();
    stream_.OnWriteDone(ok);
    if (ok) controller_->ReadOn(std::move(self));
  }
  void OnCancel() override {
    controller_->StopReading(this->shared_from_this());
    stream_.Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { self_.reset(); }

 private:
  // By the rule of every reader.
  static constexpr size_t kMessagesUnderWay = 1;

  void Send(Response response) override {
    // A stream that has failed is reported by OnCancel.
    stream_.Write(std::move(response)).IgnoreError();
  }

  Controller* const controller_;
  rpc::ServerStream<Response> stream_;
  std::shared_ptr<ReadReactor> self_;
};

template <typename Cursor>
grpc::ServerWriteReactor<typename Cursor::Response>* StartReading(
    Controller* controller, const typename Cursor::Request& request) {
  auto reactor = std::make_shared<ReadReactor<Cursor>>(controller, request);
  reactor->Start(request);
  return reactor.get();
}

}  // namespace

grpc::ServerUnaryReactor* JobService::SubmitJob(
    grpc::CallbackServerContext* context, const v1::SubmitJobRequest* request,
    v1::SubmitJobResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->Submit(*request, ReplyTo(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::GetJob(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
    v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->GetJob(*request, ReplyTo(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::ListJobs(
    grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->ListJobs(*request, ReplyTo(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::CancelJob(
    grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
    v1::CancelJobResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->Cancel(*request, ReplyTo(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::RescheduleJob(
    grpc::CallbackServerContext* context,
    const v1::RescheduleJobRequest* request,
    v1::RescheduleJobResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->Reschedule(*request, ReplyTo(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::CheckpointJob(
    grpc::CallbackServerContext* context,
    const v1::CheckpointJobRequest* request,
    v1::CheckpointJobResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  controller_->Checkpoint(*request, ReplyTo(reactor, response));
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(
    grpc::CallbackServerContext* /*context*/,
    const v1::WatchJobRequest* request) {
  auto reactor = std::make_shared<WatchReactor>(
      controller_, request->after_revision(), watch_queue_limit_);
  reactor->Start(*request);
  return reactor.get();
}

grpc::ServerWriteReactor<v1::StreamEventsResponse>* JobService::StreamEvents(
    grpc::CallbackServerContext* /*context*/,
    const v1::StreamEventsRequest* request) {
  return StartReading<EventCursor>(controller_, *request);
}

grpc::ServerWriteReactor<v1::StreamLogsResponse>* JobService::StreamLogs(
    grpc::CallbackServerContext* /*context*/,
    const v1::StreamLogsRequest* request) {
  return StartReading<LogCursor>(controller_, *request);
}

}  // namespace stagecoach::coordinator

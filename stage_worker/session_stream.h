#ifndef STAGECOACH_STAGE_WORKER_SESSION_STREAM_H_
#define STAGECOACH_STAGE_WORKER_SESSION_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "rpc/stream_writer.h"
#include "stagecoach/v1/session.grpc.pb.h"

namespace stagecoach::worker {

// The worker's end of one Session stream. Handlers run on gRPC's threads and
// must only post. Write and Cancel are thread-safe.
class SessionStream final
    : public grpc::ClientBidiReactor<v1::WorkerMessage,
                                     v1::CoordinatorMessage> {
 public:
  struct Handlers {
    std::function<void(v1::CoordinatorMessage)> on_message;
    // Exactly once, last.
    std::function<void(absl::Status)> on_done;
  };

  // Starts the call at once. The stream keeps itself alive until on_done has
  // returned.
  static std::shared_ptr<SessionStream> Open(v1::SessionService::Stub* stub,
                                             Handlers handlers);

  // kUnavailable once the stream has ended; kResourceExhausted where the
  // coordinator reads too slowly.
  absl::Status Write(v1::WorkerMessage message) SC_EXCLUDES(mu_);
  void Cancel() { context_.TryCancel(); }

  // gRPC's callbacks.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  explicit SessionStream(Handlers handlers);
  void Leave() SC_EXCLUDES(mu_);

  const Handlers handlers_;
  grpc::ClientContext context_;
  rpc::StreamWriter<v1::WorkerMessage> writer_;
  v1::CoordinatorMessage incoming_;
  std::shared_ptr<SessionStream> self_;  // until OnDone
  Mutex mu_;
  // The reading side, and calls of Write under way. gRPC's hold on the call,
  // without which no write may be started, is given back with the last.
  int users_ SC_GUARDED_BY(mu_) = 1;
  bool ended_ SC_GUARDED_BY(mu_) = false;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_SESSION_STREAM_H_

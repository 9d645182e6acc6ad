#ifndef STAGECOACH_RPC_SERVER_STREAM_H_
#define STAGECOACH_RPC_SERVER_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "rpc/stream_writer.h"

namespace stagecoach::rpc {

// The writing side of a server's stream: a bounded queue behind one outstanding
// write, and exactly one Finish, which never overlaps a write. `start` and
// `finish` are the reactor's StartWrite and Finish; neither is called with a
// lock held. Thread-safe, but Write and FinishAfterWrites must not run at the
// same time.
template <typename Message>
class ServerStream {
 public:
  using Start = typename StreamWriter<Message>::Start;
  using Finisher = std::function<void(const grpc::Status& status)>;

  ServerStream(Start start, Finisher finish, size_t limit)
      : writer_(std::move(start), limit), finish_(std::move(finish)) {}

  // kResourceExhausted when `limit` messages wait, kUnavailable once the stream
  // is being finished or has failed.
  absl::Status Write(Message message) SC_EXCLUDES(mu_) {
    if (finishing()) return absl::UnavailableError("the stream is ending");
    return writer_.Write(std::move(message));
  }

  // From OnWriteDone.
  void OnWriteDone(bool ok) SC_EXCLUDES(mu_) {
    writer_.Done(ok);
    FinishIfIdle();
  }

  // Ends the stream when the write under way has ended; what waits is dropped.
  // The first call of either kind decides the status.
  void Finish(const grpc::Status& status) SC_EXCLUDES(mu_) {
    Want(status);
    writer_.Close();
    FinishIfIdle();
  }

  // Ends the stream when all that waits has been written.
  void FinishAfterWrites(const grpc::Status& status) SC_EXCLUDES(mu_) {
    Want(status);
    FinishIfIdle();
  }

  bool finishing() const SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return wanted_.has_value();
  }

 private:
  void Want(const grpc::Status& status) SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    if (!wanted_.has_value()) wanted_ = status;
  }

  // Whoever finds the writer idle after the wish was noted finishes: either the
  // one who wished, or the end of the last write.
  void FinishIfIdle() SC_EXCLUDES(mu_) {
    if (!writer_.Idle()) return;
    grpc::Status status;
    {
      MutexLock lock(&mu_);
      if (!wanted_.has_value() || finished_) return;
      finished_ = true;
      status = *wanted_;
    }
    finish_(status);
  }

  StreamWriter<Message> writer_;
  const Finisher finish_;
  mutable Mutex mu_;
  std::optional<grpc::Status> wanted_ SC_GUARDED_BY(mu_);
  bool finished_ SC_GUARDED_BY(mu_) = false;
};

}  // namespace stagecoach::rpc

#endif  // STAGECOACH_RPC_SERVER_STREAM_H_

#ifndef STAGECOACH_RPC_STREAM_WRITER_H_
#define STAGECOACH_RPC_STREAM_WRITER_H_

#include <deque>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace stagecoach::rpc {

// The queue behind a stream's one outstanding write. `start` begins the write
// of a message that stays alive until Done() is called (a reactor's
// StartWrite); it is called without the lock held. Thread-safe.
template <typename Message>
class StreamWriter {
 public:
  using Start = std::function<void(const Message* message)>;

  StreamWriter(Start start, size_t limit)
      : start_(std::move(start)), limit_(limit) {}

  // kResourceExhausted when `limit` messages wait (a slow reader: cut it),
  // kUnavailable after Close.
  absl::Status Write(Message message) SC_EXCLUDES(mu_) {
    const Message* next = nullptr;
    {
      MutexLock lock(&mu_);
      if (closed_) return absl::UnavailableError("the stream is closed");
      if (queue_.size() >= limit_) {
        return absl::ResourceExhaustedError("the peer reads too slowly");
      }
      queue_.push_back(std::move(message));
      if (!writing_) {
        writing_ = true;
        next = &queue_.front();
      }
    }
    if (next != nullptr) start_(next);
    return absl::OkStatus();
  }

  // The write that `start` began has ended (OnWriteDone).
  void Done(bool ok) SC_EXCLUDES(mu_) {
    const Message* next = nullptr;
    {
      MutexLock lock(&mu_);
      queue_.pop_front();
      if (!ok) closed_ = true;
      if (closed_) queue_.clear();
      if (queue_.empty()) {
        writing_ = false;
      } else {
        next = &queue_.front();
      }
    }
    if (next != nullptr) start_(next);
  }

  // Nothing is written after this, but for the write under way.
  void Close() SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    closed_ = true;
    while (queue_.size() > (writing_ ? 1u : 0u)) queue_.pop_back();
  }

  bool Idle() SC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return !writing_;
  }

 private:
  const Start start_;
  const size_t limit_;
  Mutex mu_;
  // The front is being written while `writing_`; a deque keeps it in place.
  std::deque<Message> queue_ SC_GUARDED_BY(mu_);
  bool writing_ SC_GUARDED_BY(mu_) = false;
  bool closed_ SC_GUARDED_BY(mu_) = false;
};

}  // namespace stagecoach::rpc

#endif  // STAGECOACH_RPC_STREAM_WRITER_H_

#include "stage_worker/session_stream.h"

#include <utility>

#include "rpc/channel.h"

namespace stagecoach::worker {
namespace {

// A worker has few messages under way: heartbeats pile up here only when the
// coordinator does not read for minutes.
constexpr size_t kQueueLimit = 1024;

}  // namespace

SessionStream::SessionStream(Handlers handlers)
    : handlers_(std::move(handlers)),
      writer_([this](const v1::WorkerMessage* message) { StartWrite(message); },
              kQueueLimit) {}

std::shared_ptr<SessionStream> SessionStream::Open(
    v1::SessionService::Stub* stub, Handlers handlers) {
  auto stream =
      std::shared_ptr<SessionStream>(new SessionStream(std::move(handlers)));
  stream->self_ = stream;
  stub->async()->Session(&stream->context_, stream.get());
  // Writes come from other threads at any time, so the call is held open until
  // the reading side has seen its end.
  stream->AddHold();
  stream->StartRead(&stream->incoming_);
  stream->StartCall();
  return stream;
}

absl::Status SessionStream::Write(v1::WorkerMessage message) {
  {
    MutexLock lock(&mu_);
    if (ended_) return absl::UnavailableError("the stream has ended");
    ++users_;
  }
  absl::Status status = writer_.Write(std::move(message));
  Leave();
  return status;
}

void SessionStream::Leave() {
  bool last = false;
  {
    MutexLock lock(&mu_);
    last = --users_ == 0;
  }
  if (last) RemoveHold();
}

void SessionStream::OnReadDone(bool ok) {
  if (!ok) {
    writer_.Close();
    {
      MutexLock lock(&mu_);
      ended_ = true;
    }
    Leave();
    return;
  }
  handlers_.on_message(std::move(incoming_));
  incoming_.Clear();
  StartRead(&incoming_);
}

void SessionStream::OnWriteDone(bool ok) { writer_.Done(ok); }

void SessionStream::OnDone(const grpc::Status& status) {
  // Keeps the object alive to the end of this function.
  const std::shared_ptr<SessionStream> self = std::move(self_);
  handlers_.on_done(rpc::FromGrpc(status));
}

}  // namespace stagecoach::worker

#include "transport/tcp/connection.h"

#include <sys/epoll.h>

#include <utility>

namespace stagecoach::transport::tcp {

namespace {

thread_local FlushBatch* current_batch = nullptr;

}  // namespace

FlushBatch::FlushBatch() : outermost_(current_batch == nullptr) {
  if (outermost_) current_batch = this;
}

FlushBatch::~FlushBatch() {
  if (!outermost_) return;
  current_batch = nullptr;
  for (const std::shared_ptr<Connection>& connection : waiting_) {
    connection->writer().Flush();
  }
}

void Connection::Flush() {
  if (current_batch == nullptr) return writer_.Flush();
  std::vector<std::shared_ptr<Connection>>& waiting = current_batch->waiting_;
  for (const std::shared_ptr<Connection>& connection : waiting) {
    if (connection.get() == this) return;
  }
  waiting.push_back(Self().lock());
}

Connection::Connection(Reactor* reactor, Counters* counters)
    : reactor_(reactor),
      counters_(counters),
      writer_([this](const ByteStream* stream, absl::Status status) {
        reactor_->Post([self = Self(), stream, status = std::move(status)] {
          const std::shared_ptr<Connection> connection = self.lock();
          // Unless the reader has noticed first.
          if (connection != nullptr && stream == connection->stream_.get()) {
            connection->OnBroken(status);
          }
        });
      }),
      reader_(counters) {}

void Connection::AttachStream(std::unique_ptr<ByteStream> stream) {
  stream_ = std::move(stream);
  ++generation_;
  reader_.Reset();
  writer_.Attach(stream_.get());
  watch_ = reactor_->Watch(stream_->fd(), Self().lock());
}

bool Connection::DropStream() {
  if (stream_ == nullptr) return false;
  reactor_->Forget(watch_);
  const bool unwritten = writer_.Detach();
  stream_.reset();
  ++generation_;
  return unwritten;
}

void Connection::BeginEnd() {
  ending_ = true;
  EndIfWritten();
}

void Connection::EndIfWritten() {
  if (stream_ == nullptr || ended_writing_) return;
  writer_.Flush();
  if (!writer_.IsIdle()) return;
  ended_writing_ = true;
  stream_->EndWriting();
}

void Connection::OnEvents(uint32_t events) {
  if (stream_ == nullptr) return;
  const FlushBatch batch;
  const bool to_end = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  const absl::Status status = reader_.Read(stream_.get(), this, to_end);
  if (!status.ok()) return OnBroken(status);
  // The writer may have waited for what was read.
  if ((events & EPOLLOUT) != 0 || !writer_.IsIdle()) Flush();
  if (ending_) EndIfWritten();
}

}  // namespace stagecoach::transport::tcp

#ifndef STAGECOACH_TRANSPORT_TCP_CONNECTION_H_
#define STAGECOACH_TRANSPORT_TCP_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/tcp/byte_stream.h"
#include "transport/tcp/counters.h"
#include "transport/tcp/frame_reader.h"
#include "transport/tcp/frame_writer.h"
#include "transport/tcp/reactor.h"

namespace stagecoach::transport::tcp {

// How a broken connection is made again.
struct ReconnectPolicy {
  // From the break; then its edges are lost.
  absl::Duration deadline = absl::Seconds(5);
  absl::Duration first_backoff = absl::Milliseconds(10);
  absl::Duration last_backoff = absl::Milliseconds(500);
  // Breaks and failed attempts in a row without a transfer getting through.
  int attempts = 30;
  // Attempts in a row to which the peer's machine says that nobody listens: its
  // process is gone.
  int refused = 3;
};

class Connection;

// While one stands on a thread, that thread's flushes wait for its end: what a
// step has to say goes out at once, and once. Nests; the outermost counts.
class FlushBatch {
 public:
  FlushBatch();
  ~FlushBatch();
  FlushBatch(const FlushBatch&) = delete;
  FlushBatch& operator=(const FlushBatch&) = delete;

 private:
  friend class Connection;
  std::vector<std::shared_ptr<Connection>> waiting_;
  const bool outermost_;
};

// What both ends of a connection share: the stream of the moment, its frames in
// and out. A connection outlives its streams. Held by the endpoint, the reactor
// and its edges' ports. Everything but `writer_` is used on the reactor only.
class Connection : public Reactor::Handler, public FrameReader::Handler {
 public:
  // Both must outlive its streams.
  Connection(Reactor* reactor, Counters* counters);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  FrameWriter& writer() { return writer_; }
  // Any thread. Now, or at the end of the thread's batch.
  void Flush();
  bool has_stream() const { return stream_ != nullptr; }
  // The endpoint is going: ends the stream as soon as all is written, and
  // makes no new one.
  void BeginEnd();

  void OnEvents(uint32_t events) override;

 protected:
  // The stream, or an attempt to get one, has failed.
  virtual void OnBroken(const absl::Status& status) = 0;
  virtual std::weak_ptr<Connection> Self() = 0;

  void AttachStream(std::unique_ptr<ByteStream> stream);
  // Whether frames were left unwritten.
  bool DropStream();
  // Counts streams: what was meant for an earlier one is recognised by it.
  uint64_t generation() const { return generation_; }
  bool ending() const { return ending_; }

  Reactor* const reactor_;
  Counters* const counters_;
  FrameWriter writer_;
  FrameReader reader_;

 private:
  void EndIfWritten();

  std::unique_ptr<ByteStream> stream_;
  uint64_t watch_ = 0;
  uint64_t generation_ = 0;
  bool ending_ = false;
  bool ended_writing_ = false;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_CONNECTION_H_

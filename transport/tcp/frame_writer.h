#ifndef STAGECOACH_TRANSPORT_TCP_FRAME_WRITER_H_
#define STAGECOACH_TRANSPORT_TCP_FRAME_WRITER_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "transport/tcp/byte_stream.h"
#include "transport/tcp/frame.h"

namespace stagecoach::transport::tcp {

// The bytes that follow a payload frame.
struct OutgoingPayload {
  bool present = false;
  uint64_t sequence = 0;
  std::vector<iovec> parts;
};

// An end of an edge, asked for what it has to say when the socket takes more.
// Called under the writer's lock: must not call the writer back.
class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // Appends frames to `out`; the last may be a payload, whose bytes go into
  // `*payload`, and are the writer's until OnPayloadGone. Whether there is
  // more to say.
  virtual bool NextFrames(uint32_t edge, std::string* out,
                          OutgoingPayload* payload) = 0;
  // The writer will not look at the payload's bytes again: they are in the
  // socket, or will not be sent.
  virtual void OnPayloadGone(uint64_t sequence) = 0;
};

// Writes the frames of all edges of one connection, a payload straight from
// where it lies. Edges take turns. Thread-safe; any thread flushes, one at a
// time writes, and no lock is held meanwhile.
class FrameWriter {
 public:
  // Called, on any thread, when a write to `stream` has failed.
  using OnBroken = std::function<void(const ByteStream* stream, absl::Status)>;
  explicit FrameWriter(OnBroken on_broken) : on_broken_(std::move(on_broken)) {}

  // The stream must live until Detach. Nothing of an earlier one is left.
  void Attach(ByteStream* stream) SC_EXCLUDES(mu_);
  // Both sides have greeted: edges may be told of. Whether payloads get a
  // checksum.
  void Establish(bool checksum) SC_EXCLUDES(mu_);
  // Lets go of stream, frames and payload. Waits for a write that is under way.
  // Whether there were frames that had not been written.
  bool Detach() SC_EXCLUDES(mu_);

  // Frames of the connection itself, before what the edges have to say.
  void Push(FrameType type, uint32_t edge, absl::string_view body)
      SC_EXCLUDES(mu_);
  // The edge has something to say.
  void MarkReady(uint32_t edge, std::shared_ptr<FrameSource> source)
      SC_EXCLUDES(mu_);
  // Stops reading the edge's payload, if that is being sent: what is left of
  // its bytes is made up, and it is marked as taken back.
  void Release(const FrameSource* source) SC_EXCLUDES(mu_);
  // Release, then the rest of what the edge has to say, then its end.
  void Finish(uint32_t edge, FrameSource* source) SC_EXCLUDES(mu_);

  // Writes until nothing is left or the socket takes no more; does nothing
  // while another thread does it.
  void Flush() SC_EXCLUDES(mu_);
  // Nothing waits to be written.
  bool IsIdle() const SC_EXCLUDES(mu_);

 private:
  struct Ready {
    uint32_t edge = 0;
    std::shared_ptr<FrameSource> source;
  };
  struct Payload {
    std::shared_ptr<FrameSource> source;  // null: none
    uint64_t sequence = 0;
    std::vector<iovec> parts;
    size_t part = 0;     // the first that is not written; its base has moved
    size_t made_up = 0;  // zeros to write instead
    uint32_t crc = 0;
  };

  bool HasUnwrittenLocked() const SC_REQUIRES(mu_);
  void GatherLocked() SC_REQUIRES(mu_);
  bool PayloadWrittenLocked() const SC_REQUIRES(mu_);
  // What to write next; the trailer only once it is known.
  int PartsLocked(iovec* parts, int limit) SC_REQUIRES(mu_);
  void AdvanceLocked(size_t bytes) SC_REQUIRES(mu_);
  void FinishPayloadLocked() SC_REQUIRES(mu_);
  void ReleaseLocked(const FrameSource* source) SC_REQUIRES(mu_);
  // Until no write is under way; the next does not begin before the caller has
  // dropped the lock.
  void WaitForWriteLocked() SC_REQUIRES(mu_);

  const OnBroken on_broken_;
  mutable Mutex mu_;
  CondVar written_;
  ByteStream* stream_ SC_GUARDED_BY(mu_) = nullptr;
  bool established_ SC_GUARDED_BY(mu_) = false;
  bool checksum_ SC_GUARDED_BY(mu_) = false;
  bool flushing_ SC_GUARDED_BY(mu_) = false;
  // Inside the stream's Write, with the lock released.
  bool writing_ SC_GUARDED_BY(mu_) = false;
  int waiting_ SC_GUARDED_BY(mu_) = 0;  // for the end of a write
  bool again_ SC_GUARDED_BY(mu_) = false;
  std::string pushed_ SC_GUARDED_BY(mu_);
  std::deque<Ready> ready_ SC_GUARDED_BY(mu_);
  // In the order of writing: head, payload, trailer.
  std::string head_ SC_GUARDED_BY(mu_);
  size_t head_written_ SC_GUARDED_BY(mu_) = 0;
  Payload payload_ SC_GUARDED_BY(mu_);
  bool has_trailer_ SC_GUARDED_BY(mu_) = false;
  Trailer trailer_ SC_GUARDED_BY(mu_);
  size_t trailer_written_ SC_GUARDED_BY(mu_) = 0;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_FRAME_WRITER_H_

#ifndef STAGECOACH_TRANSPORT_TCP_FRAME_READER_H_
#define STAGECOACH_TRANSPORT_TCP_FRAME_READER_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/tcp/byte_stream.h"
#include "transport/tcp/counters.h"
#include "transport/tcp/frame.h"

namespace stagecoach::transport::tcp {

// Cuts a stream into frames, and reads payloads straight to where they belong.
// Whatever comes, it needs no more memory than a frame's largest body.
// Thread-compatible: used on the reactor.
class FrameReader {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // Every frame but payloads. An error ends the connection, here and below.
    virtual absl::Status OnFrame(const Frame& frame) = 0;
    // Where a payload's bytes go, in order and exactly so many; nowhere: they
    // are read and dropped. The memory must stay until OnPayloadEnd or Reset.
    virtual absl::StatusOr<std::vector<iovec>> OnPayload(
        const Frame& frame) = 0;
    // All bytes are there and undamaged, or the sender took them back.
    virtual absl::Status OnPayloadEnd(bool cancelled) = 0;
  };

  explicit FrameReader(Counters* counters) : counters_(counters) {}

  // Whether payloads must come with a checksum.
  void RequireChecksum(bool required) { checksum_ = required; }
  // Reads what there is; with `to_end`, although a short read came, since the
  // end of the stream is known to be near. kUnavailable at the end; kDataLoss
  // for what is no frame (counted).
  absl::Status Read(ByteStream* stream, Handler* handler, bool to_end);
  // For a new stream: forgets what was read by half.
  void Reset();
  // Bytes that came behind the last whole frame.
  size_t unread() const { return end_ - begin_; }

 private:
  enum class State { kHeader, kBody, kPayload, kTrailer };

  // Handles what is in the buffer.
  absl::Status Consume(Handler* handler);
  absl::Status TakeHeader();
  absl::Status TakeBody(Handler* handler);
  void TakePayloadFromBuffer();
  absl::Status TakeTrailer(Handler* handler);
  absl::Status Refuse(Refusal reason, const char* what);
  // The bytes that the state waits for, in the buffer.
  size_t Needed() const;
  // The free parts of targets, or of scratch memory, and then of the buffer.
  int PayloadParts(iovec* parts, int limit, size_t* asked);
  void AdvancePayload(size_t bytes);
  absl::StatusOr<size_t> Fill(ByteStream* stream, size_t* asked);

  Counters* const counters_;
  bool checksum_ = false;
  State state_ = State::kHeader;
  std::array<char, sizeof(FrameHeader) + kMaxBodyBytes> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  FrameHeader header_;
  std::vector<iovec> targets_;
  bool dropping_ = false;
  size_t target_ = 0;  // the first that is not full; its base has moved
  uint64_t payload_left_ = 0;
  uint32_t crc_ = 0;
  std::vector<char> scratch_;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_FRAME_READER_H_

#include "transport/tcp/frame_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "transport/tcp/crc32c.h"

namespace stagecoach::transport::tcp {
namespace {

// How far a read goes beyond the frame that it is for: far enough for most
// control frames, so that they cost one call; not so far that much of a payload
// would be copied.
constexpr size_t kReadAhead = 256;
constexpr int kMaxParts = 64;
constexpr size_t kScratchBytes = size_t{64} * 1024;

}  // namespace

void FrameReader::Reset() {
  state_ = State::kHeader;
  begin_ = end_ = 0;
  targets_.clear();
  payload_left_ = 0;
}

absl::Status FrameReader::Refuse(Refusal reason, const char* what) {
  counters_->Refuse(reason);
  return absl::DataLossError(absl::StrCat("tcp: the peer sent ", what));
}

size_t FrameReader::Needed() const {
  switch (state_) {
    case State::kHeader:
      return sizeof(FrameHeader);
    case State::kBody:
      return header_.body_bytes;
    case State::kTrailer:
      return sizeof(Trailer);
    case State::kPayload:
      break;
  }
  return 0;
}

absl::Status FrameReader::Read(ByteStream* stream, Handler* handler,
                               bool to_end) {
  while (true) {
    size_t asked = 0;
    SC_ASSIGN_OR_RETURN(const size_t got, Fill(stream, &asked));
    SC_RETURN_IF_ERROR(Consume(handler));
    // A short read has emptied the socket; what comes later is a new event.
    if (got == 0 || (got < asked && !to_end)) return absl::OkStatus();
  }
}

absl::StatusOr<size_t> FrameReader::Fill(ByteStream* stream, size_t* asked) {
  if (state_ != State::kPayload) {
    const size_t have = end_ - begin_;
    std::memmove(buffer_.data(), buffer_.data() + begin_, have);
    begin_ = 0;
    end_ = have;
    const size_t want = std::min(buffer_.size(), Needed() + kReadAhead) - have;
    iovec part{buffer_.data() + end_, want};
    *asked = want;
    SC_ASSIGN_OR_RETURN(const size_t got, stream->Read(&part, 1));
    end_ += got;
    return got;
  }
  // Consume() has emptied the buffer.
  begin_ = end_ = 0;
  iovec parts[kMaxParts];
  const int count = PayloadParts(parts, kMaxParts - 1, asked);
  const size_t payload = *asked;
  parts[count] = iovec{buffer_.data(), sizeof(Trailer) + kReadAhead};
  const bool whole = payload == payload_left_;
  if (whole) *asked += sizeof(Trailer) + kReadAhead;
  SC_ASSIGN_OR_RETURN(const size_t got,
                      stream->Read(parts, whole ? count + 1 : count));
  AdvancePayload(std::min(got, payload));
  end_ = got - std::min(got, payload);
  return got;
}

absl::Status FrameReader::Consume(Handler* handler) {
  while (true) {
    if (state_ == State::kPayload) {
      TakePayloadFromBuffer();
      if (payload_left_ > 0) return absl::OkStatus();
      state_ = State::kTrailer;
    }
    if (end_ - begin_ < Needed()) return absl::OkStatus();
    switch (state_) {
      case State::kHeader:
        SC_RETURN_IF_ERROR(TakeHeader());
        break;
      case State::kBody:
        SC_RETURN_IF_ERROR(TakeBody(handler));
        break;
      case State::kTrailer:
        SC_RETURN_IF_ERROR(TakeTrailer(handler));
        break;
      case State::kPayload:
        break;
    }
  }
}

absl::Status FrameReader::TakeHeader() {
  std::memcpy(&header_, buffer_.data() + begin_, sizeof(header_));
  begin_ += sizeof(header_);
  switch (CheckHeader(header_)) {
    case HeaderFault::kNotOurs:
      return Refuse(Refusal::kNotOurs, "something else than frames");
    case HeaderFault::kOtherVersion:
      return Refuse(Refusal::kVersion, "frames of another version");
    case HeaderFault::kTooLong:
      return Refuse(Refusal::kTooLong, "a frame longer than any may be");
    case HeaderFault::kNone:
      break;
  }
  state_ = State::kBody;
  return absl::OkStatus();
}

absl::Status FrameReader::TakeBody(Handler* handler) {
  Frame frame;
  frame.type = static_cast<FrameType>(header_.type);
  frame.edge = header_.edge;
  frame.payload_bytes = header_.payload_bytes;
  frame.body = absl::string_view(buffer_.data() + begin_, header_.body_bytes);
  begin_ += header_.body_bytes;
  if (!CheckIntegrity(header_, frame.body)) {
    return Refuse(Refusal::kChecksum, "a damaged frame");
  }
  if (frame.type != FrameType::kPayload) {
    state_ = State::kHeader;
    return handler->OnFrame(frame);
  }
  SC_ASSIGN_OR_RETURN(targets_, handler->OnPayload(frame));
  dropping_ = targets_.empty();
  target_ = 0;
  crc_ = 0;
  payload_left_ = header_.payload_bytes;
  state_ = State::kPayload;
  return absl::OkStatus();
}

void FrameReader::TakePayloadFromBuffer() {
  while (payload_left_ > 0 && begin_ < end_) {
    iovec part;
    size_t room = 0;
    PayloadParts(&part, 1, &room);
    const size_t bytes = std::min(room, end_ - begin_);
    std::memcpy(part.iov_base, buffer_.data() + begin_, bytes);
    begin_ += bytes;
    AdvancePayload(bytes);
  }
}

int FrameReader::PayloadParts(iovec* parts, int limit, size_t* asked) {
  *asked = 0;
  if (dropping_) {
    scratch_.resize(kScratchBytes);
    *asked = std::min<uint64_t>(payload_left_, scratch_.size());
    parts[0] = iovec{scratch_.data(), *asked};
    return 1;
  }
  int count = 0;
  for (size_t i = target_; i < targets_.size() && count < limit; ++i) {
    if (targets_[i].iov_len == 0) continue;
    parts[count++] = targets_[i];
    *asked += targets_[i].iov_len;
  }
  return count;
}

void FrameReader::AdvancePayload(size_t bytes) {
  payload_left_ -= bytes;
  if (dropping_) {
    if (checksum_) crc_ = ExtendCrc32c(crc_, scratch_.data(), bytes);
    return;
  }
  while (bytes > 0) {
    iovec& target = targets_[target_];
    const size_t part = std::min(bytes, target.iov_len);
    if (checksum_) crc_ = ExtendCrc32c(crc_, target.iov_base, part);
    target.iov_base = static_cast<char*>(target.iov_base) + part;
    target.iov_len -= part;
    bytes -= part;
    if (target.iov_len == 0) ++target_;
  }
}

absl::Status FrameReader::TakeTrailer(Handler* handler) {
  Trailer trailer;
  std::memcpy(&trailer, buffer_.data() + begin_, sizeof(trailer));
  begin_ += sizeof(trailer);
  state_ = State::kHeader;
  targets_.clear();
  const bool cancelled = (trailer.flags & kTrailerCancelled) != 0;
  if (checksum_ && !cancelled) {
    if ((trailer.flags & kTrailerHasCrc) == 0) {
      return Refuse(Refusal::kProtocol, "a payload without its checksum");
    }
    if (trailer.crc != crc_) {
      return Refuse(Refusal::kChecksum, "a damaged payload");
    }
  }
  return handler->OnPayloadEnd(cancelled);
}

}  // namespace stagecoach::transport::tcp

#include "transport/tcp/frame_writer.h"

#include <algorithm>
#include <utility>

#include "transport/tcp/crc32c.h"

namespace stagecoach::transport::tcp {
namespace {

constexpr int kMaxParts = 64;
// Control frames of so many bytes are written together.
constexpr size_t kGatherBytes = size_t{16} * 1024;
constexpr size_t kZeroBytes = size_t{64} * 1024;

char* Zeros() {
  static char zeros[kZeroBytes] = {};
  return zeros;
}

}  // namespace

void FrameWriter::Attach(ByteStream* stream) {
  MutexLock lock(&mu_);
  stream_ = stream;
  established_ = false;
}

void FrameWriter::Establish(bool checksum) {
  MutexLock lock(&mu_);
  established_ = true;
  checksum_ = checksum;
}

void FrameWriter::WaitForWriteLocked() {
  ++waiting_;
  while (writing_) written_.Wait(&mu_);
  --waiting_;
  written_.NotifyAll();
}

bool FrameWriter::Detach() {
  MutexLock lock(&mu_);
  WaitForWriteLocked();
  const bool unwritten = HasUnwrittenLocked() || !pushed_.empty() ||
                         (stream_ != nullptr && !stream_->drained());
  stream_ = nullptr;
  if (payload_.source != nullptr) {
    payload_.source->OnPayloadGone(payload_.sequence);
  }
  payload_ = Payload();
  has_trailer_ = false;
  head_.clear();
  head_written_ = 0;
  pushed_.clear();
  ready_.clear();
  return unwritten;
}

void FrameWriter::Push(FrameType type, uint32_t edge, absl::string_view body) {
  MutexLock lock(&mu_);
  if (stream_ != nullptr) AppendFrame(type, edge, body, &pushed_);
}

void FrameWriter::MarkReady(uint32_t edge,
                            std::shared_ptr<FrameSource> source) {
  MutexLock lock(&mu_);
  if (stream_ == nullptr) return;
  for (const Ready& ready : ready_) {
    if (ready.source == source) return;
  }
  ready_.push_back(Ready{edge, std::move(source)});
}

void FrameWriter::Release(const FrameSource* source) {
  MutexLock lock(&mu_);
  ReleaseLocked(source);
}

void FrameWriter::ReleaseLocked(const FrameSource* source) {
  WaitForWriteLocked();
  ready_.erase(std::remove_if(ready_.begin(), ready_.end(),
                              [source](const Ready& ready) {
                                return ready.source.get() == source;
                              }),
               ready_.end());
  if (payload_.source.get() != source) return;
  // Without bytes: only the trailer is missing, and the transfer is good.
  if (PayloadWrittenLocked()) return FinishPayloadLocked();
  for (size_t i = payload_.part; i < payload_.parts.size(); ++i) {
    payload_.made_up += payload_.parts[i].iov_len;
  }
  payload_.parts.clear();
  payload_.part = 0;
  trailer_.flags = kTrailerCancelled;
  payload_.source->OnPayloadGone(payload_.sequence);
  payload_.source = nullptr;
}

void FrameWriter::Finish(uint32_t edge, FrameSource* source) {
  MutexLock lock(&mu_);
  ReleaseLocked(source);
  if (stream_ == nullptr || !established_) return;
  OutgoingPayload none;
  while (source->NextFrames(edge, &pushed_, &none)) {
  }
  AppendFrame(FrameType::kCloseEdge, edge, {}, &pushed_);
}

bool FrameWriter::PayloadWrittenLocked() const {
  return payload_.part == payload_.parts.size() && payload_.made_up == 0;
}

bool FrameWriter::HasUnwrittenLocked() const {
  return head_written_ < head_.size() || has_trailer_;
}

bool FrameWriter::IsIdle() const {
  MutexLock lock(&mu_);
  return stream_ == nullptr ||
         (!HasUnwrittenLocked() && pushed_.empty() && ready_.empty() &&
          !writing_ && stream_->drained());
}

void FrameWriter::GatherLocked() {
  head_.clear();
  head_written_ = 0;
  head_.swap(pushed_);
  while (head_.size() < kGatherBytes && !ready_.empty() && !has_trailer_) {
    Ready ready = std::move(ready_.front());
    ready_.pop_front();
    OutgoingPayload payload;
    const bool more = ready.source->NextFrames(ready.edge, &head_, &payload);
    if (payload.present) {
      has_trailer_ = true;
      trailer_ = Trailer();
      trailer_written_ = 0;
      payload_.sequence = payload.sequence;
      payload_.parts = std::move(payload.parts);
      payload_.part = 0;
      payload_.made_up = 0;
      payload_.crc = 0;
      payload_.source = ready.source;
      if (PayloadWrittenLocked()) FinishPayloadLocked();  // has no bytes
    }
    if (more) ready_.push_back(std::move(ready));
  }
}

int FrameWriter::PartsLocked(iovec* parts, int limit) {
  int count = 0;
  if (head_written_ < head_.size()) {
    parts[count++] =
        iovec{head_.data() + head_written_, head_.size() - head_written_};
  }
  if (!has_trailer_) return count;
  for (size_t i = payload_.part; i < payload_.parts.size() && count < limit - 1;
       ++i) {
    parts[count++] = payload_.parts[i];
  }
  if (payload_.made_up > 0) {
    parts[count++] = iovec{Zeros(), std::min(payload_.made_up, kZeroBytes)};
    return count;
  }
  const bool whole = count < limit - 1;
  if (whole && (!checksum_ || PayloadWrittenLocked())) {
    parts[count++] =
        iovec{reinterpret_cast<char*>(&trailer_) + trailer_written_,
              sizeof(trailer_) - trailer_written_};
  }
  return count;
}

void FrameWriter::AdvanceLocked(size_t bytes) {
  const size_t head = std::min(bytes, head_.size() - head_written_);
  head_written_ += head;
  bytes -= head;
  if (!has_trailer_) return;
  while (bytes > 0 && payload_.part < payload_.parts.size()) {
    iovec& part = payload_.parts[payload_.part];
    const size_t written = std::min(bytes, part.iov_len);
    if (checksum_) {
      payload_.crc = ExtendCrc32c(payload_.crc, part.iov_base, written);
    }
    part.iov_base = static_cast<char*>(part.iov_base) + written;
    part.iov_len -= written;
    bytes -= written;
    if (part.iov_len == 0) ++payload_.part;
  }
  const size_t made_up = std::min(bytes, payload_.made_up);
  payload_.made_up -= made_up;
  bytes -= made_up;
  if (PayloadWrittenLocked()) FinishPayloadLocked();
  trailer_written_ += bytes;
  if (trailer_written_ == sizeof(trailer_)) has_trailer_ = false;
}

// All of its bytes are in the socket: the trailer can be told.
void FrameWriter::FinishPayloadLocked() {
  if (payload_.source == nullptr) return;
  if (checksum_) {
    trailer_.flags |= kTrailerHasCrc;
    trailer_.crc = payload_.crc;
  }
  payload_.source->OnPayloadGone(payload_.sequence);
  payload_.source = nullptr;
}

void FrameWriter::Flush() {
  absl::Status broken;
  const ByteStream* broken_stream = nullptr;
  mu_.Lock();
  again_ = true;
  if (flushing_) {
    mu_.Unlock();
    return;
  }
  flushing_ = true;
  while (again_ && stream_ != nullptr) {
    again_ = false;
    while (waiting_ > 0) written_.Wait(&mu_);
    if (stream_ == nullptr) break;
    if (!HasUnwrittenLocked()) GatherLocked();
    if (!HasUnwrittenLocked() && stream_->drained()) continue;
    iovec parts[kMaxParts];
    const int count = PartsLocked(parts, kMaxParts);
    ByteStream* const stream = stream_;
    writing_ = true;
    mu_.Unlock();
    const absl::StatusOr<size_t> written = stream->Write(parts, count);
    mu_.Lock();
    writing_ = false;
    written_.NotifyAll();
    if (!written.ok()) {
      broken = written.status();
      broken_stream = std::exchange(stream_, nullptr);
      break;
    }
    if (*written == 0) continue;  // until the socket is writable again
    AdvanceLocked(*written);
    again_ = true;
  }
  flushing_ = false;
  mu_.Unlock();
  if (!broken.ok()) on_broken_(broken_stream, broken);
}

}  // namespace stagecoach::transport::tcp

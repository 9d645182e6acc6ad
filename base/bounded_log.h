#ifndef STAGECOACH_BASE_BOUNDED_LOG_H_
#define STAGECOACH_BASE_BOUNDED_LOG_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"

namespace stagecoach {

// Bytes that are only ever added at the end, each with an offset that never
// changes. Above the bound the oldest go; their offsets are not used again.
// Thread-compatible.
class BoundedLog {
 public:
  struct Piece {
    int64_t offset = 0;  // of the first byte of `data`
    std::string data;

    int64_t end() const { return offset + static_cast<int64_t>(data.size()); }
  };

  // Keeps at least the last `limit_bytes`, and at most one piece more.
  explicit BoundedLog(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  void Append(absl::string_view data);
  // What is kept at and behind `offset`, at most `max_bytes`. Starts later than
  // `offset` if those bytes are gone; empty at the end. Ends behind a newline
  // where there is one.
  Piece Read(int64_t offset, int64_t max_bytes) const;
  // Forgets what is kept; the next byte has the offset `offset`, which must not
  // be before the end.
  void SkipTo(int64_t offset);

  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  int64_t size() const { return end_ - begin_; }

 private:
  const int64_t limit_bytes_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  // One after the other, from begin_ to end_.
  std::deque<Piece> pieces_;
};

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_BOUNDED_LOG_H_

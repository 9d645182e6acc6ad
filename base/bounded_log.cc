#include "base/bounded_log.h"

#include <algorithm>

namespace stagecoach {
namespace {

// What is dropped at once.
constexpr size_t kPieceBytes = 16 << 10;

}  // namespace

void BoundedLog::Append(absl::string_view data) {
  while (!data.empty()) {
    if (pieces_.empty() || pieces_.back().data.size() >= kPieceBytes) {
      pieces_.emplace_back();
      pieces_.back().offset = end_;
    }
    std::string& last = pieces_.back().data;
    const absl::string_view part = data.substr(0, kPieceBytes - last.size());
    last.append(part.data(), part.size());
    end_ += static_cast<int64_t>(part.size());
    data.remove_prefix(part.size());
  }
  while (pieces_.size() > 1 && end_ - pieces_.front().end() >= limit_bytes_) {
    begin_ = pieces_.front().end();
    pieces_.pop_front();
  }
}

BoundedLog::Piece BoundedLog::Read(int64_t offset, int64_t max_bytes) const {
  Piece result;
  result.offset = std::clamp(offset, begin_, end_);
  auto it = std::upper_bound(
      pieces_.begin(), pieces_.end(), result.offset,
      [](int64_t at, const Piece& piece) { return at < piece.end(); });
  for (; it != pieces_.end(); ++it) {
    const int64_t left = max_bytes - static_cast<int64_t>(result.data.size());
    if (left <= 0) break;
    result.data.append(it->data, static_cast<size_t>(result.end() - it->offset),
                       static_cast<size_t>(left));
  }
  // A reader likes whole lines; a line longer than a piece is cut.
  const size_t newline = result.data.rfind('\n');
  if (newline != std::string::npos) result.data.resize(newline + 1);
  return result;
}

void BoundedLog::SkipTo(int64_t offset) {
  pieces_.clear();
  begin_ = end_ = std::max(offset, end_);
}

}  // namespace stagecoach

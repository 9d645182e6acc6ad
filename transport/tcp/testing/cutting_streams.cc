#include "transport/tcp/testing/cutting_streams.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "transport/tcp/socket.h"

namespace stagecoach::transport::tcp {

class CuttingStreams::Stream final : public ByteStream {
 public:
  Stream(std::shared_ptr<CuttingStreams> owner,
         std::unique_ptr<ByteStream> real, int64_t limit)
      : owner_(std::move(owner)), real_(std::move(real)), left_(limit) {}

  absl::StatusOr<size_t> Read(const iovec* parts, int count) override {
    if (Cut()) return Broken();
    return Counted(real_->Read(parts, count));
  }
  // Up to the limit, also in the middle of a frame.
  absl::StatusOr<size_t> Write(const iovec* parts, int count) override {
    if (Cut()) return Broken();
    std::vector<iovec> allowed;
    auto room = static_cast<size_t>(std::max<int64_t>(left_, 1));
    for (int i = 0; i < count && room > 0; ++i) {
      allowed.push_back(
          iovec{parts[i].iov_base, std::min(parts[i].iov_len, room)});
      room -= allowed.back().iov_len;
    }
    return Counted(
        real_->Write(allowed.data(), static_cast<int>(allowed.size())));
  }
  void EndWriting() override { real_->EndWriting(); }
  int fd() const override { return real_->fd(); }

 private:
  static absl::Status Broken() {
    return absl::UnavailableError("tcp: cut by the test");
  }
  // The other side sees it, too.
  bool Cut() {
    if (cut_) return true;
    if (left_ > 0) return false;
    if (!owner_->TakeCut()) {
      left_ = std::numeric_limits<int64_t>::max();
      return false;
    }
    cut_ = true;
    (void)shutdown(fd(), SHUT_RDWR);
    return true;
  }
  absl::StatusOr<size_t> Counted(absl::StatusOr<size_t> moved) {
    if (moved.ok()) left_ -= static_cast<int64_t>(*moved);
    return moved;
  }

  const std::shared_ptr<CuttingStreams> owner_;
  const std::unique_ptr<ByteStream> real_;
  // One thread reads while another writes.
  std::atomic<int64_t> left_;
  std::atomic<bool> cut_{false};
};

StreamFactory CuttingStreams::Factory() {
  return [self = shared_from_this()](
             UniqueFd socket,
             bool dialled) -> absl::StatusOr<std::unique_ptr<ByteStream>> {
    absl::StatusOr<std::unique_ptr<ByteStream>> real =
        NewPlainStream(std::move(socket), dialled);
    if (!real.ok() || !dialled) return real;
    return std::unique_ptr<ByteStream>(
        std::make_unique<Stream>(self, *std::move(real), self->NextLimit()));
  };
}

int64_t CuttingStreams::NextLimit() {
  MutexLock lock(&mu_);
  return 1 + static_cast<int64_t>(random_() %
                                  static_cast<uint64_t>(longest_bytes_));
}

bool CuttingStreams::TakeCut() {
  MutexLock lock(&mu_);
  if (left_ == 0) return false;
  --left_;
  return true;
}

}  // namespace stagecoach::transport::tcp

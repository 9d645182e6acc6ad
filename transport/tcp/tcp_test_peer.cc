// The other process of tcp_two_process_test. With --die-after=BYTES before
// everything else it kills itself once so many have gone over a connection,
// both ways together: amid what it sends or receives.
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"
#include "transport/testing/test_peer.h"

namespace stagecoach::transport {
namespace {

// A plain stream that ends the process at a byte.
class DyingStream final : public tcp::ByteStream {
 public:
  DyingStream(std::unique_ptr<tcp::ByteStream> real, int64_t limit)
      : real_(std::move(real)), left_(limit) {}
  absl::StatusOr<size_t> Read(const iovec* parts, int count) override {
    return Count(real_->Read(parts, count));
  }
  absl::StatusOr<size_t> Write(const iovec* parts, int count) override {
    return Count(real_->Write(parts, count));
  }
  void EndWriting() override { real_->EndWriting(); }
  int fd() const override { return real_->fd(); }

 private:
  absl::StatusOr<size_t> Count(absl::StatusOr<size_t> bytes) {
    const auto moved = static_cast<int64_t>(bytes.value_or(0));
    if (left_.fetch_sub(moved) <= moved) raise(SIGKILL);
    return bytes;
  }

  const std::unique_ptr<tcp::ByteStream> real_;
  std::atomic<int64_t> left_;
};

EndpointFactory Factory(int64_t die_after) {
  TcpOptions options;
  if (die_after > 0) {
    options.new_stream = [die_after](UniqueFd socket, bool dialled)
        -> absl::StatusOr<std::unique_ptr<tcp::ByteStream>> {
      auto plain = tcp::NewPlainStream(std::move(socket), dialled);
      if (!plain.ok()) return plain.status();
      return std::make_unique<DyingStream>(*std::move(plain), die_after);
    };
  }
  return [options](const EndpointOptions& endpoint) {
    return NewTcpEndpoint(endpoint, options);
  };
}

int Main(std::vector<std::string> arguments) {
  int64_t die_after = 0;
  absl::string_view first;
  if (!arguments.empty()) first = arguments.front();
  if (absl::ConsumePrefix(&first, "--die-after=")) {
    if (!absl::SimpleAtoi(first, &die_after)) return 2;
    arguments.erase(arguments.begin());
  }
  return testing::RunTestPeer(Factory(die_after), std::move(arguments));
}

}  // namespace
}  // namespace stagecoach::transport

int main(int argc, char** argv) {
  return stagecoach::transport::Main(
      std::vector<std::string>(argv + 1, argv + argc));
}

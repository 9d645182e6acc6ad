#include "transport/two_sided/testing/unix_control_channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::two_sided::testing {
namespace {

constexpr size_t kMaxMessageBytes = 64 << 10;

socklen_t AddressOf(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  // The first byte stays zero: no file.
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                name.size());
}

UniqueFd NewSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

class UnixControlChannel final : public ControlChannel {
 public:
  explicit UnixControlChannel(Handlers handlers)
      : handlers_(std::move(handlers)) {}
  ~UnixControlChannel() override {
    (void)eventfd_write(stop_.get(), 1);
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() {
    std::random_device device;
    name_ = absl::StrCat("stagecoach-control-", absl::Hex(device()),
                         absl::Hex(device()));
    sockaddr_un address;
    const socklen_t size = AddressOf(name_, &address);
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) !=
            0 ||
        listen(listener_.get(), 16) != 0) {
      return absl::InternalError(strerror(errno));
    }
    thread_ = std::thread([this] { Loop(); });
    return absl::OkStatus();
  }

  std::string address() const override { return name_; }

  void Send(const std::string& to, std::string message) override {
    std::string error;
    {
      MutexLock lock(&mu_);
      UniqueFd& peer = outgoing_[to];
      if (!peer.valid()) peer = ConnectLocked(to);
      if (peer.valid() &&
          send(peer.get(), message.data(), message.size(), MSG_NOSIGNAL) >= 0) {
        return;
      }
      error = strerror(errno);
    }
    handlers_.on_lost(to, absl::UnavailableError(error));
  }

 private:
  struct Incoming {
    UniqueFd fd;
    std::string peer;  // empty until it has said who it is
  };

  UniqueFd ConnectLocked(const std::string& to) SC_REQUIRES(mu_) {
    sockaddr_un address;
    if (to.size() + 1 > sizeof(address.sun_path)) return UniqueFd();
    const socklen_t size = AddressOf(to, &address);
    UniqueFd fd = NewSocket();
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        send(fd.get(), name_.data(), name_.size(), MSG_NOSIGNAL) < 0) {
      return UniqueFd();
    }
    return fd;
  }

  void Loop() {
    while (true) {
      std::vector<pollfd> waiting = {{stop_.get(), POLLIN, 0},
                                     {listener_.get(), POLLIN, 0}};
      for (const Incoming& each : incoming_) {
        waiting.push_back({each.fd.get(), POLLIN, 0});
      }
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[0].revents != 0) return;
      // From the back: those that ended are erased.
      for (size_t i = incoming_.size(); i-- > 0;) {
        if (waiting[i + 2].revents != 0 && !Receive(&incoming_[i])) {
          incoming_.erase(incoming_.begin() + static_cast<ptrdiff_t>(i));
        }
      }
      if (waiting[1].revents != 0) {
        incoming_.push_back(Incoming{
            UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)),
            ""});
      }
    }
  }

  bool Receive(Incoming* from) {
    std::string message(kMaxMessageBytes, '\0');
    const ssize_t got =
        recv(from->fd.get(), &message[0], message.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) {
      handlers_.on_lost(from->peer,
                        absl::UnavailableError("its process ended"));
      return false;
    }
    message.resize(static_cast<size_t>(got));
    if (from->peer.empty()) {
      from->peer = std::move(message);
    } else {
      handlers_.on_message(from->peer, std::move(message));
    }
    return true;
  }

  const Handlers handlers_;
  const UniqueFd stop_{eventfd(0, EFD_CLOEXEC)};
  const UniqueFd listener_ = NewSocket();
  std::string name_;
  std::thread thread_;
  std::vector<Incoming> incoming_;  // the thread's
  Mutex mu_;
  std::map<std::string, UniqueFd> outgoing_ SC_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlChannel>> NewUnixControlChannel(
    ControlChannel::Handlers handlers) {
  auto channel = std::make_unique<UnixControlChannel>(std::move(handlers));
  if (absl::Status started = channel->Start(); !started.ok()) return started;
  return channel;
}

}  // namespace stagecoach::transport::two_sided::testing

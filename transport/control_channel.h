#ifndef STAGECOACH_TRANSPORT_CONTROL_CHANNEL_H_
#define STAGECOACH_TRANSPORT_CONTROL_CHANNEL_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stagecoach::transport {

// NCCL moves payloads and nothing else: unique ids, announcements, grants and
// acknowledgements travel here. One channel per endpoint, that is, per
// placement of a job on a worker; who is behind an address is the
// implementation's business. Thread-safe.
class ControlChannel {
 public:
  // Both may be called from any thread, also from inside Send, and must only
  // post. None is called any more once the destructor has returned.
  struct Handlers {
    std::function<void(const std::string& from, std::string message)>
        on_message;
    // The peer's process, or the way to it, is gone. After it nothing comes
    // from this peer.
    std::function<void(const std::string& peer, absl::Status why)> on_lost;
  };

  virtual ~ControlChannel() = default;

  // Of this end, for peers' Send; printable.
  virtual std::string address() const = 0;
  // Never blocks. Messages to one peer arrive whole, once and in order, or
  // on_lost is called for it.
  virtual void Send(const std::string& to, std::string message) = 0;
};

using ControlChannelFactory =
    std::function<absl::StatusOr<std::unique_ptr<ControlChannel>>(
        ControlChannel::Handlers handlers)>;

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_CONTROL_CHANNEL_H_

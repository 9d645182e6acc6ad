#ifndef STAGECOACH_TRANSPORT_TCP_LISTENER_H_
#define STAGECOACH_TRANSPORT_TCP_LISTENER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/tcp/byte_stream.h"
#include "transport/tcp/counters.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/reactor.h"
#include "transport/unique_fd.h"

namespace stagecoach::transport::tcp {

// Accepts connections and reads their greetings; who does not greet properly,
// and soon, is turned away with a counted reason and learns nothing. Used on
// the reactor.
class Listener final : public Reactor::Handler,
                       public std::enable_shared_from_this<Listener> {
 public:
  struct Options {
    Token instance{};
    Token token{};
    int64_t epoch = 0;
    absl::Duration greeting_time = absl::Seconds(5);
    StreamFactory new_stream;
    // A connection that has greeted as it must.
    std::function<void(const Hello& hello, std::unique_ptr<ByteStream> stream)>
        on_greeted;
  };
  // `reactor` and `counters` must outlive the use on the reactor.
  Listener(Reactor* reactor, Counters* counters, UniqueFd socket,
           Options options);

  // Any thread. Begins to accept.
  void Start();
  // Accepts nothing more; cuts those that have not greeted yet.
  void Stop();

  void OnEvents(uint32_t events) override;

 private:
  class Greeter;

  void TurnOneAway();
  // OK, or the refusal that the peer is told, counted.
  absl::Status Check(const Hello& hello) const;
  // Whether it was one of those that had not greeted.
  bool Done(const std::shared_ptr<Greeter>& greeter);

  Reactor* const reactor_;
  Counters* const counters_;
  const UniqueFd socket_;
  const Options options_;
  uint64_t watch_ = 0;
  // Given up for a moment when there are no descriptors left.
  UniqueFd spare_;
  std::deque<std::shared_ptr<Greeter>> greeters_;  // the oldest first
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_LISTENER_H_

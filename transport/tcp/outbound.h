#ifndef STAGECOACH_TRANSPORT_TCP_OUTBOUND_H_
#define STAGECOACH_TRANSPORT_TCP_OUTBOUND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/descriptor.h"
#include "transport/tcp/send_core.h"

namespace stagecoach::transport::tcp {

// The connection of all edges from this endpoint to one peer. This end dials,
// also after a break; then it opens its edges again and each sends what has not
// arrived.
//
//   kIdle ─▶ kConnecting ─▶ kGreeting ─▶ kUp ── break ─▶ kWaiting
//               ▲  │            │                          │
//               │  └── failed ──┴──────────────────────────┤
//               └──────── after the backoff ───────────────┤
//                                                          ▼
//                              refused, or given up:     kDead
class OutboundConnection final
    : public Connection,
      public std::enable_shared_from_this<OutboundConnection> {
 public:
  struct Options {
    Descriptor peer;
    uint64_t id = 0;  // random
    int64_t epoch = 0;
    bool checksum = false;
    ReconnectPolicy reconnect;
    StreamFactory new_stream;
  };
  OutboundConnection(Reactor* reactor, Counters* counters,
                     const Options& options);

  // Opens the sending end of an edge; blocks. kUnavailable if the peer cannot
  // be reached by `deadline`, else what it says. Not from the reactor.
  absl::Status Open(const std::shared_ptr<SendCore>& core,
                    CondVar::TimePoint deadline) SC_EXCLUDES(mu_);
  bool dead() const SC_EXCLUDES(mu_);

  // --- on the reactor ---
  void OnEvents(uint32_t events) override;
  absl::Status OnFrame(const Frame& frame) override;
  absl::StatusOr<std::vector<iovec>> OnPayload(const Frame& frame) override;
  absl::Status OnPayloadEnd(bool cancelled) override;

 private:
  enum class State { kIdle, kConnecting, kGreeting, kUp, kWaiting, kDead };
  struct Edge {
    std::shared_ptr<SendCore> core;
    bool asked = false;     // on this stream
    bool was_open = false;  // on any
    std::optional<absl::Status> outcome;
  };
  class Port;
  using Clock = Reactor::Clock;

  void OnBroken(const absl::Status& status) override;
  std::weak_ptr<Connection> Self() override { return weak_from_this(); }

  void OpenPending();
  void AskForEdges() SC_EXCLUDES(mu_);
  void Dial();
  void DialNextAddress(const absl::Status& last);
  void OnConnected();
  void OnAttemptFailed(const absl::Status& status);
  void WaitAndDial(const absl::Status& status);
  void After(absl::Duration delay, void (OutboundConnection::*step)(),
             State in);
  void OnAttemptTimeout();
  // Every edge fails or is lost.
  void GiveUp(const absl::Status& status) SC_EXCLUDES(mu_);
  absl::Status OnWelcome(const Frame& frame);
  absl::Status OnEdgeFrame(const Frame& frame) SC_EXCLUDES(mu_);
  absl::Status OnEdgeOpened(const Frame& frame,
                            const std::shared_ptr<SendCore>& core)
      SC_EXCLUDES(mu_);
  absl::Status OnEdgeRefused(const Frame& frame, SendCore* core)
      SC_EXCLUDES(mu_);
  void Settle(uint32_t index, const absl::Status& outcome) SC_EXCLUDES(mu_);
  std::shared_ptr<SendCore> Find(uint32_t index) const SC_EXCLUDES(mu_);
  void Erase(uint32_t index) SC_EXCLUDES(mu_);
  std::vector<std::shared_ptr<SendCore>> Cores() const SC_EXCLUDES(mu_);
  absl::Status Misbehaved(const absl::Status& status);

  const Options options_;
  // On the reactor only.
  State state_ = State::kIdle;
  UniqueFd connecting_;
  uint64_t connecting_watch_ = 0;
  size_t next_address_ = 0;
  bool was_up_ = false;
  bool progressed_ = false;  // since the stream stands
  int attempts_ = 0;
  int refused_ = 0;
  absl::Duration backoff_;
  Clock::time_point give_up_at_;
  uint64_t step_ = 0;  // timers of earlier steps do nothing
  std::optional<absl::Status> refusal_;

  mutable Mutex mu_;
  CondVar changed_;
  std::optional<absl::Status> dead_ SC_GUARDED_BY(mu_);
  uint32_t next_index_ SC_GUARDED_BY(mu_) = 0;
  std::map<uint32_t, Edge> edges_ SC_GUARDED_BY(mu_);
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_OUTBOUND_H_

#ifndef STAGECOACH_TRANSPORT_TWO_SIDED_EDGE_END_H_
#define STAGECOACH_TRANSPORT_TWO_SIDED_EDGE_END_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/control_channel.h"
#include "transport/ring/edge_core.h"
#include "transport/transport.h"
#include "transport/two_sided/carrier.h"
#include "transport/two_sided/control_message.h"
#include "transport/two_sided/limits.h"
#include "transport/two_sided/reactor.h"

namespace stagecoach::transport::two_sided {

class EdgeEnd;

// What all ends of one endpoint share. Held by each of them.
struct Shared {
  Limits limits;
  // Outlives every communicator and pool that it made.
  std::shared_ptr<Carrier> carrier;
  Reactor reactor;
  // Outlives every message that is sent through it: gone after the reactor.
  ControlChannel* channel = nullptr;
  // The edge is lost, and with it the endpoint. On the reactor's thread.
  std::function<void(EdgeEnd* end, absl::Status why)> on_broken;
  // An end is connected, or never will be: another may have its turn.
  std::function<void()> on_turn;
};

// Aborts them as one group. If that fails or does not return in time, says so
// to limits.on_stuck. Reactor only.
void AbortGuarded(const Shared& shared, const std::string& what,
                  const std::vector<Communicator*>& communicators);

// One end of an edge, and its life on the reactor's thread:
//
//   kApart ─ Connect ─▶ kInitialising ─▶ kReady ─▶ kDraining ─▶ kFinalizing
//      │                      │             │          │             │
//      └──────────────────────┴─────────────┴──────────┴─────────────┴▶ kOver
//
// kDraining: closing here, or the peer said goodbye; what still completes is
// waited for, for so long. Whatever does not end well goes through an abort.
//
// What ring::EdgeCore says about threads and callbacks holds. The methods below
// that are not marked thread-safe belong to the reactor's thread.
class EdgeEnd : public ring::EdgeCore {
 public:
  EdgeEnd(ring::EdgeContext context, std::shared_ptr<Shared> shared, Way way);
  ~EdgeEnd() override = default;

  // From the one peer of this edge, for this connection.
  void OnMessage(const ControlMessage& message);
  // The way to the peer is gone.
  void OnPeerLost(const absl::Status& why);
  // Does what can be done now.
  Activity Step();

  // Says goodbye; the communicator goes with the group's abort, and then
  // Aborted() is called.
  void PrepareAbort(const absl::Status& why);
  void Aborted();
  // Ends gracefully, then calls `finished`.
  void BeginClose(std::function<void()> finished);

  Communicator* communicator() { return communicator_.get(); }
  // Made, failed or over: whoever is next in the order may start.
  bool had_its_turn() const { return phase_ >= Phase::kReady; }
  bool over() const { return phase_ == Phase::kOver; }
  const std::string& peer() const { return peer_; }
  uint64_t connection() const { return connection_; }
  Way way() const { return way_; }

 protected:
  enum class Phase {
    kApart,
    kInitialising,
    kReady,
    kDraining,
    kFinalizing,
    kOver,
  };

  // In kApart: makes this end's half of the communicator. Gives what the peer's
  // half wants to know of it.
  absl::StatusOr<std::string> Introduce();
  // Joins the halves by `deadline`, which was `within` after the beginning.
  absl::Status Connect(const std::string& peers_introduction,
                       absl::Time deadline, absl::Duration within);
  // Tells the peer.
  void Send(ControlMessage message);
  // Ends this edge, and with it, once it was connected, all of the endpoint's.
  void Break(const absl::Status& why);

  // All on the reactor's thread.
  //
  // The edge fails before it was connected. False: that is a lost edge.
  virtual bool ConnectFailed(const absl::Status& /*why*/) { return false; }
  // In kApart.
  virtual void CheckOpening(absl::Time /*now*/) {}
  virtual absl::Status HandleMessage(const ControlMessage& message) = 0;
  virtual void OnReady() {}
  // In kReady and kDraining: submits what can be. Whether it did anything.
  virtual bool StartTransfers() = 0;
  virtual void OnCompleted(uint64_t sequence) = 0;
  // Says what is left to say before goodbye.
  virtual void Flush() {}
  // Nothing is under way any more: whoever waits for it gets end_status_.
  virtual void FailUnderWay() {}
  // Nothing that the peer has not got yet depends on this end's communicator.
  virtual bool MayLeave() const = 0;

  const std::shared_ptr<Shared> shared_;
  Phase phase_ = Phase::kApart;
  std::string peer_;
  uint64_t connection_ = 0;
  // Transfers that are complete on this end.
  uint64_t completed_count_ = 0;
  bool peer_left_ = false;

 private:
  class Link;

  Activity StepCommunicator();
  // The communicator cannot go on.
  void Fail(const absl::Status& why);
  bool StepDraining();
  void BeginDraining();
  // `why`: of an end that was never ready.
  void SayGoodbye(const absl::Status& why = absl::OkStatus());
  void AbortAlone();
  void Finish();
  absl::Time Now() const { return shared_->limits.clock->Now(); }

  const Way way_;
  std::unique_ptr<Communicator> communicator_;
  absl::Time deadline_ = absl::InfiniteFuture();  // of the phase
  absl::Duration within_ = absl::ZeroDuration();  // of kInitialising
  // How many transfers complete, at most, as far as is known.
  uint64_t expected_ = std::numeric_limits<uint64_t>::max();
  // In kReady: the library says that the other side is the reason; until
  // deadline_.
  absl::Status remote_error_;
  bool goodbye_said_ = false;
  std::function<void()> finished_;
};

}  // namespace stagecoach::transport::two_sided

#endif  // STAGECOACH_TRANSPORT_TWO_SIDED_EDGE_END_H_

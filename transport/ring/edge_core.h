#ifndef STAGECOACH_TRANSPORT_RING_EDGE_CORE_H_
#define STAGECOACH_TRANSPORT_RING_EDGE_CORE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "transport/callback_queue.h"
#include "transport/doorbell.h"
#include "transport/refusals.h"

namespace stagecoach::transport::ring {

// How one end of an edge tells the other that it leaves of its own will.
class PeerLink {
 public:
  // Without SayBye: lost.
  virtual ~PeerLink() = default;
  // Called at most once, with no lock of the edge held.
  virtual void SayBye() = 0;
};

struct EdgeContext {
  std::string name;
  Doorbell* doorbell = nullptr;  // the own endpoint's
  std::function<void(const std::string& edge, absl::Status)> on_edge_lost;
  std::shared_ptr<RefusalCounts> refusals;  // may be null
};

// What both ends of an edge have in common: a life, and callbacks that run in
// Progress().
//
//   kOpen ── peer closed or lost ──▶ kEnding ── Progress(): what had arrived
//     │                                │        is delivered, the rest fails
//     │                                ▼
//     ├── Abort(), corrupt peer ───▶ kEnded
//     ▼                                │
//   Close(), from every state ──────▶ kClosed
//
// Thread-safe. Owned by the edge object that the user holds, by the endpoint's
// table, and by received transfers; after Close() it touches neither doorbell
// nor callbacks of its own endpoint.
class EdgeCore {
 public:
  explicit EdgeCore(EdgeContext context) : context_(std::move(context)) {}
  virtual ~EdgeCore() = default;
  EdgeCore(const EdgeCore&) = delete;
  EdgeCore& operator=(const EdgeCore&) = delete;

  const std::string& name() const { return context_.name; }

  // Reads the rings, copies, runs callbacks. By one thread at a time (the
  // endpoint sees to it). Whether anything happened.
  bool Progress() SC_EXCLUDES(mu_);
  // Whatever is outstanding fails with `status` in the next Progress().
  virtual void Abort(const absl::Status& status) SC_EXCLUDES(mu_);
  // The peer is gone. If `lost` (without a goodbye), reports it at once, on
  // this thread, and before anything fails because of it.
  void PeerEnded(absl::Status status, bool lost) SC_EXCLUDES(mu_);
  // Says goodbye; outstanding operations fail on this thread. Blocks while
  // another thread is in Progress() or PeerEnded() of this edge. Afterwards no
  // callback runs.
  void Close() SC_EXCLUDES(mu_);

 protected:
  enum class State { kOpen, kEnding, kEnded, kClosed };

  // Takes what the peer wrote, and pushes callbacks; an error means that the
  // peer is corrupt.
  virtual absl::Status DrainLocked(bool* any) SC_REQUIRES(mu_) = 0;
  // Pushes a callback with end_status_ for every outstanding operation.
  virtual void FailOutstandingLocked() SC_REQUIRES(mu_) = 0;
  // One piece of work that is done outside the lock; false if there is none.
  virtual bool Work() SC_EXCLUDES(mu_) { return false; }

  bool IsOpenLocked() const SC_REQUIRES(mu_) { return state_ == State::kOpen; }
  // Nothing is delivered any more.
  bool HasEndedLocked() const SC_REQUIRES(mu_) {
    return state_ >= State::kEnded;
  }
  void BreakLocked(const absl::Status& status) SC_REQUIRES(mu_);
  // The peer's bell if it has been marked for ringing since, else null. Ring it
  // after dropping the lock.
  Doorbell* TakeRingLocked() SC_REQUIRES(mu_);
  void RingOwnBell() { context_.doorbell->Ring(); }
  absl::Status Error(absl::StatusCode code, absl::string_view message) const;

  mutable Mutex mu_;
  absl::Status end_status_ SC_GUARDED_BY(mu_);  // not OK unless kOpen
  bool ring_peer_ SC_GUARDED_BY(mu_) = false;
  // Null until the peer is known, and then for good.
  std::unique_ptr<Doorbell> peer_bell_ SC_GUARDED_BY(mu_);
  std::unique_ptr<PeerLink> link_ SC_GUARDED_BY(mu_);
  CallbackQueue callbacks_;

 private:
  void TransitionLocked(State to, const absl::Status& status) SC_REQUIRES(mu_);
  bool Drain() SC_EXCLUDES(mu_);
  void ReportLost(const absl::Status& status) SC_EXCLUDES(mu_);

  const EdgeContext context_;
  State state_ SC_GUARDED_BY(mu_) = State::kOpen;
  bool lost_reported_ SC_GUARDED_BY(mu_) = false;
};

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_EDGE_CORE_H_

#ifndef STAGECOACH_COORDINATOR_JOURNAL_H_
#define STAGECOACH_COORDINATOR_JOURNAL_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster_state.h"
#include "coordinator/event.h"

namespace stagecoach::coordinator {

// The log from which the coordinator's state can be built again: an ordered,
// durable list of events with one writer, which a newer term shuts out. Another
// store (etcd, say) is another implementation of this. Used on the controller's
// executor only. May block.
class Journal {
 public:
  virtual ~Journal() = default;
  // Called before the event takes effect. OK: it is durable, and so is every
  // event of AppendLater before it. Otherwise it must not take effect and is
  // not in the journal; a later call may succeed. kResourceExhausted: the disk
  // is full; kUnavailable: it fails.
  virtual absl::Status Append(const Event& event) = 0;
  // Keeps an event that may be lost, for it could be found out again, until the
  // next Append or Flush writes it. Events keep their order.
  virtual void AppendLater(const Event& event) = 0;
  // Errors as Append; what could not be written is kept.
  virtual absl::Status Flush() = 0;
  // Events that wait for being written.
  virtual size_t unwritten() const = 0;
  // May replace the events so far by `state`, which they made. An error leaves
  // everything as it was.
  virtual absl::Status Compact(const ClusterState& state) = 0;
};

// Keeps events for as long as the process lives.
class MemoryJournal final : public Journal {
 public:
  absl::Status Append(const Event& event) override {
    events_.push_back(event);
    return absl::OkStatus();
  }
  void AppendLater(const Event& event) override { events_.push_back(event); }
  absl::Status Flush() override { return absl::OkStatus(); }
  size_t unwritten() const override { return 0; }
  absl::Status Compact(const ClusterState& /*state*/) override {
    return absl::OkStatus();
  }
  const std::vector<Event>& events() const { return events_; }

 private:
  std::vector<Event> events_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOURNAL_H_

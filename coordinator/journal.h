#ifndef STAGECOACH_COORDINATOR_JOURNAL_H_
#define STAGECOACH_COORDINATOR_JOURNAL_H_

#include <vector>

#include "absl/status/status.h"
#include "coordinator/event.h"

namespace stagecoach::coordinator {

// The log from which the coordinator's state can be built again. Used on the
// controller's executor only.
class Journal {
 public:
  virtual ~Journal() = default;
  // Called before the event takes effect. If this fails it must not. May block.
  virtual absl::Status Append(const Event& event) = 0;
};

// Keeps events for as long as the process lives.
class MemoryJournal final : public Journal {
 public:
  absl::Status Append(const Event& event) override {
    events_.push_back(event);
    return absl::OkStatus();
  }
  const std::vector<Event>& events() const { return events_; }

 private:
  std::vector<Event> events_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOURNAL_H_

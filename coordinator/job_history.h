#ifndef STAGECOACH_COORDINATOR_JOB_HISTORY_H_
#define STAGECOACH_COORDINATOR_JOB_HISTORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "coordinator/event.h"
#include "coordinator/failure.h"

namespace stagecoach::coordinator {

// What people may want to know of one event of a job.
struct JobEventDetails {
  std::string message;
  std::vector<std::string> workers;
  Epoch epoch;
  std::optional<FailureCause> cause;
  std::vector<std::string> victims;
};

// One event of a job, as `job events` shows it. Small, for a job has one for
// each step: a step's numbers stay where they are, in JobRecord::steps.
struct JobHistoryEntry {
  int64_t revision = 0;  // of the job after the event
  absl::Time at;
  const char* kind = "";
  int64_t step = -1;
  std::shared_ptr<const JobEventDetails> details;  // null for a step
};

// The same text as one that lives for ever, of those that HistoryEntryOf gives;
// "unknown" for any other.
const char* HistoryKind(absl::string_view kind);

// The job that the event is about; null for one about a worker alone.
const std::string* JobOf(const EventBody& event);

// `event` must be about a job, whose revision it made `revision`.
JobHistoryEntry HistoryEntryOf(const Event& event, int64_t revision);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOB_HISTORY_H_

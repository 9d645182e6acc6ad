#ifndef STAGECOACH_COORDINATOR_FAILURE_H_
#define STAGECOACH_COORDINATOR_FAILURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace stagecoach::coordinator {

enum class FailureKind {
  kInvalid,
  kWorkerLost,
  kOutOfMemory,
  kInternal,
  kDrained,  // no failure: a worker was told to end, and its job is moved
};

// Where a worker's engine was when it last said so.
struct Position {
  int64_t step = -1;
  std::string action;  // "2F0"
  int32_t stage = -1;
  int32_t microbatch = -1;
  std::string waiting_for;  // of a peer; empty: it computes
};

// Why a job failed. Action, microbatch and step are empty or -1 outside a step;
// stage is -1 only if no worker had a part in it (a refused schedule).
struct FailureCause {
  FailureKind kind = FailureKind::kInternal;
  int32_t stage = -1;
  std::string worker;
  std::string action;
  int32_t microbatch = -1;
  int64_t step = -1;
  std::string message;
};

// `stage 2 (worker w2), step 37, 2F0, microbatch 0: message`.
std::string DescribeCause(const FailureCause& cause);

// What became known about one worker of a job, in order of arrival.
struct FailureReport {
  int worker = 0;     // index in the job
  bool lost = false;  // its process is gone or silent; else its own report
  FailureKind kind = FailureKind::kInternal;
  std::string message;
  std::optional<Position> position;
  int blamed = -1;  // the peer whose end or silence it saw
  absl::Time at;
};

// A worker of the job, as it is when the verdict is sought.
struct SuspectedWorker {
  std::string name;
  int32_t lowest_stage = 0;
  std::optional<Position> last_position;
  bool silent = false;  // suspect: misses heartbeats, not dead yet
};

struct FailureVerdict {
  FailureCause cause;
  int culprit = 0;
  std::vector<std::string> victims;  // the other workers, by index
};

// How long a verdict is held back for better evidence.
struct FailureGrace {
  // A report that blames a peer: until that peer itself fails or is lost.
  absl::Duration blame = absl::Seconds(1);
  // A report that blames nobody: until a loss that may be behind it is noticed.
  absl::Duration own = absl::Milliseconds(250);
};

// Finds the first cause. When a worker dies, its peers see their edges end and
// report that, often sooner than the loss itself is noticed; they are victims.
//   1. A lost worker, or one that ran out of memory or refused its input, is
//      the cause at once: the first of them.
//   2. A worker that failed by itself and blames nobody is the cause, once the
//      grace is over and nobody is silent.
//   3. Where all blame others, the end of the chain of blame is the cause, once
//      the grace is over and that worker is not silent. In a circle it is the
//      one blamed first.
// nullopt: not yet; ask again later, or with more reports. Pure.
std::optional<FailureVerdict> JudgeFailure(
    const std::vector<SuspectedWorker>& workers,
    const std::vector<FailureReport>& reports, const FailureGrace& grace,
    absl::Time now);

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_FAILURE_H_

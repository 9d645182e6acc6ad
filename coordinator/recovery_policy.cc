#include "coordinator/recovery_policy.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "job/job_spec.h"

namespace stagecoach::coordinator {
namespace {

// This failure included: how many came, one after the other, without a step
// that had not been committed before.
int64_t FailuresWithoutProgress(const JobRecord& job) {
  int64_t furthest = -1;
  int64_t failures = 0;
  const auto count = [&](int64_t steps) {
    failures = steps > furthest ? 1 : failures + 1;
    furthest = std::max(furthest, steps);
  };
  for (const RecoveryRecord& recovery : job.recoveries) {
    if (recovery.cause.kind == FailureKind::kDrained) continue;
    count(recovery.steps_before);
  }
  count(job.steps_committed());
  return failures;
}

// A journal from before the key has none.
int64_t NoProgressOf(const v1::RecoverySpec& recovery) {
  return recovery.no_progress() > 0 ? recovery.no_progress()
                                    : job::RecoverySpec().no_progress;
}

}  // namespace

RecoveryDecision DecideRecovery(const JobRecord& job,
                                const FailureCause& cause) {
  RecoveryDecision decision;
  if (cause.kind != FailureKind::kWorkerLost) return decision;
  const int64_t most = job.spec.recovery().max_failures();
  if (most == 0) return decision;
  const int64_t survived =
      std::count_if(job.recoveries.begin(), job.recoveries.end(),
                    [](const RecoveryRecord& recovery) {
                      return recovery.cause.kind != FailureKind::kDrained;
                    });
  if (survived >= most) {
    decision.words = absl::StrCat("recovery.max_failures = ", most,
                                  " is used up; a greater one, and frequent "
                                  "checkpoints, let the job survive more");
    return decision;
  }
  const int64_t stuck = FailuresWithoutProgress(job);
  const int64_t no_progress = NoProgressOf(job.spec.recovery());
  if (stuck >= no_progress) {
    int64_t furthest = job.steps_committed();
    for (const RecoveryRecord& recovery : job.recoveries) {
      furthest = std::max(furthest, recovery.steps_before);
    }
    decision.words = absl::StrCat(
        "no progress: it failed ", stuck, stuck == 1 ? " time" : " times",
        " in a row before step ", furthest,
        " was committed (recovery.no_progress = ", no_progress, ")");
    return decision;
  }
  decision.recover = true;
  decision.words = absl::StrCat(survived + 1, " of at most ", most);
  return decision;
}

}  // namespace stagecoach::coordinator

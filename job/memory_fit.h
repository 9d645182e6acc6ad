#ifndef STAGECOACH_JOB_MEMORY_FIT_H_
#define STAGECOACH_JOB_MEMORY_FIT_H_

#include <string>

#include "job/job_spec.h"
#include "job/memory_prediction.h"
#include "job/plan.h"

namespace stagecoach::job {

// A plan that cannot keep memory.limit even if every output is acknowledged at
// once.
struct OverLimit {
  int worker = 0;  // the first
  MemoryInterval interval;
  // What the prediction was made of; its schedules are the plan's.
  MemoryQuestion question;
};

// Changes of `spec` that were tried for one that keeps its memory.limit on
// every worker, also with all send budgets used: a smaller send budget, another
// schedule with the same stages on the same workers, recomputing forwards, a
// smaller microbatch with more of them (in this order: only the last changes a
// job's numbers).
// Returns the keys to set, as `--set` takes them ("pipeline.send_budget=1"), or
// "" if none of them fits. Takes up to some seconds for large shapes.
std::string ChangeThatFits(const JobSpec& spec, const JobPlan& plan,
                           const MemoryQuestion& measured);

// "worker w1 needs at least 1.20 GiB, the limit is 1.00 GiB (parameter 200 MiB,
// ...); with --set pipeline.schedule=1f1b it fits".
std::string DescribeOverLimit(const JobSpec& spec, const JobPlan& plan,
                              const std::string& worker,
                              const OverLimit& over_limit);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_MEMORY_FIT_H_

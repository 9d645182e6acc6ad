#ifndef STAGECOACH_JOB_SCHEDULE_SOURCE_H_
#define STAGECOACH_JOB_SCHEDULE_SOURCE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "job/job_spec.h"
#include "schedule/schedule.h"

namespace stagecoach::job {

// Whether `pipeline.schedule` names a file: it has a slash or a dot, which no
// kind of schedule has.
bool IsScheduleFile(absl::string_view schedule);

// Whether it is chosen once costs are measured.
bool IsAutoSchedule(absl::string_view schedule);

// V that schedule = "auto" tries, ascending: up to stages_per_worker while each
// stage gets a layer; with a given split only the one that it is for.
std::vector<int> StagesPerWorkerTried(const JobSpec& spec);

// Whether a kind can train with V stages per worker. kInvalidArgument says what
// can. "auto" takes any V: it is the most that is tried.
absl::Status CheckScheduleKind(absl::string_view kind);
absl::Status CheckStagesPerWorker(absl::string_view kind,
                                  int64_t stages_per_worker);

// The schedule of a spec before lowering: generated, or read from its file (in
// any of its forms; it may be lowered already) and compared with the spec's
// workers, stages and microbatches. kInvalidArgument names what does not fit.
absl::StatusOr<schedule::Schedule> SourceSchedule(const JobSpec& spec);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_SCHEDULE_SOURCE_H_

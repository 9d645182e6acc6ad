#ifndef STAGECOACH_JOB_OWN_STAGES_H_
#define STAGECOACH_JOB_OWN_STAGES_H_

#include <functional>

#include "absl/strings/string_view.h"
#include "job/job_spec.h"

namespace stagecoach::job {

using AddFinding =
    std::function<void(absl::string_view key, absl::string_view message)>;

// What is wrong with the keys of stages that the job brings, a plugin's or
// TorchScript's, or with such keys where it brings none.
void CheckOwnStages(const JobSpec& spec, const AddFinding& add);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_OWN_STAGES_H_

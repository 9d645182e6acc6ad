#ifndef STAGECOACH_CLIENT_OUTPUT_JOB_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_JOB_OUTPUT_H_

#include <string>

#include "client/output/json.h"
#include "stagecoach/v1/job.pb.h"

// Jobs as JSON documents (docs/cli.md has the contract) and as text for people.
// Pure functions.
namespace stagecoach::client {

// "RUNNING"; a state that this version does not know by its number.
std::string JobStateName(v1::JobState state);
// "worker_lost".
std::string FailureKindName(v1::FailureKind kind);

Json StepJson(const v1::StepResult& step);
Json CauseJson(const v1::FailureCause& cause);
// The document of `run`, `job show`, `job wait`, `job cancel`.
Json JobJson(const v1::Job& job);
// {"jobs": [{id state reason ...}]}.
Json JobListJson(const v1::ListJobsResponse& response);

// What `run` prints at the end: losses, settings, workers, stages, releases.
std::string JobText(const v1::Job& job);
std::string JobListText(const v1::ListJobsResponse& response);

// "512.00 MiB of outputs sent; 512.00 MiB released after acknowledgement, 0 B
// retained; at most 3.00 MiB held at once by a worker".
std::string ReleaseSentence(const v1::Job& job);

// Why a job failed, as one sentence with stage, worker, step and action, and a
// second one that names the victims.
std::string FailureText(const v1::Job& job);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_JOB_OUTPUT_H_

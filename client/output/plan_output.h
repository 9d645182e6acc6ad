#ifndef STAGECOACH_CLIENT_OUTPUT_PLAN_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_PLAN_OUTPUT_H_

#include <string>

#include "client/output/json.h"
#include "job/job_spec.h"
#include "job/plan.h"

// A job's plan as a JSON document and as text. Pure functions. Workers have no
// names before a job is placed: they are called w0, w1, ... by their position,
// which are their names under `run --local`.
namespace stagecoach::client {

Json PlanJson(const job::JobSpec& spec, const job::JobPlan& plan);
std::string PlanText(const job::JobSpec& spec, const job::JobPlan& plan);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_PLAN_OUTPUT_H_

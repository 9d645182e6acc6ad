#include "job/plan.h"

#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "job/model_shape.h"
#include "job/schedule_source.h"
#include "schedule/lowering.h"

namespace stagecoach::job {
namespace {

absl::StatusOr<schedule::Schedule> LoweredSchedule(const JobSpec& spec) {
  SC_ASSIGN_OR_RETURN(schedule::Schedule source, SourceSchedule(spec));
  if (source.lowered()) return source;
  schedule::LoweringOptions options;
  options.send_budget = static_cast<int>(spec.pipeline.send_budget);
  options.tied_embeddings = spec.model.tie_embeddings;
  return schedule::Lower(source, options);
}

}  // namespace

absl::StatusOr<JobPlan> PlanJob(const JobSpec& spec) {
  JobPlan plan;
  SC_ASSIGN_OR_RETURN(plan.stages, SplitLayers(spec.model.layers, spec.stages(),
                                               spec.pipeline.split));
  SC_ASSIGN_OR_RETURN(plan.schedule, LoweredSchedule(spec));
  schedule::VerifyOptions verify;
  verify.tied_embeddings = spec.model.tie_embeddings;
  plan.verdict = schedule::Verify(plan.schedule, verify);
  SC_RETURN_IF_ERROR(plan.verdict.ToStatus());
  SC_ASSIGN_OR_RETURN(plan.simulated, schedule::Simulate(plan.schedule));
  plan.boundary = BoundaryOf(spec);
  plan.target_tokens_per_step = spec.training.microbatches *
                                spec.training.microbatch_size *
                                spec.data.sequence_length;
  return plan;
}

}  // namespace stagecoach::job

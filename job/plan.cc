#include "job/plan.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "job/boundary.h"
#include "job/model_shape.h"
#include "job/schedule_source.h"
#include "schedule/auto.h"
#include "schedule/evaluation.h"
#include "schedule/lowering.h"
#include "schedule/partition.h"

namespace stagecoach::job {
namespace {

// Of a hand-over between two processes of one machine, on top of the copy:
// waking the receiver (benchmarks measured 17 to 23 microseconds).
constexpr double kHandOverSeconds = 20e-6;

absl::StatusOr<schedule::Schedule> LoweredSchedule(const JobSpec& spec) {
  SC_ASSIGN_OR_RETURN(schedule::Schedule source, SourceSchedule(spec));
  if (source.lowered()) return source;
  schedule::LoweringOptions options;
  options.send_budget = static_cast<int>(spec.pipeline.send_budget);
  options.tied_embeddings = SumsTiedGradients(spec);
  return schedule::Lower(source, options);
}

absl::StatusOr<schedule::SimulateResult> SimulateSplit(
    const JobSpec& spec, const ModelProfile* profile,
    const schedule::Schedule& schedule,
    const std::vector<StageLayers>& stages) {
  return schedule::Simulate(schedule, SimulationOf(spec, profile, stages));
}

// With `schedule` fixed: the split, and what it gains.
absl::Status SplitAndSimulate(const JobSpec& spec, const ModelProfile* profile,
                              JobPlan* plan) {
  const int64_t stages = plan->schedule.stages();
  SC_ASSIGN_OR_RETURN(plan->stages, ChooseSplit(spec, profile, stages));
  SC_ASSIGN_OR_RETURN(
      plan->simulated,
      SimulateSplit(spec, profile, plan->schedule, plan->stages));
  if (profile != nullptr && spec.pipeline.split.empty()) {
    SC_ASSIGN_OR_RETURN(const std::vector<StageLayers> even,
                        ChooseSplit(spec, nullptr, stages));
    SC_ASSIGN_OR_RETURN(schedule::SimulateResult simulated,
                        SimulateSplit(spec, profile, plan->schedule, even));
    plan->even_split_seconds = simulated.makespan;
    // The cheapest largest stage is not always the shortest step.
    if (simulated.makespan <= plan->simulated.makespan) {
      plan->stages = even;
      plan->simulated = std::move(simulated);
    }
  }
  plan->simulation = SimulationOf(spec, profile, plan->stages);
  return absl::OkStatus();
}

// K that schedule = "auto" tries: up to the spec's.
std::vector<int> SendBudgetsTried(const JobSpec& spec) {
  std::vector<int> tried;
  for (int64_t k = 1; k < spec.pipeline.send_budget; k *= 2) {
    tried.push_back(static_cast<int>(k));
  }
  tried.push_back(static_cast<int>(spec.pipeline.send_budget));
  return tried;
}

// The schedule with the shortest simulated step, over V, K and the generators.
absl::Status ChooseSchedule(const JobSpec& spec, const ModelProfile& profile,
                            JobPlan* plan) {
  schedule::AutoOptions options;
  options.workers = static_cast<int>(spec.pipeline.workers);
  options.microbatches = static_cast<int>(spec.training.microbatches);
  options.send_budgets = SendBudgetsTried(spec);
  options.tied_embeddings = SumsTiedGradients(spec);
  for (const int v : StagesPerWorkerTried(spec)) {
    SC_ASSIGN_OR_RETURN(
        const std::vector<StageLayers> stages,
        ChooseSplit(spec, &profile, int64_t{options.workers} * v));
    const schedule::SimulateOptions simulation =
        SimulationOf(spec, &profile, stages);
    options.profiles.resize(static_cast<size_t>(v));
    options.profiles.back().costs = simulation.costs;
    options.profiles.back().bytes = simulation.bytes;
    options.latency = simulation.latency;
    options.bandwidth = simulation.bandwidth;
  }
  SC_ASSIGN_OR_RETURN(schedule::AutoChoice choice,
                      schedule::ChooseSchedule(options));
  plan->schedule = std::move(choice.schedule);
  plan->schedules_tried = choice.candidates.size();
  return absl::OkStatus();
}

absl::StatusOr<schedule::Schedule> ProvisionalSchedule(const JobSpec& spec) {
  JobSpec stand_in = spec;
  stand_in.pipeline.schedule = "1f1b";
  stand_in.pipeline.stages_per_worker = StagesPerWorkerTried(spec).front();
  if (stand_in.pipeline.stages_per_worker > 1) {
    stand_in.pipeline.schedule = "interleaved";
  }
  return LoweredSchedule(stand_in);
}

}  // namespace

absl::StatusOr<std::vector<StageLayers>> ChooseSplit(
    const JobSpec& spec, const ModelProfile* profile, int64_t stages) {
  std::vector<int64_t> split = spec.pipeline.split;
  if (split.empty() && profile != nullptr && stages <= spec.model.layers) {
    schedule::PartitionOptions options;
    options.costs = LayerCosts(*profile);
    options.stages = static_cast<int>(stages);
    SC_ASSIGN_OR_RETURN(const schedule::Partition partition,
                        schedule::PartitionLayers(options));
    split.assign(partition.layers.begin(), partition.layers.end());
  }
  return SplitLayers(spec.model.layers, stages, split);
}

schedule::SimulateOptions SimulationOf(const JobSpec& spec,
                                       const ModelProfile* profile,
                                       const std::vector<StageLayers>& stages) {
  schedule::SimulateOptions options;
  if (profile == nullptr) return options;
  const int64_t bytes = BoundaryOf(spec).bytes();
  options.costs = StageCostsOf(*profile, stages);
  options.bytes = StageBytesOf(*profile, stages, bytes);
  options.latency = kHandOverSeconds;
  if (profile->copy_seconds > 0) {
    options.bandwidth = static_cast<double>(bytes) / profile->copy_seconds;
  }
  return options;
}

MemoryQuestion MemoryQuestionOf(
    const JobSpec& spec, const JobPlan& plan,
    const std::vector<WorkerMemoryProfile>& workers) {
  MemoryQuestion question;
  question.schedule = &plan.schedule;
  if (plan.evaluation.workers > 0) question.evaluation = &plan.evaluation;
  question.release = spec.pipeline.release;
  question.in_place = MayProduceInPlace(spec.pipeline.transport);
  question.checkpoints = !spec.checkpoint.directory.empty();
  if (spec.recovery.neighbour_copy) {
    question.copies =
        static_cast<int>(std::min<int64_t>(spec.training.steps, 2));
  }
  question.profiles = workers;
  question.receive_pool_bytes = ReceivePoolBytes(
      plan.schedule, plan.boundary.bytes(),
      workers.empty() ? 0 : workers.front().tied_gradient_bytes);
  return question;
}

absl::StatusOr<JobPlan> PlanJob(const JobSpec& spec,
                                const ModelProfile* profile) {
  JobPlan plan;
  plan.measured = profile != nullptr;
  plan.provisional = !plan.measured && NeedsProfile(spec);
  if (!IsAutoSchedule(spec.pipeline.schedule)) {
    SC_ASSIGN_OR_RETURN(plan.schedule, LoweredSchedule(spec));
  } else if (profile == nullptr) {
    SC_ASSIGN_OR_RETURN(plan.schedule, ProvisionalSchedule(spec));
  } else {
    SC_RETURN_IF_ERROR(ChooseSchedule(spec, *profile, &plan));
  }
  schedule::VerifyOptions verify;
  verify.tied_embeddings = SumsTiedGradients(spec);
  plan.verdict = schedule::Verify(plan.schedule, verify);
  SC_RETURN_IF_ERROR(plan.verdict.ToStatus());
  if (!spec.evaluation.path.empty()) {
    SC_ASSIGN_OR_RETURN(
        plan.evaluation,
        schedule::EvaluationSchedule(
            plan.schedule, static_cast<int>(spec.evaluation.microbatches)));
  }
  SC_RETURN_IF_ERROR(SplitAndSimulate(spec, profile, &plan));
  plan.boundary = BoundaryOf(spec);
  if (profile != nullptr && !profile->workers.empty()) {
    SC_ASSIGN_OR_RETURN(plan.memory, PredictMemory(MemoryQuestionOf(
                                         spec, plan, profile->workers)));
  }
  plan.target_tokens_per_step =
      spec.training.RowsPerStep() * spec.data.TargetsPerRow();
  return plan;
}

}  // namespace stagecoach::job

#include "job/memory_fit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bytes.h"
#include "job/model_profile.h"
#include "job/recompute.h"
#include "job/schedule_source.h"
#include "schedule/generator.h"

namespace stagecoach::job {
namespace {

// The spec with its plan's stages and schedule written out.
JobSpec WithPlansStages(const JobSpec& spec, const JobPlan& plan) {
  JobSpec fixed = spec;
  fixed.pipeline.stages_per_worker = plan.schedule.stages_per_worker;
  fixed.pipeline.split.clear();
  for (const StageLayers& stage : plan.stages) {
    fixed.pipeline.split.push_back(stage.end - stage.begin);
  }
  if (IsAutoSchedule(fixed.pipeline.schedule)) {
    fixed.pipeline.schedule = plan.schedule.kind;
  }
  return fixed;
}

std::vector<JobSpec> WithSmallerBudgets(const JobSpec& from) {
  std::vector<JobSpec> candidates;
  for (int64_t k = from.pipeline.send_budget; k > 1;) {
    k /= 2;
    candidates.push_back(from);
    candidates.back().pipeline.send_budget = k;
  }
  return candidates;
}

std::vector<JobSpec> WithOtherSchedules(const JobSpec& from) {
  std::vector<JobSpec> candidates;
  for (const schedule::Generator& kind : schedule::Generators()) {
    const std::string name(kind.kind);
    const int64_t stages = from.pipeline.stages_per_worker;
    if (!kind.trains || name == from.pipeline.schedule ||
        !CheckStagesPerWorker(name, stages).ok()) {
      continue;
    }
    candidates.push_back(from);
    candidates.back().pipeline.schedule = name;
    for (JobSpec& smaller : WithSmallerBudgets(candidates.back())) {
      candidates.push_back(std::move(smaller));
    }
  }
  return candidates;
}

// The one that costs less time first.
std::vector<JobSpec> WithRecompute(const JobSpec& from) {
  if (from.memory.recompute != JobSpec().memory.recompute) return {};
  const std::vector<int64_t>& split = from.pipeline.split;
  std::vector<JobSpec> candidates;
  // With one layer in a stage it would be that one, and stages that the job
  // brings cannot.
  const bool in_part = *std::min_element(split.begin(), split.end()) > 1 &&
                       !from.model.brings_stages();
  for (const char* recompute : {"every-2", "full"}) {
    if (!in_part && recompute[0] == 'e') continue;
    candidates.push_back(from);
    candidates.back().memory.recompute = recompute;
    for (JobSpec& other : WithOtherSchedules(candidates.back())) {
      candidates.push_back(std::move(other));
    }
  }
  return candidates;
}

// As many samples per step in smaller pieces, where all pieces are alike.
std::vector<JobSpec> WithSmallerMicrobatches(const JobSpec& from) {
  std::vector<JobSpec> candidates;
  if (from.training.last_microbatch_size > 0) return candidates;
  const int64_t whole = from.training.microbatch_size;
  for (int64_t size = whole / 2; size >= 1; --size) {
    if (whole % size != 0) continue;
    candidates.push_back(from);
    candidates.back().training.microbatch_size = size;
    candidates.back().training.microbatches *= whole / size;
  }
  return candidates;
}

// How to ask for `candidate`, given `spec`.
std::string SettingsOf(const JobSpec& spec, const JobSpec& candidate) {
  std::string settings;
  const auto set = [&settings](const auto& before, const auto& after,
                               absl::string_view key) {
    if (before == after) return;
    absl::StrAppend(&settings, settings.empty() ? "" : " ", "--set ", key, "=",
                    after);
  };
  set(spec.pipeline.schedule, candidate.pipeline.schedule, "pipeline.schedule");
  set(spec.pipeline.stages_per_worker, candidate.pipeline.stages_per_worker,
      "pipeline.stages_per_worker");
  set(spec.pipeline.send_budget, candidate.pipeline.send_budget,
      "pipeline.send_budget");
  set(spec.training.microbatch_size, candidate.training.microbatch_size,
      "training.microbatch_size");
  set(spec.training.microbatches, candidate.training.microbatches,
      "training.microbatches");
  set(spec.memory.recompute, candidate.memory.recompute, "memory.recompute");
  // What was chosen by measured times might be chosen otherwise then.
  if (NeedsProfile(spec)) {
    absl::StrAppend(&settings, " --set pipeline.split=[",
                    absl::StrJoin(candidate.pipeline.split, ","), "]");
  }
  return settings;
}

CategoryBytes Scaled(CategoryBytes bytes, double factor) {
  const auto scale = [factor](int64_t value) {
    return static_cast<int64_t>(static_cast<double>(value) * factor);
  };
  bytes.total = scale(bytes.total);
  for (int64_t& value : bytes.categories) value = scale(value);
  return bytes;
}

// What is kept follows the microbatch's size. What is needed beside it for a
// moment is taken to stay: much of it (gradients of weights) does.
StageMemory Scaled(const StageMemory& stage, double factor) {
  StageMemory scaled = stage;
  scaled.retained = Scaled(stage.retained, factor);
  scaled.output = Scaled(stage.output, factor);
  scaled.backward_output = Scaled(stage.backward_output, factor);
  scaled.backward_input_output = Scaled(stage.backward_input_output, factor);
  scaled.kept_for_weight = Scaled(stage.kept_for_weight, factor);
  scaled.evaluation_output = Scaled(stage.evaluation_output, factor);
  scaled.forward_peak = stage.forward_peak -
                        (stage.retained - scaled.retained) -
                        (stage.output - scaled.output);
  return scaled;
}

// With its forward run again before the backward: at most what both took.
StageMemory RecomputedWhole(const StageMemory& stage) {
  StageMemory recomputed = stage;
  recomputed.retained = CategoryBytes();
  recomputed.keeps_input = true;
  for (CategoryBytes* peak :
       {&recomputed.backward_peak, &recomputed.backward_input_peak}) {
    *peak += stage.retained;
    peak->RaiseTo(stage.forward_peak);
  }
  return recomputed;
}

// With some of its `layers` run again: each gives up what one layer keeps, at
// least `of_layer` (less its input), but for the one that runs: in its forward,
// and again for its own backward.
StageMemory RecomputedInPart(const StageMemory& stage, int64_t layers,
                             const Recompute& recompute,
                             const CategoryBytes& of_layer) {
  const int64_t groups = (layers - 1) / recompute.every + 1;
  const auto again = static_cast<double>(groups);
  StageMemory recomputed = stage;
  recomputed.retained = stage.retained - Scaled(of_layer, again);
  recomputed.forward_peak = stage.forward_peak - Scaled(of_layer, again - 1);
  recomputed.keeps_input = true;
  const CategoryBytes one =
      Scaled(stage.retained, 1 / static_cast<double>(layers));
  for (CategoryBytes* peak :
       {&recomputed.backward_peak, &recomputed.backward_input_peak,
        &recomputed.backward_weight_peak}) {
    *peak += one + of_layer;
  }
  return recomputed;
}

// What one layer of the model keeps beside its input, at least: layers are
// alike, and what stages keep beyond them (a loss) only adds.
CategoryBytes LayerAtLeast(const JobPlan& plan,
                           const MemoryQuestion& measured) {
  const int64_t input = plan.boundary.bytes();
  CategoryBytes least;
  bool first = true;
  for (const WorkerMemoryProfile& profile : measured.profiles) {
    for (const StageMemory& stage : profile.stages) {
      const StageLayers& layers = plan.stages[stage.stage.index()];
      const CategoryBytes one = Scaled(
          stage.retained, 1 / static_cast<double>(layers.end - layers.begin));
      if (first || one.total < least.total) least = one;
      first = false;
    }
  }
  least.Add(MemoryCategory::kActivation,
            -std::min(input, least.Of(MemoryCategory::kActivation)));
  return least;
}

void ApplyRecompute(const JobSpec& candidate, const JobPlan& plan,
                    MemoryQuestion* question) {
  const CategoryBytes of_layer = LayerAtLeast(plan, *question);
  for (WorkerMemoryProfile& profile : question->profiles) {
    for (StageMemory& stage : profile.stages) {
      const Recompute recompute = RecomputeOf(candidate, stage.stage);
      const StageLayers& layers = plan.stages[stage.stage.index()];
      if (recompute.full) {
        stage = RecomputedWhole(stage);
      } else if (recompute.every > 0) {
        stage = RecomputedInPart(stage, layers.end - layers.begin, recompute,
                                 of_layer);
      }
    }
  }
}

bool Fits(const JobSpec& spec, const JobPlan& plan,
          const MemoryQuestion& measured, const JobSpec& candidate) {
  const auto other = PlanJob(candidate, /*profile=*/nullptr);
  if (!other.ok() || other->schedule.placement != plan.schedule.placement) {
    return false;
  }
  MemoryQuestion question = measured;
  question.schedule = &other->schedule;
  question.evaluation =
      other->evaluation.workers > 0 ? &other->evaluation : nullptr;
  const double factor =
      static_cast<double>(candidate.training.microbatch_size) /
      static_cast<double>(spec.training.microbatch_size);
  for (WorkerMemoryProfile& profile : question.profiles) {
    if (factor == 1) break;
    for (StageMemory& stage : profile.stages) stage = Scaled(stage, factor);
  }
  if (candidate.memory.recompute != spec.memory.recompute) {
    ApplyRecompute(candidate, plan, &question);
  }
  question.receive_pool_bytes =
      ReceivePoolBytes(other->schedule, other->boundary.bytes(),
                       question.profiles.front().tied_gradient_bytes);
  const auto intervals = PredictMemory(question);
  if (!intervals.ok()) return false;
  return std::all_of(intervals->begin(), intervals->end(),
                     [&spec](const MemoryInterval& interval) {
                       return interval.high.total <= spec.memory.limit_bytes;
                     });
}

std::string CategoriesText(const CategoryBytes& bytes) {
  std::vector<std::string> parts;
  for (int i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (bytes.Of(category) == 0) continue;
    parts.push_back(absl::StrCat(MemoryCategoryName(category), " ",
                                 FormatByteSize(bytes.Of(category))));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string ChangeThatFits(const JobSpec& spec, const JobPlan& plan,
                           const MemoryQuestion& measured) {
  const JobSpec present = WithPlansStages(spec, plan);
  std::vector<JobSpec> candidates = WithSmallerBudgets(present);
  const auto add = [&candidates](std::vector<JobSpec> more) {
    for (JobSpec& candidate : more) candidates.push_back(std::move(candidate));
  };
  add(WithOtherSchedules(present));
  add(WithRecompute(present));
  const std::vector<JobSpec> smaller = WithSmallerMicrobatches(present);
  add(smaller);
  for (const JobSpec& size : smaller) add(WithOtherSchedules(size));
  for (const JobSpec& candidate : candidates) {
    if (!Fits(spec, plan, measured, candidate)) continue;
    return SettingsOf(spec, candidate);
  }
  return "";
}

std::string DescribeOverLimit(const JobSpec& spec, const JobPlan& plan,
                              const std::string& worker,
                              const OverLimit& over_limit) {
  const std::string change = ChangeThatFits(spec, plan, over_limit.question);
  return absl::StrCat(
      "worker ", worker, " needs at least ",
      FormatByteSize(over_limit.interval.low.total), " (",
      over_limit.interval.low.total, " bytes) and memory.limit is ",
      FormatByteSize(spec.memory.limit_bytes), " (", spec.memory.limit_bytes,
      " bytes); its peaks are ", CategoriesText(over_limit.interval.low), "; ",
      change.empty()
          ? std::string("no other schedule, send budget or microbatch size of "
                        "this job fits: use more pipeline.workers or a larger "
                        "memory.limit")
          : absl::StrCat("it fits with ", change));
}

}  // namespace stagecoach::job

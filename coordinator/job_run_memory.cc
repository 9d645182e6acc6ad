// What the workers' memory will be, by what one microbatch took on each.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status.h"
#include "coordinator/job_run.h"
#include "job/memory_prediction.h"
#include "job/memory_proto.h"

namespace stagecoach::coordinator {
namespace {

// Of two plans that a job has run, each figure the greater one: peaks are of
// the whole placement.
void Raise(const std::vector<v1::MemoryInterval>& earlier,
           std::vector<job::MemoryInterval>* intervals) {
  if (earlier.size() != intervals->size()) return;
  for (size_t i = 0; i < earlier.size(); ++i) {
    const auto before = job::FromProto(earlier[i]);
    if (!before.ok()) continue;
    (*intervals)[i].low.RaiseTo(before->low);
    (*intervals)[i].high.RaiseTo(before->high);
  }
}

}  // namespace

absl::StatusOr<std::optional<job::MemoryQuestion>> JobRun::QuestionOfMemory(
    int* culprit) const {
  job::MemoryQuestion question;
  question.schedule = &planned_->plan.schedule;
  if (planned_->plan.evaluation.workers > 0) {
    question.evaluation = &planned_->plan.evaluation;
  }
  question.release = planned_->spec.pipeline.release;
  question.in_place = job::MayProduceInPlace(planned_->spec.pipeline.transport);
  question.checkpoints = !planned_->spec.checkpoint.directory.empty();
  if (planned_->spec.recovery.neighbour_copy) {
    const int64_t steps = planned_->spec.training.steps - planned_->first_step;
    question.copies = static_cast<int>(std::min<int64_t>(steps, 2));
  }
  question.receive_pool_bytes = receive_pool_bytes_;
  for (size_t i = 0; i < memory_profiles_.size(); ++i) {
    // A worker that does not account for its bytes says nothing.
    if (!memory_profiles_[i].has_value()) return std::nullopt;
    *culprit = static_cast<int>(i);
    SC_ASSIGN_OR_RETURN(job::WorkerMemoryProfile profile,
                        job::FromProto(*memory_profiles_[i]));
    question.profiles.push_back(std::move(profile));
  }
  return question;
}

std::optional<job::MemoryQuestion> JobRun::MemoryMeasured() const {
  int culprit = 0;
  auto question = QuestionOfMemory(&culprit);
  return question.ok() ? *std::move(question) : std::nullopt;
}

absl::Status JobRun::CheckMemory(const PlannedJob& other) const {
  std::optional<job::MemoryQuestion> question = MemoryMeasured();
  const int64_t limit = planned_->spec.memory.limit_bytes;
  if (!question.has_value() || limit == 0) return absl::OkStatus();
  question->schedule = &other.plan.schedule;
  question->receive_pool_bytes =
      job::ReceivePoolBytes(other.plan.schedule, other.plan.boundary.bytes(),
                            question->profiles.front().tied_gradient_bytes);
  SC_ASSIGN_OR_RETURN(const std::vector<job::MemoryInterval> intervals,
                      job::PredictMemory(*question));
  for (size_t i = 0; i < intervals.size(); ++i) {
    const int64_t low = intervals[i].low.total;
    if (low <= limit) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", other.plan.schedule.kind, " needs at least ",
                     FormatByteSize(low), " on worker ", members_[i].name,
                     ", and memory.limit is ", FormatByteSize(limit)));
  }
  return absl::OkStatus();
}

absl::Status JobRun::PredictMemory(Output* output) {
  SC_ASSIGN_OR_RETURN(std::optional<job::MemoryQuestion> question,
                      QuestionOfMemory(&output->culprit));
  if (!question.has_value()) return absl::OkStatus();
  SC_ASSIGN_OR_RETURN(std::vector<job::MemoryInterval> intervals,
                      job::PredictMemory(*question));
  const int64_t limit = planned_->spec.memory.limit_bytes;
  for (size_t i = 0; limit > 0 && i < intervals.size(); ++i) {
    if (intervals[i].low.total <= limit) continue;
    output->over_limit =
        job::OverLimit{static_cast<int>(i), intervals[i], *std::move(question)};
    over_limit_ = true;
    break;
  }
  Raise(predicted_, &intervals);
  MemoryPredicted event;
  event.job_id = job_id_;
  for (const job::MemoryInterval& interval : intervals) {
    job::ToProto(interval, &event.workers.emplace_back());
  }
  predicted_ = event.workers;
  output->events.push_back(std::move(event));
  return absl::OkStatus();
}

}  // namespace stagecoach::coordinator

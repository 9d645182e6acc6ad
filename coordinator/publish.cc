#include "coordinator/publish.h"

#include <algorithm>
#include <string>

namespace stagecoach::coordinator {
namespace {

void ToProto(const FailureCause& cause, v1::FailureCause* proto) {
  proto->set_kind(coordinator::ToProto(cause.kind));
  proto->set_stage(cause.stage);
  proto->set_worker(cause.worker);
  proto->set_action(cause.action);
  proto->set_microbatch(cause.microbatch);
  proto->set_step(cause.step);
  proto->set_message(cause.message);
}

void ToProto(const StepRecord& step, v1::StepResult* proto) {
  proto->set_step(step.step);
  proto->set_loss(step.loss);
  proto->set_grad_norm(step.grad_norm);
  proto->set_learning_rate(step.learning_rate);
  proto->set_seconds(step.seconds);
  proto->set_compute_seconds(step.compute_seconds);
  proto->set_tokens_per_second(step.tokens_per_second);
  proto->set_skipped(step.skipped);
  if (step.evaluation_loss.has_value()) {
    proto->set_evaluation_loss(*step.evaluation_loss);
  }
}

// Of the present placement, since that is what is known of its workers.
double ComputeSeconds(const JobRecord& job) {
  double seconds = 0;
  for (const StepRecord& step : job.steps) {
    if (step.step >= job.begin_step) seconds += step.compute_seconds;
  }
  return seconds;
}

double TotalSeconds(const JobRecord& job, absl::Time now) {
  if (job.epoch == Epoch()) return 0;
  const absl::Time end = IsFinished(job.state) ? job.finished : now;
  // The calendar may have been set back meanwhile.
  return std::max(0.0, absl::ToDoubleSeconds(end - job.placed));
}

void MeasuredToProto(const v1::WorkerMemory& memory,
                     v1::BytesByCategory* proto) {
  proto->set_total(memory.allocated_bytes().peak());
  for (const v1::CategoryBytes& category : memory.categories()) {
    proto->add_categories(category.bytes().peak());
  }
}

void ToProto(const RecoveryRecord& recovery, const JobRecord& job,
             absl::Time now, v1::JobRecovery* proto) {
  ToProto(recovery.cause, proto->mutable_cause());
  for (const std::string& victim : recovery.victims) {
    proto->add_victims(victim);
  }
  proto->set_unix_microseconds(absl::ToUnixMicros(recovery.failed));
  proto->set_steps_before(recovery.steps_before);
  proto->set_step(recovery.step);
  proto->set_steps_redone(recovery.steps_redone());
  const absl::Time end = IsFinished(job.state) ? job.finished : now;
  // The calendar may have been set back meanwhile.
  proto->set_seconds_lost(
      std::max(0.0, absl::ToDoubleSeconds(std::min(recovery.caught_up, end) -
                                          recovery.failed)));
}

void WorkersToProto(const JobRecord& job, v1::Job* proto) {
  const double span = ComputeSeconds(job);
  for (size_t i = 0; i < job.workers.size(); ++i) {
    const JobWorkerRecord& worker = job.workers[i];
    v1::JobWorker* entry = proto->add_workers();
    entry->set_worker(worker.name);
    for (size_t stage = 0; stage < job.stages.size(); ++stage) {
      if (job.stages[stage].worker == static_cast<int32_t>(i)) {
        entry->add_stages(static_cast<int32_t>(stage));
      }
    }
    entry->set_receive_pool_bytes(worker.receive_pool_bytes);
    if (worker.memory.has_value()) {
      entry->set_measured_peak_bytes(worker.memory->allocated_bytes().peak());
      entry->set_outputs_held_peak_bytes(
          worker.memory->outputs_held_peak_bytes());
      MeasuredToProto(*worker.memory, entry->mutable_measured());
      *entry->mutable_edges() = worker.memory->edges();
      if (worker.memory->has_link()) {
        *entry->mutable_link() = worker.memory->link();
      }
    }
    if (worker.predicted) *entry->mutable_predicted() = *worker.predicted;
    const double busy = static_cast<double>(worker.busy_nanoseconds) * 1e-9;
    if (span > 0) entry->set_idle_ratio(std::max(0.0, 1 - busy / span));
  }
}

// What the stage's worker said about it, if it did.
const v1::StageMemory* MemoryOf(const JobWorkerRecord& worker, int32_t stage) {
  if (!worker.memory.has_value()) return nullptr;
  for (const v1::StageMemory& memory : worker.memory->stages()) {
    if (memory.stage() == stage) return &memory;
  }
  return nullptr;
}

void StagesToProto(const JobRecord& job, v1::Job* proto) {
  for (size_t i = 0; i < job.stages.size(); ++i) {
    const StagePlan& stage = job.stages[i];
    const int32_t index = static_cast<int32_t>(i);
    v1::JobStage* entry = proto->add_stages();
    entry->set_stage(index);
    entry->set_layer_begin(stage.layer_begin);
    entry->set_layer_end(stage.layer_end);
    entry->set_output_bytes(stage.output_bytes);
    const size_t worker = static_cast<size_t>(stage.worker);
    if (worker >= job.workers.size()) continue;  // not placed yet
    entry->set_worker(job.workers[worker].name);
    const v1::StageMemory* memory = MemoryOf(job.workers[worker], index);
    if (memory != nullptr) *entry->mutable_memory() = *memory;
  }
}

v1::WorkerState PublishedState(const WorkerRecord& worker) {
  if (worker.dead) return v1::WORKER_STATE_DEAD;
  if (worker.suspect) return v1::WORKER_STATE_SUSPECT;
  if (!worker.job_id.empty()) return v1::WORKER_STATE_BUSY;
  return v1::WORKER_STATE_IDLE;
}

}  // namespace

v1::JobState PublishedState(const JobRecord& job) {
  switch (job.state) {
    case JobState::kQueued:
      return v1::JOB_STATE_QUEUED;
    case JobState::kPlanning:
      return v1::JOB_STATE_PLANNING;
    case JobState::kPlacing:
      return v1::JOB_STATE_PLACING;
    case JobState::kRunning:
      return v1::JOB_STATE_RUNNING;
    case JobState::kFailing:
      return job.transport.empty() ? v1::JOB_STATE_PLACING
                                   : v1::JOB_STATE_RUNNING;
    case JobState::kRecovering:
      return v1::JOB_STATE_RECOVERING;
    case JobState::kCancelling:
      return v1::JOB_STATE_CANCELLING;
    case JobState::kSucceeded:
      return v1::JOB_STATE_SUCCEEDED;
    case JobState::kFailed:
      return v1::JOB_STATE_FAILED;
    case JobState::kCancelled:
      return v1::JOB_STATE_CANCELLED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

v1::FailureKind ToProto(FailureKind kind) {
  switch (kind) {
    case FailureKind::kInvalid:
      return v1::FAILURE_KIND_INVALID;
    case FailureKind::kWorkerLost:
    case FailureKind::kDrained:
      return v1::FAILURE_KIND_WORKER_LOST;
    case FailureKind::kOutOfMemory:
      return v1::FAILURE_KIND_OUT_OF_MEMORY;
    case FailureKind::kInternal:
      return v1::FAILURE_KIND_INTERNAL;
  }
  return v1::FAILURE_KIND_UNSPECIFIED;
}

FailureKind FromProto(v1::FailureKind kind) {
  switch (kind) {
    case v1::FAILURE_KIND_INVALID:
      return FailureKind::kInvalid;
    case v1::FAILURE_KIND_WORKER_LOST:
      return FailureKind::kWorkerLost;
    case v1::FAILURE_KIND_OUT_OF_MEMORY:
      return FailureKind::kOutOfMemory;
    default:
      return FailureKind::kInternal;
  }
}

Position FromProto(const v1::Position& position) {
  Position result;
  result.step = position.step();
  result.action = position.action();
  result.stage = position.stage();
  result.microbatch = position.microbatch();
  result.waiting_for = position.waiting_for();
  return result;
}

void ToProto(const JobRecord& job, const JobView& view, absl::Time now,
             v1::Job* proto) {
  proto->set_id(job.id);
  proto->set_name(job.spec.name());
  proto->set_state(PublishedState(job));
  proto->set_reason(job.reason);
  proto->set_schedule(job.planned ? job.schedule
                                  : job.spec.pipeline().schedule());
  proto->set_transport(job.transport.empty() ? job.spec.pipeline().transport()
                                             : job.transport);
  for (const std::string& edge : job.edges) proto->add_edges(edge);
  proto->set_release(job.spec.pipeline().release());
  proto->set_total_seconds(TotalSeconds(job, now));
  proto->set_parameters_sha256(job.parameters_sha256);
  if (job.evaluation_loss.has_value()) {
    proto->set_evaluation_loss(*job.evaluation_loss);
  }
  proto->set_epoch(job.epoch.value());
  proto->set_revision(job.revision);
  if (view.spec) *proto->mutable_spec() = job.spec;
  const int64_t end = std::min(static_cast<int64_t>(job.steps.size()),
                               view.first_step + view.max_steps);
  for (int64_t step = view.first_step; step < end; ++step) {
    ToProto(job.steps[static_cast<size_t>(step)], proto->add_steps());
  }
  proto->set_first_step(job.first_step);
  if (!job.checkpoint_path.empty() || !job.checkpoint_error.empty()) {
    v1::JobCheckpoint* checkpoint = proto->mutable_checkpoint();
    checkpoint->set_step(job.checkpoint_step);
    checkpoint->set_path(job.checkpoint_path);
    checkpoint->set_error(job.checkpoint_error);
    checkpoint->set_failed_step(job.failed_checkpoint_step);
  }
  for (const RecoveryRecord& recovery : job.recoveries) {
    ToProto(recovery, job, now, proto->add_recoveries());
  }
  WorkersToProto(job, proto);
  if (view.stages) StagesToProto(job, proto);
  if (job.cause.has_value() && IsFinished(job.state)) {
    ToProto(*job.cause, proto->mutable_cause());
    for (const std::string& victim : job.victims) proto->add_victims(victim);
  }
  if (view.parameters) {
    for (const v1::ParameterDigest& parameter : job.parameters) {
      *proto->add_parameters() = parameter;
    }
  }
}

void ToProto(const JobHistoryEntry& entry, const JobRecord& job,
             v1::JobEvent* proto) {
  proto->set_revision(entry.revision);
  proto->set_unix_microseconds(absl::ToUnixMicros(entry.at));
  proto->set_kind(entry.kind);
  if (entry.step >= job.first_step && entry.step < job.steps_committed()) {
    ToProto(job.steps[static_cast<size_t>(entry.step - job.first_step)],
            proto->mutable_result());
  }
  if (entry.details == nullptr) return;
  const JobEventDetails& details = *entry.details;
  proto->set_message(details.message);
  proto->set_epoch(details.epoch.value());
  for (const std::string& worker : details.workers) proto->add_workers(worker);
  for (const std::string& victim : details.victims) proto->add_victims(victim);
  if (details.cause.has_value()) {
    ToProto(*details.cause, proto->mutable_cause());
  }
}

void ToProto(const WorkerRecord& worker, const JobRecord* job,
             v1::WorkerInfo* proto) {
  proto->set_id(worker.name);
  proto->set_state(PublishedState(worker));
  proto->set_reason(worker.reason);
  proto->set_incarnation(worker.incarnation.value());
  proto->set_host(worker.host);
  proto->set_process_id(worker.process_id);
  proto->set_device(worker.device);
  proto->set_version(worker.version);
  proto->set_torch_version(worker.torch_version);
  proto->set_job_id(worker.job_id);
  if (job == nullptr) return;
  const int index = job->IndexOf(worker.name);
  for (size_t stage = 0; stage < job->stages.size(); ++stage) {
    if (job->stages[stage].worker == index) {
      proto->add_stages(static_cast<int32_t>(stage));
    }
  }
}

}  // namespace stagecoach::coordinator

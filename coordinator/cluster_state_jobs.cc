#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/cluster_state_applier.h"

namespace stagecoach::coordinator {

void ClusterState::Applier::ChooseKernels(
    const std::vector<std::string>& workers, JobRecord* job) const {
  if (job->spec.training().kernels() != "auto") return;
  bool on_cpu = true;
  for (const std::string& name : workers) {
    const WorkerRecord* const worker = state.FindWorker(name);
    if (worker->torch_version.empty()) return;
    on_cpu = on_cpu && worker->device == "cpu";
  }
  job->spec.mutable_training()->set_kernels(on_cpu ? "onednn" : "aten");
}

absl::Status ClusterState::Applier::operator()(
    const JobSubmitted& event) const {
  if (event.job_id.empty() || state.jobs_.count(event.job_id) > 0) {
    return Impossible(absl::StrCat("job ", event.job_id, " exists"));
  }
  if (state.FindRequest(event.request_id) != nullptr) {
    return Impossible(absl::StrCat("request ", event.request_id, " is known"));
  }
  JobRecord job;
  job.id = event.job_id;
  job.request_id = event.request_id;
  job.spec = event.spec;
  job.resume = event.resume;
  job.revision = 1;
  state.jobs_[event.job_id] = std::move(job);
  state.job_order_.push_back(event.job_id);
  state.queue_.push_back(event.job_id);
  if (!event.request_id.empty()) {
    state.requests_[event.request_id] = event.job_id;
  }
  ++state.jobs_submitted_;
  return absl::OkStatus();
}

// Also of a job that was planned in another life of the coordinator.
absl::Status ClusterState::Applier::operator()(const JobPlanning& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kPlanning, &job));
  job->planned = false;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(const JobPlanned& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kQueued, &job));
  job->planned = true;
  job->schedule = event.schedule;
  job->schedule_id = event.schedule_id;
  job->stages = event.stages;
  job->first_step = event.first_step;
  job->first_loss_scale = event.loss_scale;
  job->checkpoint_step = event.first_step;
  job->checkpoint_path = event.checkpoint;
  job->begin_step = event.first_step;
  job->begin_checkpoint = event.checkpoint;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const JobReplanned& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  if (job->state != JobState::kPlacing) {
    return Impossible(absl::StrCat(event.job_id, " is not being placed"));
  }
  job->schedule = event.schedule;
  job->schedule_id = event.schedule_id;
  job->stages = event.stages;
  job->profile = event.profile;
  ++job->revision;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const MemoryPredicted& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  if (job->state != JobState::kPlacing && job->state != JobState::kRunning) {
    return Impossible(
        absl::StrCat(event.job_id, " is neither placed nor running"));
  }
  if (event.workers.size() != job->workers.size()) {
    return Impossible("a prediction for other workers");
  }
  for (size_t i = 0; i < job->workers.size(); ++i) {
    job->workers[i].predicted = event.workers[i];
  }
  ++job->revision;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(const JobWaiting& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  if (job->state != JobState::kQueued && job->state != JobState::kRecovering) {
    return Impossible(absl::StrCat(event.job_id, " does not wait"));
  }
  job->reason = event.reason;
  ++job->revision;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(const JobPlaced& event) const {
  if (event.epoch <= state.last_epoch_) return Impossible("an old epoch");
  std::set<std::string> distinct;
  for (const std::string& name : event.workers) {
    const WorkerRecord* worker = state.FindWorker(name);
    if (worker == nullptr || !worker->idle() || !distinct.insert(name).second) {
      return Impossible(absl::StrCat("worker ", name, " is not idle"));
    }
  }
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  if (!job->planned) return Impossible("placed before it was planned");
  if (job->state == JobState::kRecovering && !job->rewound) {
    return Impossible("placed again before it is known where to go on");
  }
  SC_RETURN_IF_ERROR(state.Transition(*job, JobState::kPlacing, at));
  state.last_epoch_ = event.epoch;
  job->epoch = event.epoch;
  job->rewound = false;
  if (job->recoveries.empty()) job->placed = at;
  ChooseKernels(event.workers, job);
  job->workers.clear();
  for (const std::string& name : event.workers) {
    job->workers.emplace_back();
    job->workers.back().name = name;
    state.workers_[name].job_id = job->id;
  }
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(const JobRunning& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  if (event.receive_pool_bytes.size() != job->workers.size()) {
    return Impossible("figures of other workers");
  }
  SC_RETURN_IF_ERROR(state.Transition(*job, JobState::kRunning, at));
  job->transport = event.transport;
  job->edges = event.edges;
  for (size_t i = 0; i < job->workers.size(); ++i) {
    job->workers[i].receive_pool_bytes = event.receive_pool_bytes[i];
  }
  NoteCaughtUp(job);
  return absl::OkStatus();
}

void ClusterState::Applier::NoteCaughtUp(JobRecord* job) const {
  if (job->recoveries.empty()) return;
  RecoveryRecord& last = job->recoveries.back();
  if (last.caught_up == absl::InfiniteFuture() &&
      job->steps_committed() >= last.steps_before) {
    last.caught_up = at;
  }
}

absl::Status ClusterState::Applier::operator()(
    const JobRescheduleRequested& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(FindRunning(event.job_id, &job));
  job->next_schedule = event.requested;
  job->next_send_budget = event.send_budget;
  ++job->revision;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const JobRescheduled& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  if (job->state != JobState::kRunning) {
    return Impossible(absl::StrCat(event.job_id, " is not running"));
  }
  if (event.receive_pool_bytes.size() != job->workers.size()) {
    return Impossible("figures of other workers");
  }
  job->schedule = event.schedule;
  job->schedule_id = event.schedule_id;
  if (job->next_schedule == event.requested &&
      job->next_send_budget == event.send_budget) {
    job->next_schedule.clear();
    job->next_send_budget = 0;
  }
  job->requested_schedule = event.requested;
  job->requested_send_budget = event.send_budget;
  job->transport = event.transport;
  job->edges = event.edges;
  for (size_t i = 0; i < job->workers.size(); ++i) {
    job->workers[i].receive_pool_bytes = event.receive_pool_bytes[i];
  }
  ++job->revision;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const StepCommitted& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  if (job->state != JobState::kRunning ||
      event.result.step != job->steps_committed() ||
      event.busy_nanoseconds.size() != job->workers.size()) {
    return Impossible(absl::StrCat("step ", event.result.step, " of ",
                                   event.job_id, " committed"));
  }
  job->steps.push_back(event.result);
  for (size_t i = 0; i < job->workers.size(); ++i) {
    job->workers[i].busy_nanoseconds += event.busy_nanoseconds[i];
  }
  NoteCaughtUp(job);
  ++job->revision;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const CheckpointRequested& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(FindRunning(event.job_id, &job));
  job->requested_checkpoint_step = event.step;
  ++job->revision;
  return absl::OkStatus();
}

void ClusterState::Applier::NoteAttempt(JobRecord* job, int64_t step) {
  if (step >= job->requested_checkpoint_step) {
    job->requested_checkpoint_step = 0;
  }
}

absl::Status ClusterState::Applier::operator()(
    const CheckpointStored& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(FindRunning(event.job_id, &job));
  NoteAttempt(job, event.step);
  job->checkpoint_step = event.step;
  job->checkpoint_path = event.path;
  job->checkpoint_error.clear();
  job->failed_checkpoint_step = 0;
  ++job->revision;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const CheckpointFailed& event) const {
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(FindRunning(event.job_id, &job));
  NoteAttempt(job, event.step);
  job->failed_checkpoint_step = event.step;
  job->checkpoint_error =
      absl::StrCat("checkpoint of step ", event.step, ": ", event.message);
  ++job->revision;
  return absl::OkStatus();
}

}  // namespace stagecoach::coordinator

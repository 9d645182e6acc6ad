// The state as the parts of a snapshot, and back. What follows from other
// fields (the queue, the order, who asked) is not written twice.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/cluster_state.h"
#include "coordinator/event_codec.h"

namespace stagecoach::coordinator {
namespace {

// About 80 KiB.
constexpr size_t kStepsOfPart = 1000;

v1::WorkerRecord ToProto(const WorkerRecord& worker) {
  v1::WorkerRecord proto;
  proto.set_worker(worker.name);
  proto.set_incarnation(worker.incarnation.value());
  proto.set_host(worker.host);
  proto.set_process_id(worker.process_id);
  proto.set_device(worker.device);
  proto.set_version(worker.version);
  proto.set_torch_version(worker.torch_version);
  proto.set_peer_address(worker.peer_address);
  proto.set_suspect(worker.suspect);
  proto.set_dead(worker.dead);
  proto.set_reason(worker.reason);
  proto.set_job_id(worker.job_id);
  return proto;
}

WorkerRecord ReadWorker(const v1::WorkerRecord& proto) {
  WorkerRecord worker;
  worker.name = proto.worker();
  worker.incarnation = Incarnation(proto.incarnation());
  worker.host = proto.host();
  worker.process_id = proto.process_id();
  worker.device = proto.device();
  worker.version = proto.version();
  worker.torch_version = proto.torch_version();
  worker.peer_address = proto.peer_address();
  worker.suspect = proto.suspect();
  worker.dead = proto.dead();
  worker.reason = proto.reason();
  worker.job_id = proto.job_id();
  return worker;
}

v1::JobWorkerSnapshot ToProto(const JobWorkerRecord& worker) {
  v1::JobWorkerSnapshot proto;
  proto.set_worker(worker.name);
  proto.set_receive_pool_bytes(worker.receive_pool_bytes);
  proto.set_busy_nanoseconds(worker.busy_nanoseconds);
  if (worker.memory.has_value()) *proto.mutable_memory() = *worker.memory;
  proto.set_finished(worker.finished);
  for (const v1::ParameterDigest& parameter : worker.parameters) {
    *proto.add_parameters() = parameter;
  }
  for (const MicrobatchLossSum& loss : worker.evaluation_losses) {
    ToProto(loss, proto.add_evaluation_losses());
  }
  if (worker.predicted) *proto.mutable_predicted() = *worker.predicted;
  return proto;
}

JobWorkerRecord ReadJobWorker(const v1::JobWorkerSnapshot& proto) {
  JobWorkerRecord worker;
  worker.name = proto.worker();
  worker.receive_pool_bytes = proto.receive_pool_bytes();
  worker.busy_nanoseconds = proto.busy_nanoseconds();
  if (proto.has_memory()) worker.memory = proto.memory();
  if (proto.has_predicted()) worker.predicted = proto.predicted();
  worker.finished = proto.finished();
  worker.parameters.assign(proto.parameters().begin(),
                           proto.parameters().end());
  for (const v1::LossSumRecord& loss : proto.evaluation_losses()) {
    worker.evaluation_losses.push_back(FromProto(loss));
  }
  return worker;
}

void ToProto(const RecoveryRecord& recovery, v1::RecoveryRecord* proto) {
  ToProto(recovery.cause, proto->mutable_cause());
  for (const std::string& victim : recovery.victims) {
    proto->add_victims(victim);
  }
  proto->set_failed_nanoseconds(absl::ToUnixNanos(recovery.failed));
  proto->set_steps_before(recovery.steps_before);
  proto->set_step(recovery.step);
  if (recovery.caught_up != absl::InfiniteFuture()) {
    proto->set_caught_up_nanoseconds(absl::ToUnixNanos(recovery.caught_up));
  }
}

RecoveryRecord ReadRecovery(const v1::RecoveryRecord& proto) {
  RecoveryRecord recovery;
  recovery.cause = FromProto(proto.cause());
  recovery.victims.assign(proto.victims().begin(), proto.victims().end());
  recovery.failed = absl::FromUnixNanos(proto.failed_nanoseconds());
  recovery.steps_before = proto.steps_before();
  recovery.step = proto.step();
  if (proto.has_caught_up_nanoseconds()) {
    recovery.caught_up = absl::FromUnixNanos(proto.caught_up_nanoseconds());
  }
  return recovery;
}

// Without its steps and its history.
v1::JobSnapshot ToProto(const JobRecord& job) {
  v1::JobSnapshot proto;
  proto.set_job_id(job.id);
  proto.set_request_id(job.request_id);
  *proto.mutable_spec() = job.spec;
  proto.set_state(static_cast<int32_t>(job.state));
  proto.set_reason(job.reason);
  proto.set_planned(job.planned);
  proto.set_schedule(job.schedule);
  proto.set_schedule_id(job.schedule_id);
  for (const StagePlan& stage : job.stages) ToProto(stage, proto.add_stages());
  if (job.profile.has_value()) *proto.mutable_profile() = *job.profile;
  proto.set_requested_schedule(job.requested_schedule);
  proto.set_requested_send_budget(job.requested_send_budget);
  proto.set_next_schedule(job.next_schedule);
  proto.set_next_send_budget(job.next_send_budget);
  proto.set_epoch(job.epoch.value());
  for (const JobWorkerRecord& worker : job.workers) {
    *proto.add_workers() = ToProto(worker);
  }
  proto.set_transport(job.transport);
  for (const std::string& edge : job.edges) proto.add_edges(edge);
  proto.set_resume(job.resume);
  proto.set_first_step(job.first_step);
  if (job.first_loss_scale.has_value()) {
    *proto.mutable_first_loss_scale() = *job.first_loss_scale;
  }
  proto.set_begin_step(job.begin_step);
  proto.set_begin_checkpoint(job.begin_checkpoint);
  for (const RecoveryRecord& recovery : job.recoveries) {
    ToProto(recovery, proto.add_recoveries());
  }
  proto.set_rewound(job.rewound);
  proto.set_checkpoint_step(job.checkpoint_step);
  proto.set_checkpoint_path(job.checkpoint_path);
  proto.set_checkpoint_error(job.checkpoint_error);
  proto.set_failed_checkpoint_step(job.failed_checkpoint_step);
  proto.set_requested_checkpoint_step(job.requested_checkpoint_step);
  if (job.cause.has_value()) ToProto(*job.cause, proto.mutable_cause());
  for (const std::string& victim : job.victims) proto.add_victims(victim);
  for (const v1::ParameterDigest& parameter : job.parameters) {
    *proto.add_parameters() = parameter;
  }
  proto.set_parameters_sha256(job.parameters_sha256);
  if (job.evaluation_loss.has_value()) {
    proto.set_evaluation_loss(*job.evaluation_loss);
  }
  proto.set_revision(job.revision);
  if (job.placed != absl::InfinitePast()) {
    proto.set_placed_nanoseconds(absl::ToUnixNanos(job.placed));
  }
  if (job.finished != absl::InfinitePast()) {
    proto.set_finished_nanoseconds(absl::ToUnixNanos(job.finished));
  }
  return proto;
}

JobRecord ReadJob(const v1::JobSnapshot& proto) {
  JobRecord job;
  job.id = proto.job_id();
  job.request_id = proto.request_id();
  job.spec = proto.spec();
  job.state = static_cast<JobState>(proto.state());
  job.reason = proto.reason();
  job.planned = proto.planned();
  job.schedule = proto.schedule();
  job.schedule_id = proto.schedule_id();
  for (const v1::StagePlanRecord& stage : proto.stages()) {
    job.stages.push_back(FromProto(stage));
  }
  if (proto.has_profile()) job.profile = proto.profile();
  job.requested_schedule = proto.requested_schedule();
  job.requested_send_budget = proto.requested_send_budget();
  job.next_schedule = proto.next_schedule();
  job.next_send_budget = proto.next_send_budget();
  job.epoch = Epoch(proto.epoch());
  for (const v1::JobWorkerSnapshot& worker : proto.workers()) {
    job.workers.push_back(ReadJobWorker(worker));
  }
  job.transport = proto.transport();
  job.edges.assign(proto.edges().begin(), proto.edges().end());
  job.resume = proto.resume();
  job.first_step = proto.first_step();
  if (proto.has_first_loss_scale()) {
    job.first_loss_scale = proto.first_loss_scale();
  }
  job.begin_step = std::max(proto.begin_step(), proto.first_step());
  job.begin_checkpoint = proto.begin_checkpoint();
  for (const v1::RecoveryRecord& recovery : proto.recoveries()) {
    job.recoveries.push_back(ReadRecovery(recovery));
  }
  job.rewound = proto.rewound();
  job.checkpoint_step = proto.checkpoint_step();
  job.checkpoint_path = proto.checkpoint_path();
  job.checkpoint_error = proto.checkpoint_error();
  job.failed_checkpoint_step = proto.failed_checkpoint_step();
  job.requested_checkpoint_step = proto.requested_checkpoint_step();
  if (proto.has_cause()) job.cause = FromProto(proto.cause());
  job.victims.assign(proto.victims().begin(), proto.victims().end());
  job.parameters.assign(proto.parameters().begin(), proto.parameters().end());
  job.parameters_sha256 = proto.parameters_sha256();
  if (proto.has_evaluation_loss()) {
    job.evaluation_loss = proto.evaluation_loss();
  }
  job.revision = proto.revision();
  if (proto.has_placed_nanoseconds()) {
    job.placed = absl::FromUnixNanos(proto.placed_nanoseconds());
  }
  if (proto.has_finished_nanoseconds()) {
    job.finished = absl::FromUnixNanos(proto.finished_nanoseconds());
  }
  return job;
}

void AddSteps(const JobRecord& job, std::vector<v1::SnapshotPart>* parts) {
  for (size_t first = 0; first < job.steps.size(); first += kStepsOfPart) {
    parts->emplace_back();
    v1::StepsSnapshot* steps = parts->back().mutable_steps();
    steps->set_job_id(job.id);
    const size_t end = std::min(job.steps.size(), first + kStepsOfPart);
    for (size_t i = first; i < end; ++i) {
      ToProto(job.steps[i], steps->add_steps());
    }
  }
}

void ToProto(const JobHistoryEntry& entry, v1::HistoryEntryRecord* proto) {
  proto->set_revision(entry.revision);
  proto->set_at_nanoseconds(absl::ToUnixNanos(entry.at));
  proto->set_kind(entry.kind);
  proto->set_step(entry.step);
  if (entry.details == nullptr) return;
  v1::JobEventDetailsRecord* details = proto->mutable_details();
  details->set_message(entry.details->message);
  details->set_epoch(entry.details->epoch.value());
  for (const std::string& worker : entry.details->workers) {
    details->add_workers(worker);
  }
  for (const std::string& victim : entry.details->victims) {
    details->add_victims(victim);
  }
  if (entry.details->cause.has_value()) {
    ToProto(*entry.details->cause, details->mutable_cause());
  }
}

JobHistoryEntry ReadHistoryEntry(const v1::HistoryEntryRecord& proto) {
  JobHistoryEntry entry;
  entry.revision = proto.revision();
  entry.at = absl::FromUnixNanos(proto.at_nanoseconds());
  entry.kind = HistoryKind(proto.kind());
  entry.step = proto.step();
  if (!proto.has_details()) return entry;
  JobEventDetails details;
  details.message = proto.details().message();
  details.epoch = Epoch(proto.details().epoch());
  details.workers.assign(proto.details().workers().begin(),
                         proto.details().workers().end());
  details.victims.assign(proto.details().victims().begin(),
                         proto.details().victims().end());
  if (proto.details().has_cause()) {
    details.cause = FromProto(proto.details().cause());
  }
  entry.details = std::make_shared<const JobEventDetails>(std::move(details));
  return entry;
}

void AddHistory(const JobRecord& job, std::vector<v1::SnapshotPart>* parts) {
  for (size_t first = 0; first < job.history.size(); first += kStepsOfPart) {
    parts->emplace_back();
    v1::HistorySnapshot* history = parts->back().mutable_history();
    history->set_job_id(job.id);
    const size_t end = std::min(job.history.size(), first + kStepsOfPart);
    for (size_t i = first; i < end; ++i) {
      ToProto(job.history[i], history->add_entries());
    }
  }
}

}  // namespace

std::vector<v1::SnapshotPart> ClusterState::ToSnapshot() const {
  std::vector<v1::SnapshotPart> parts(1);
  for (const std::string& id : job_order_) {
    const JobRecord& job = jobs_.at(id);
    parts.emplace_back();
    *parts.back().mutable_job() = ToProto(job);
    AddSteps(job, &parts);
    AddHistory(job, &parts);
  }
  v1::ClusterSnapshot* cluster = parts.front().mutable_cluster();
  cluster->set_parts(static_cast<int64_t>(parts.size()));
  cluster->set_last_term(last_term_.value());
  cluster->set_last_epoch(last_epoch_.value());
  cluster->set_jobs_submitted(jobs_submitted_);
  for (const auto& [name, worker] : workers_) {
    *cluster->add_workers() = ToProto(worker);
  }
  return parts;
}

absl::StatusOr<ClusterState> ClusterState::FromSnapshot(
    const std::vector<v1::SnapshotPart>& parts) {
  if (parts.empty() || !parts.front().has_cluster() ||
      parts.front().cluster().parts() != static_cast<int64_t>(parts.size())) {
    return absl::DataLossError(
        absl::StrCat("a snapshot of ", parts.size(), " parts is not whole"));
  }
  ClusterState state;
  const v1::ClusterSnapshot& cluster = parts.front().cluster();
  state.last_term_ = Term(cluster.last_term());
  state.last_epoch_ = Epoch(cluster.last_epoch());
  state.jobs_submitted_ = cluster.jobs_submitted();
  for (const v1::WorkerRecord& worker : cluster.workers()) {
    state.workers_[worker.worker()] = ReadWorker(worker);
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].has_job()) {
      JobRecord job = ReadJob(parts[i].job());
      const std::string id = job.id;
      state.job_order_.push_back(id);
      if (job.state == JobState::kQueued || job.state == JobState::kPlanning) {
        state.queue_.push_back(id);
      }
      if (!job.request_id.empty()) state.requests_[job.request_id] = id;
      state.jobs_[id] = std::move(job);
      continue;
    }
    const std::string& id = parts[i].has_history() ? parts[i].history().job_id()
                                                   : parts[i].steps().job_id();
    if (state.job_order_.empty() || id != state.job_order_.back()) {
      return absl::DataLossError(
          absl::StrCat("part ", i, " of a snapshot has steps of no job"));
    }
    JobRecord& job = state.jobs_[id];
    for (const v1::StepRecord& step : parts[i].steps().steps()) {
      job.steps.push_back(FromProto(step));
    }
    for (const v1::HistoryEntryRecord& entry : parts[i].history().entries()) {
      job.history.push_back(ReadHistoryEntry(entry));
    }
  }
  return state;
}

}  // namespace stagecoach::coordinator

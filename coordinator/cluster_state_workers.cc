#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/cluster_state_applier.h"

namespace stagecoach::coordinator {
namespace {

constexpr size_t kDeadWorkers = 1000;
constexpr int64_t kRevisionsOfALife = 1'000'000;

}  // namespace

void ClusterState::Applier::RetireDeadWorkers() const {
  size_t dead = 0;
  for (const auto& [name, worker] : state.workers_) dead += worker.dead;
  for (auto it = state.workers_.begin();
       dead > kDeadWorkers && it != state.workers_.end();) {
    if (!it->second.dead || IsRemembered(it->first)) {
      ++it;
      continue;
    }
    it = state.workers_.erase(it);
    --dead;
  }
}

bool ClusterState::Applier::IsRemembered(const std::string& worker) const {
  return std::any_of(
      state.jobs_.begin(), state.jobs_.end(),
      [&worker](const auto& job) { return job.second.IndexOf(worker) >= 0; });
}

absl::Status ClusterState::Applier::operator()(
    const CoordinatorStarted& event) const {
  if (event.term <= state.last_term_) return Impossible("an old term");
  state.last_term_ = event.term;
  // Watchers may have seen more than was recorded: no revision that they know
  // comes again.
  for (auto& [id, job] : state.jobs_) {
    if (!IsFinished(job.state)) job.revision += kRevisionsOfALife;
  }
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const WorkerRegistered& event) const {
  auto it = state.workers_.find(event.worker);
  if (it != state.workers_.end() && !it->second.dead) {
    return Impossible(absl::StrCat("worker ", event.worker, " is live"));
  }
  WorkerRecord worker;
  worker.name = event.worker;
  worker.incarnation = event.incarnation;
  worker.host = event.host;
  worker.process_id = event.process_id;
  worker.device = event.device;
  worker.version = event.version;
  worker.torch_version = event.torch_version;
  worker.peer_address = event.peer_address;
  state.workers_[event.worker] = std::move(worker);
  RetireDeadWorkers();
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const WorkerSuspected& event) const {
  WorkerRecord* worker = nullptr;
  SC_RETURN_IF_ERROR(FindLive(event.worker, &worker));
  worker->suspect = true;
  worker->reason = event.reason;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const WorkerAnswered& event) const {
  WorkerRecord* worker = nullptr;
  SC_RETURN_IF_ERROR(FindLive(event.worker, &worker));
  worker->suspect = false;
  worker->reason.clear();
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(const WorkerLost& event) const {
  WorkerRecord* worker = nullptr;
  SC_RETURN_IF_ERROR(FindLive(event.worker, &worker));
  worker->suspect = false;
  worker->dead = true;
  worker->reason = event.reason;
  worker->job_id.clear();
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::operator()(
    const WorkerReleased& event) const {
  WorkerRecord* worker = nullptr;
  SC_RETURN_IF_ERROR(FindLive(event.worker, &worker));
  JobRecord* job = nullptr;
  SC_RETURN_IF_ERROR(Find(event.job_id, &job));
  const int index = job->IndexOf(event.worker);
  if (worker->job_id != event.job_id || index < 0) {
    return Impossible(absl::StrCat("worker ", event.worker,
                                   " holds nothing of ", event.job_id));
  }
  worker->job_id.clear();
  JobWorkerRecord& part = job->workers[static_cast<size_t>(index)];
  part.memory = event.memory;
  if (part.memory.has_value()) part.memory->set_worker(event.worker);
  part.finished = event.finished;
  part.parameters = event.parameters;
  part.evaluation_losses = event.evaluation_losses;
  ++job->revision;
  return absl::OkStatus();
}

}  // namespace stagecoach::coordinator

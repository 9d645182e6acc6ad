#include "coordinator/cluster_state.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/cluster_state_applier.h"

namespace stagecoach::coordinator {
int JobRecord::IndexOf(const std::string& worker) const {
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].name == worker) return static_cast<int>(i);
  }
  return -1;
}

int32_t JobRecord::LowestStageOf(int worker) const {
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].worker == worker) return static_cast<int32_t>(stage);
  }
  return -1;
}

absl::Status ClusterState::Applier::FindLive(const std::string& name,
                                             WorkerRecord** worker) const {
  auto it = state.workers_.find(name);
  if (it == state.workers_.end() || it->second.dead) {
    return Impossible(absl::StrCat("worker ", name, " is not live"));
  }
  *worker = &it->second;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::Find(const std::string& id,
                                         JobRecord** job) const {
  auto it = state.jobs_.find(id);
  if (it == state.jobs_.end()) {
    return Impossible(absl::StrCat("there is no job ", id));
  }
  *job = &it->second;
  return absl::OkStatus();
}

absl::Status ClusterState::Applier::Move(const std::string& id, JobState to,
                                         JobRecord** job) const {
  SC_RETURN_IF_ERROR(Find(id, job));
  return state.Transition(**job, to, at);
}

absl::Status ClusterState::Applier::FindRunning(const std::string& id,
                                                JobRecord** job) const {
  SC_RETURN_IF_ERROR(Find(id, job));
  if ((*job)->state == JobState::kRunning) return absl::OkStatus();
  return Impossible(absl::StrCat(id, " is not running"));
}
absl::Status ClusterState::Transition(JobRecord& job, JobState to,
                                      absl::Time at) {
  if (!CanFollow(job.state, to)) {
    return Applier::Impossible(absl::StrCat(job.id, " went from ",
                                            JobStateName(job.state), " to ",
                                            JobStateName(to)));
  }
  job.state = to;
  job.reason.clear();
  ++job.revision;
  if (IsFinished(to)) job.finished = at;
  const bool waits = to == JobState::kQueued || to == JobState::kPlanning;
  if (!waits) {
    queue_.erase(std::remove(queue_.begin(), queue_.end(), job.id),
                 queue_.end());
  }
  return absl::OkStatus();
}

absl::Status ClusterState::Apply(const Event& event) {
  SC_RETURN_IF_ERROR(std::visit(Applier{*this, event.at}, event.body));
  if (const std::string* job_id = JobOf(event.body); job_id != nullptr) {
    // None if the job has just been forgotten.
    if (auto job = jobs_.find(*job_id); job != jobs_.end()) {
      job->second.history.push_back(
          HistoryEntryOf(event, job->second.revision));
    }
  }
  return absl::OkStatus();
}

const WorkerRecord* ClusterState::FindWorker(const std::string& name) const {
  auto it = workers_.find(name);
  return it == workers_.end() ? nullptr : &it->second;
}

const JobRecord* ClusterState::FindJob(const std::string& id) const {
  auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : &it->second;
}

const JobRecord* ClusterState::FindRequest(
    const std::string& request_id) const {
  auto it = requests_.find(request_id);
  return it == requests_.end() ? nullptr : FindJob(it->second);
}

}  // namespace stagecoach::coordinator

#include "coordinator/cluster_state.h"

#include <algorithm>
#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::coordinator {
namespace {

constexpr size_t kDeadWorkers = 1000;

constexpr int64_t kRevisionsOfALife = 1'000'000;

absl::Status Impossible(const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat("this event cannot have happened: ", what));
}

}  // namespace

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

// One overload per kind of event. Each checks everything before it changes
// anything.
struct ClusterState::Applier {
  ClusterState& state;
  absl::Time at;

  absl::Status FindLive(const std::string& name, WorkerRecord** worker) const {
    auto it = state.workers_.find(name);
    if (it == state.workers_.end() || it->second.dead) {
      return Impossible(absl::StrCat("worker ", name, " is not live"));
    }
    *worker = &it->second;
    return absl::OkStatus();
  }

  absl::Status Find(const std::string& id, JobRecord** job) const {
    auto it = state.jobs_.find(id);
    if (it == state.jobs_.end()) {
      return Impossible(absl::StrCat("there is no job ", id));
    }
    *job = &it->second;
    return absl::OkStatus();
  }

  // Finds the job and moves it on.
  absl::Status Move(const std::string& id, JobState to, JobRecord** job) const {
    SC_RETURN_IF_ERROR(Find(id, job));
    return state.Transition(**job, to, at);
  }

  absl::Status FindRunning(const std::string& id, JobRecord** job) const {
    SC_RETURN_IF_ERROR(Find(id, job));
    if ((*job)->state == JobState::kRunning) return absl::OkStatus();
    return Impossible(absl::StrCat(id, " is not running"));
  }

  // Where every start of a worker has a name of its own, the dead ones add up:
  // beyond kDeadWorkers those that no remembered job had are forgotten, in the
  // order of their names.
  void RetireDeadWorkers() const {
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
  bool IsRemembered(const std::string& worker) const {
    return std::any_of(
        state.jobs_.begin(), state.jobs_.end(),
        [&worker](const auto& job) { return job.second.IndexOf(worker) >= 0; });
  }

  // training.kernels = "auto" is decided with the first placement, for good:
  // later workers take what is stored. Without torch there is nothing to
  // decide.
  void ChooseKernels(const std::vector<std::string>& workers,
                     JobRecord* job) const {
    if (job->spec.training().kernels() != "auto") return;
    bool on_cpu = true;
    for (const std::string& name : workers) {
      const WorkerRecord* const worker = state.FindWorker(name);
      if (worker->torch_version.empty()) return;
      on_cpu = on_cpu && worker->device == "cpu";
    }
    job->spec.mutable_training()->set_kernels(on_cpu ? "onednn" : "aten");
  }

  absl::Status operator()(const CoordinatorStarted& event) const {
    if (event.term <= state.last_term_) return Impossible("an old term");
    state.last_term_ = event.term;
    // Watchers may have seen more than was recorded: no revision that they know
    // comes again.
    for (auto& [id, job] : state.jobs_) {
      if (!IsFinished(job.state)) job.revision += kRevisionsOfALife;
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const WorkerRegistered& event) const {
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

  absl::Status operator()(const WorkerSuspected& event) const {
    WorkerRecord* worker = nullptr;
    SC_RETURN_IF_ERROR(FindLive(event.worker, &worker));
    worker->suspect = true;
    worker->reason = event.reason;
    return absl::OkStatus();
  }

  absl::Status operator()(const WorkerAnswered& event) const {
    WorkerRecord* worker = nullptr;
    SC_RETURN_IF_ERROR(FindLive(event.worker, &worker));
    worker->suspect = false;
    worker->reason.clear();
    return absl::OkStatus();
  }

  absl::Status operator()(const WorkerLost& event) const {
    WorkerRecord* worker = nullptr;
    SC_RETURN_IF_ERROR(FindLive(event.worker, &worker));
    worker->suspect = false;
    worker->dead = true;
    worker->reason = event.reason;
    worker->job_id.clear();
    return absl::OkStatus();
  }

  absl::Status operator()(const WorkerReleased& event) const {
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

  absl::Status operator()(const JobSubmitted& event) const {
    if (event.job_id.empty() || state.jobs_.count(event.job_id) > 0) {
      return Impossible(absl::StrCat("job ", event.job_id, " exists"));
    }
    if (state.FindRequest(event.request_id) != nullptr) {
      return Impossible(
          absl::StrCat("request ", event.request_id, " is known"));
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
  absl::Status operator()(const JobPlanning& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kPlanning, &job));
    job->planned = false;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobPlanned& event) const {
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

  absl::Status operator()(const JobReplanned& event) const {
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

  absl::Status operator()(const MemoryPredicted& event) const {
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

  absl::Status operator()(const JobRefused& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Find(event.job_id, &job));
    // Only JobFailed ends a job that had workers.
    if (job->state != JobState::kPlanning)
      return Impossible("refused too late");
    SC_RETURN_IF_ERROR(state.Transition(*job, JobState::kFailed, at));
    job->reason = event.message;
    job->cause.emplace();
    job->cause->kind = FailureKind::kInvalid;
    job->cause->message = event.message;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobWaiting& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Find(event.job_id, &job));
    if (job->state != JobState::kQueued &&
        job->state != JobState::kRecovering) {
      return Impossible(absl::StrCat(event.job_id, " does not wait"));
    }
    job->reason = event.reason;
    ++job->revision;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobPlaced& event) const {
    if (event.epoch <= state.last_epoch_) return Impossible("an old epoch");
    std::set<std::string> distinct;
    for (const std::string& name : event.workers) {
      const WorkerRecord* worker = state.FindWorker(name);
      if (worker == nullptr || !worker->idle() ||
          !distinct.insert(name).second) {
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

  absl::Status operator()(const JobRunning& event) const {
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

  // If all steps that a recovery did again are committed.
  void NoteCaughtUp(JobRecord* job) const {
    if (job->recoveries.empty()) return;
    RecoveryRecord& last = job->recoveries.back();
    if (last.caught_up == absl::InfiniteFuture() &&
        job->steps_committed() >= last.steps_before) {
      last.caught_up = at;
    }
  }

  absl::Status operator()(const JobRescheduleRequested& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(FindRunning(event.job_id, &job));
    job->next_schedule = event.requested;
    job->next_send_budget = event.send_budget;
    ++job->revision;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobRescheduled& event) const {
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

  absl::Status operator()(const StepCommitted& event) const {
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

  absl::Status operator()(const CheckpointRequested& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(FindRunning(event.job_id, &job));
    job->requested_checkpoint_step = event.step;
    ++job->revision;
    return absl::OkStatus();
  }

  static void NoteAttempt(JobRecord* job, int64_t step) {
    if (step >= job->requested_checkpoint_step) {
      job->requested_checkpoint_step = 0;
    }
  }

  absl::Status operator()(const CheckpointStored& event) const {
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

  absl::Status operator()(const CheckpointFailed& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(FindRunning(event.job_id, &job));
    NoteAttempt(job, event.step);
    job->failed_checkpoint_step = event.step;
    job->checkpoint_error =
        absl::StrCat("checkpoint of step ", event.step, ": ", event.message);
    ++job->revision;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobRecovering& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kRecovering, &job));
    job->reason = event.reason;
    if (!job->recoveries.empty()) {
      absl::Time& before = job->recoveries.back().caught_up;
      before = std::min(before, at);
    }
    RecoveryRecord recovery;
    recovery.cause = event.cause;
    recovery.victims = event.victims;
    recovery.failed = at;
    recovery.steps_before = job->steps_committed();
    job->recoveries.push_back(std::move(recovery));
    return absl::OkStatus();
  }

  absl::Status operator()(const JobRewound& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Find(event.job_id, &job));
    // A second time if the copies that it was to begin with are lost, too.
    if (job->state != JobState::kRecovering ||
        (job->rewound && !job->BeginsWithCopies()) || job->recoveries.empty()) {
      return Impossible(absl::StrCat(event.job_id, " does not go back"));
    }
    if (event.step < job->first_step || event.step > job->steps_committed()) {
      return Impossible(absl::StrCat(event.job_id, " has no step ", event.step,
                                     " to go back to"));
    }
    job->rewound = true;
    job->begin_step = event.step;
    job->begin_checkpoint = event.checkpoint;
    job->steps.resize(static_cast<size_t>(event.step - job->first_step));
    job->recoveries.back().step = event.step;
    // Later ones are damaged, or are made again; earlier ones are as they were,
    // if it goes on with copies.
    if (!job->BeginsWithCopies() || job->checkpoint_step > event.step) {
      job->checkpoint_step = job->BeginsWithCopies() ? 0 : event.step;
      job->checkpoint_path = event.checkpoint;
    }
    job->checkpoint_error.clear();
    job->failed_checkpoint_step = 0;
    ++job->revision;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobFailing& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kFailing, &job));
    job->cause = event.cause;
    job->victims = event.victims;
    job->reason = event.reason;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobFailed& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Find(event.job_id, &job));
    // Only JobRefused fails a job that had no workers.
    if (job->state != JobState::kFailing) return Impossible("failed too early");
    const std::string reason = job->reason;
    SC_RETURN_IF_ERROR(state.Transition(*job, JobState::kFailed, at));
    job->reason = reason;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobCancelRequested& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kCancelling, &job));
    job->reason = event.reason;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobCancelled& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kCancelled, &job));
    job->reason = event.reason;
    return absl::OkStatus();
  }

  absl::Status operator()(const JobSucceeded& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Move(event.job_id, JobState::kSucceeded, &job));
    job->parameters = event.parameters;
    job->parameters_sha256 = event.parameters_sha256;
    job->evaluation_loss = event.evaluation_loss;
    for (JobWorkerRecord& part : job->workers) {
      part.parameters.clear();
      part.evaluation_losses.clear();
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const JobForgotten& event) const {
    JobRecord* job = nullptr;
    SC_RETURN_IF_ERROR(Find(event.job_id, &job));
    if (!IsFinished(job->state)) {
      return Impossible(absl::StrCat(event.job_id, " is not finished"));
    }
    for (const auto& [name, worker] : state.workers_) {
      if (worker.job_id == event.job_id) {
        return Impossible(
            absl::StrCat("worker ", name, " still holds ", event.job_id));
      }
    }
    std::vector<std::string>& order = state.job_order_;
    order.erase(std::remove(order.begin(), order.end(), event.job_id),
                order.end());
    state.requests_.erase(job->request_id);
    state.jobs_.erase(event.job_id);
    return absl::OkStatus();
  }
};

absl::Status ClusterState::Transition(JobRecord& job, JobState to,
                                      absl::Time at) {
  if (!CanFollow(job.state, to)) {
    return Impossible(absl::StrCat(job.id, " went from ",
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

// Random events against a model that knows of each worker only whether it lives
// and for whom it works, and of each job only its place in the diagram of
// job_state.h: both must take and refuse the same events.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/property_cases.h"
#include "coordinator/cluster_state.h"
#include "coordinator/random_events.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

constexpr int kEvents = 300;

class Model {
 public:
  // Whether the event can have happened; if so, it has.
  bool Takes(const Event& event) {
    return std::visit([this](const auto& body) { return Take(body); },
                      event.body);
  }

  void ExpectEqual(const ClusterState& state) const {
    EXPECT_EQ(state.workers().size(), workers_.size());
    for (const auto& [name, worker] : workers_) {
      const WorkerRecord* record = state.FindWorker(name);
      ASSERT_NE(record, nullptr) << name;
      EXPECT_EQ(record->dead, !worker.lives) << name;
      EXPECT_EQ(record->suspect, worker.suspect) << name;
      EXPECT_EQ(record->job_id, worker.job) << name;
    }
    EXPECT_EQ(state.job_order().size(), jobs_.size());
    std::set<std::string> waiting;
    for (const auto& [id, job] : jobs_) {
      const JobRecord* record = state.FindJob(id);
      ASSERT_NE(record, nullptr) << id;
      EXPECT_EQ(JobStateName(record->state), job.state) << id;
      EXPECT_EQ(static_cast<int>(record->steps.size()), job.steps) << id;
      if (job.state == "QUEUED" || job.state == "PLANNING") waiting.insert(id);
    }
    EXPECT_EQ(std::set<std::string>(state.queue().begin(), state.queue().end()),
              waiting);
  }

 private:
  struct Worker {
    bool lives = true;
    bool suspect = false;
    std::string job;
  };
  struct Job {
    std::string state = "QUEUED";
    std::string request;
    bool planned = false;
    bool copies = false;  // it begins with workers' copies
    int64_t first_step = 0;
    size_t workers = 0;
    int steps = 0;
  };

  Worker* Living(const std::string& name) {
    const auto worker = workers_.find(name);
    if (worker == workers_.end() || !worker->second.lives) return nullptr;
    return &worker->second;
  }
  Job* In(const std::string& id, const std::set<std::string>& states) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || states.count(job->second.state) == 0) {
      return nullptr;
    }
    return &job->second;
  }
  bool Move(const std::string& id, const std::set<std::string>& from,
            const char* to) {
    Job* job = In(id, from);
    if (job != nullptr) job->state = to;
    return job != nullptr;
  }

  bool Take(const CoordinatorStarted& event) {
    if (event.term <= last_term_) return false;
    last_term_ = event.term;
    return true;
  }

  bool Take(const WorkerRegistered& event) {
    if (Living(event.worker) != nullptr) return false;
    workers_[event.worker] = Worker();
    return true;
  }
  bool Take(const WorkerSuspected& event) {
    Worker* worker = Living(event.worker);
    if (worker != nullptr) worker->suspect = true;
    return worker != nullptr;
  }
  bool Take(const WorkerAnswered& event) {
    Worker* worker = Living(event.worker);
    if (worker != nullptr) worker->suspect = false;
    return worker != nullptr;
  }
  bool Take(const WorkerLost& event) {
    Worker* worker = Living(event.worker);
    if (worker == nullptr) return false;
    *worker = Worker();
    worker->lives = false;
    return true;
  }
  bool Take(const WorkerReleased& event) {
    Worker* worker = Living(event.worker);
    if (worker == nullptr || event.job_id.empty() ||
        worker->job != event.job_id) {
      return false;
    }
    worker->job.clear();
    return true;
  }

  bool Take(const JobSubmitted& event) {
    if (event.job_id.empty() || jobs_.count(event.job_id) > 0) return false;
    if (!event.request_id.empty() &&
        !requests_.insert(event.request_id).second) {
      return false;
    }
    jobs_[event.job_id] = Job();
    jobs_[event.job_id].request = event.request_id;
    return true;
  }
  bool Take(const JobPlanning& event) {
    if (!Move(event.job_id, {"QUEUED"}, "PLANNING")) return false;
    jobs_[event.job_id].planned = false;
    return true;
  }
  bool Take(const JobPlanned& event) {
    if (!Move(event.job_id, {"PLANNING"}, "QUEUED")) return false;
    jobs_[event.job_id].planned = true;
    jobs_[event.job_id].first_step = event.first_step;
    return true;
  }
  bool Take(const JobReplanned& event) {
    return In(event.job_id, {"PLACING"}) != nullptr;
  }
  bool Take(const MemoryPredicted& event) {
    const Job* job = In(event.job_id, {"PLACING", "RUNNING"});
    return job != nullptr && event.workers.size() == job->workers;
  }
  bool Take(const JobRescheduleRequested& event) {
    return In(event.job_id, {"RUNNING"}) != nullptr;
  }
  bool Take(const JobRescheduled& event) {
    const Job* job = In(event.job_id, {"RUNNING"});
    return job != nullptr && event.receive_pool_bytes.size() == job->workers;
  }
  bool Take(const JobRefused& event) {
    return Move(event.job_id, {"PLANNING"}, "FAILED");
  }
  bool Take(const JobWaiting& event) {
    return In(event.job_id, {"QUEUED", "RECOVERING"}) != nullptr;
  }
  bool Take(const JobRecovering& event) {
    if (!Move(event.job_id, {"PLACING", "RUNNING"}, "RECOVERING")) {
      return false;
    }
    jobs_[event.job_id].planned = false;
    return true;
  }
  bool Take(const JobRewound& event) {
    Job* job = In(event.job_id, {"RECOVERING"});
    if (job == nullptr || (job->planned && !job->copies) ||
        event.step < job->first_step ||
        event.step > job->first_step + job->steps) {
      return false;
    }
    job->steps = static_cast<int>(event.step - job->first_step);
    job->planned = true;
    job->copies = event.step > 0 && event.checkpoint.empty();
    return true;
  }
  bool Take(const JobPlaced& event) {
    Job* job = In(event.job_id, {"QUEUED", "RECOVERING"});
    if (job == nullptr || !job->planned || event.epoch <= last_epoch_) {
      return false;
    }
    for (const std::string& name : event.workers) {
      const Worker* worker = Living(name);
      if (worker == nullptr || worker->suspect || !worker->job.empty()) {
        return false;
      }
    }
    const std::set<std::string> distinct(event.workers.begin(),
                                         event.workers.end());
    if (distinct.size() != event.workers.size()) return false;
    for (const std::string& name : event.workers) {
      workers_[name].job = event.job_id;
    }
    job->workers = event.workers.size();
    job->state = "PLACING";
    last_epoch_ = event.epoch;
    return true;
  }
  bool Take(const JobRunning& event) {
    Job* job = In(event.job_id, {"PLACING"});
    return job != nullptr && event.receive_pool_bytes.size() == job->workers &&
           Move(event.job_id, {"PLACING"}, "RUNNING");
  }
  bool Take(const StepCommitted& event) {
    Job* job = In(event.job_id, {"RUNNING"});
    if (job == nullptr || event.result.step != job->first_step + job->steps ||
        event.busy_nanoseconds.size() != job->workers) {
      return false;
    }
    ++job->steps;
    return true;
  }
  bool Take(const CheckpointRequested& event) {
    return In(event.job_id, {"RUNNING"}) != nullptr;
  }
  bool Take(const CheckpointStored& event) {
    return In(event.job_id, {"RUNNING"}) != nullptr;
  }
  bool Take(const CheckpointFailed& event) {
    return In(event.job_id, {"RUNNING"}) != nullptr;
  }
  bool Take(const JobFailing& event) {
    return Move(event.job_id, {"PLACING", "RUNNING", "RECOVERING"}, "FAILING");
  }
  bool Take(const JobFailed& event) {
    return Move(event.job_id, {"FAILING"}, "FAILED");
  }
  bool Take(const JobCancelRequested& event) {
    return Move(event.job_id, {"PLACING", "RUNNING", "RECOVERING"},
                "CANCELLING");
  }
  bool Take(const JobCancelled& event) {
    return Move(event.job_id, {"QUEUED", "PLANNING", "CANCELLING"},
                "CANCELLED");
  }
  bool Take(const JobSucceeded& event) {
    return Move(event.job_id, {"RUNNING"}, "SUCCEEDED");
  }

  bool Take(const JobForgotten& event) {
    const Job* job = In(event.job_id, {"SUCCEEDED", "FAILED", "CANCELLED"});
    if (job == nullptr) return false;
    for (const auto& [name, worker] : workers_) {
      if (worker.job == event.job_id) return false;
    }
    requests_.erase(job->request);
    jobs_.erase(event.job_id);
    return true;
  }

  std::map<std::string, Worker> workers_;
  std::map<std::string, Job> jobs_;
  std::set<std::string> requests_;
  Epoch last_epoch_;
  Term last_term_;
};

TEST(ClusterStateModelTest, TakesAndRefusesWhatTheModelDoes) {
  const int cases = PropertyCases();
  int64_t taken = 0;
  for (int seed = 0; seed < cases && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomEvents source(static_cast<uint32_t>(seed));
    ClusterState state;
    Model model;
    for (int i = 0; i < kEvents && !HasFailure(); ++i) {
      const Event event = source.Next(state);
      const bool takes = model.Takes(event);
      EXPECT_EQ(state.Apply(event).ok(), takes)
          << "event " << i << ", kind " << event.body.index();
      taken += takes ? 1 : 0;
      model.ExpectEqual(state);
    }
  }
  // Neither only sense nor only nonsense.
  EXPECT_GT(taken, int64_t{cases} * kEvents / 10);
  EXPECT_LT(taken, int64_t{cases} * kEvents * 9 / 10);
  PrintCases(
      absl::StrCat("sequences of ", kEvents, " events, ", taken, " taken"),
      cases, 0);
}

}  // namespace
}  // namespace stagecoach::coordinator

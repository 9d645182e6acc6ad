#ifndef STAGECOACH_COORDINATOR_JOB_LOGS_H_
#define STAGECOACH_COORDINATOR_JOB_LOGS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/bounded_log.h"
#include "base/ids.h"
#include "coordinator/natural_order.h"

namespace stagecoach::coordinator {

// The workers' logs of all jobs, in memory: what `job logs` shows. Each worker
// of a job has one log, whose offsets never change, also if the job was placed
// on several processes of that name one after the other. Thread-compatible.
class JobLogs {
 public:
  struct Limits {
    // Of one worker and job; above it the oldest bytes go.
    int64_t worker_bytes = 4 << 20;
    // In all; above it the logs of the job that came first go.
    int64_t total_bytes = 128 << 20;
  };
  using Workers = std::map<std::string, BoundedLog, NaturalOrder>;

  JobLogs() : JobLogs(Limits()) {}
  explicit JobLogs(const Limits& limits) : limits_(limits) {}

  // Adds what is new of a piece of a process's own log; returns the offset, in
  // that log, from which the process should go on. A gap is written down as a
  // line that says so.
  int64_t Take(const std::string& job_id, const std::string& worker,
               Incarnation process, int64_t offset, absl::string_view data);

  // Of a job; empty if no worker has sent any.
  const Workers& Of(const std::string& job_id) const;

 private:
  struct Entry {
    Workers workers;
    std::map<Incarnation, int64_t> received;  // by process
    bool in_order = false;
  };

  void DropOldest();

  const Limits limits_;
  std::map<std::string, Entry> jobs_;
  std::deque<std::string> order_;  // jobs whose bytes are kept, oldest first
  int64_t total_bytes_ = 0;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_JOB_LOGS_H_

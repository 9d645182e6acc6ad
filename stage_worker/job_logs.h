#ifndef STAGECOACH_STAGE_WORKER_JOB_LOGS_H_
#define STAGECOACH_STAGE_WORKER_JOB_LOGS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/bounded_log.h"
#include "base/mutex.h"

namespace stagecoach::worker {

// What this process has logged about its last jobs, and how far the coordinator
// has it. One piece is under way at a time, so that a job that logs much takes
// no more of the session than one that logs little. Thread-safe; never blocks.
class JobLogs {
 public:
  // The last bytes of a job that are kept until the coordinator has them, and
  // the last jobs.
  static constexpr int64_t kJobBytes = 1 << 20;
  static constexpr size_t kJobs = 8;
  static constexpr int64_t kChunkBytes = 64 << 10;

  struct Chunk {
    std::string job_id;
    int64_t offset = 0;
    std::string data;
  };

  void Append(absl::string_view job_id, absl::string_view line)
      SC_EXCLUDES(mu_);

  // What to send next; nullopt while a piece is under way or if nothing is new.
  std::optional<Chunk> Next() SC_EXCLUDES(mu_);
  // All that was not sent of a job, whatever is under way.
  std::vector<Chunk> Rest(absl::string_view job_id) SC_EXCLUDES(mu_);
  void Acknowledge(absl::string_view job_id, int64_t next_offset)
      SC_EXCLUDES(mu_);
  // A new session: what was not acknowledged is sent again. All that is kept
  // is, if its coordinator knows nothing yet.
  void Restart(bool from_the_start) SC_EXCLUDES(mu_);

 private:
  struct Job {
    explicit Job(absl::string_view job_id) : id(job_id), log(kJobBytes) {}
    std::string id;
    BoundedLog log;
    int64_t acknowledged = 0;
    int64_t sent = 0;
  };

  Job* Find(absl::string_view job_id) SC_REQUIRES(mu_);
  static Chunk Take(Job* job);

  Mutex mu_;
  std::deque<Job> jobs_ SC_GUARDED_BY(mu_);  // oldest first
  bool under_way_ SC_GUARDED_BY(mu_) = false;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_JOB_LOGS_H_

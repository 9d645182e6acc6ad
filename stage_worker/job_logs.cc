#include "stage_worker/job_logs.h"

#include <algorithm>
#include <utility>

namespace stagecoach::worker {

JobLogs::Job* JobLogs::Find(absl::string_view job_id) {
  for (Job& job : jobs_) {
    if (job.id == job_id) return &job;
  }
  return nullptr;
}

void JobLogs::Append(absl::string_view job_id, absl::string_view line) {
  MutexLock lock(&mu_);
  Job* job = Find(job_id);
  if (job == nullptr) {
    if (jobs_.size() == kJobs) jobs_.pop_front();
    job = &jobs_.emplace_back(job_id);
  }
  job->log.Append(line);
}

JobLogs::Chunk JobLogs::Take(Job* job) {
  BoundedLog::Piece piece = job->log.Read(job->sent, kChunkBytes);
  job->sent = piece.end();
  return Chunk{job->id, piece.offset, std::move(piece.data)};
}

std::optional<JobLogs::Chunk> JobLogs::Next() {
  MutexLock lock(&mu_);
  if (under_way_) return std::nullopt;
  for (Job& job : jobs_) {
    if (job.sent >= job.log.end()) continue;
    under_way_ = true;
    return Take(&job);
  }
  return std::nullopt;
}

std::vector<JobLogs::Chunk> JobLogs::Rest(absl::string_view job_id) {
  MutexLock lock(&mu_);
  std::vector<Chunk> chunks;
  Job* job = Find(job_id);
  while (job != nullptr && job->sent < job->log.end()) {
    chunks.push_back(Take(job));
  }
  return chunks;
}

void JobLogs::Acknowledge(absl::string_view job_id, int64_t next_offset) {
  MutexLock lock(&mu_);
  under_way_ = false;
  Job* job = Find(job_id);
  if (job == nullptr) return;
  job->acknowledged = std::max(job->acknowledged, next_offset);
}

void JobLogs::Restart(bool from_the_start) {
  MutexLock lock(&mu_);
  under_way_ = false;
  for (Job& job : jobs_) {
    if (from_the_start) job.acknowledged = 0;
    job.sent = job.acknowledged;
  }
}

}  // namespace stagecoach::worker

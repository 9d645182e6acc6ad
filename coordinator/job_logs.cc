#include "coordinator/job_logs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stagecoach::coordinator {

int64_t JobLogs::Take(const std::string& job_id, const std::string& worker,
                      Incarnation process, int64_t offset,
                      absl::string_view data) {
  Entry& entry = jobs_[job_id];
  if (!entry.in_order) order_.push_back(job_id);
  entry.in_order = true;
  BoundedLog& log =
      entry.workers.try_emplace(worker, limits_.worker_bytes).first->second;
  int64_t& received = entry.received[process];
  const int64_t before = log.size();
  if (offset > received) {
    log.Append(absl::StrCat("[", offset - received,
                            " bytes of this log are lost: the worker could not "
                            "keep them]\n"));
    received = offset;
  }
  // What is known already comes again after a connection was lost.
  const int64_t known = std::max<int64_t>(0, received - offset);
  if (known < static_cast<int64_t>(data.size())) {
    data.remove_prefix(static_cast<size_t>(known));
    log.Append(data);
    received += static_cast<int64_t>(data.size());
  }
  total_bytes_ += log.size() - before;
  while (total_bytes_ > limits_.total_bytes && order_.size() > 1) DropOldest();
  return received;
}

void JobLogs::DropOldest() {
  Entry& oldest = jobs_.at(order_.front());
  oldest.in_order = false;
  for (auto& [worker, log] : oldest.workers) {
    total_bytes_ -= log.size();
    log.SkipTo(log.end());
  }
  order_.pop_front();
}

const JobLogs::Workers& JobLogs::Of(const std::string& job_id) const {
  static const auto* const none = new Workers;
  auto it = jobs_.find(job_id);
  return it == jobs_.end() ? *none : it->second.workers;
}

}  // namespace stagecoach::coordinator

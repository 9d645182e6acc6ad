#include "coordinator/job_reader.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stagecoach::coordinator {
namespace {

// An event takes some hundred bytes, a message at most 4 MiB.
constexpr int kEventsOfMessage = 1000;
constexpr int64_t kLogBytesOfMessage = 256 << 10;

}  // namespace

bool EventCursor::Next(const JobReading& reading, Response* response) {
  const std::vector<JobHistoryEntry>& history = reading.job.history;
  auto it =
      std::upper_bound(history.begin(), history.end(), revision_,
                       [](int64_t revision, const JobHistoryEntry& entry) {
                         return revision < entry.revision;
                       });
  for (; it != history.end() && response->events_size() < kEventsOfMessage;
       ++it) {
    ToProto(*it, reading.job, response->add_events());
    revision_ = it->revision;
  }
  return response->events_size() > 0;
}

LogCursor::LogCursor(const Request& request) : only_(request.worker()) {
  for (const v1::LogPosition& position : request.from()) {
    offsets_[position.worker()] = std::max<int64_t>(0, position.offset());
  }
}

bool LogCursor::Next(const JobReading& reading, Response* response) {
  const JobLogs::Workers& workers = reading.logs.Of(reading.job.id);
  auto it = workers.upper_bound(last_);
  for (size_t i = 0; i < workers.size(); ++i, ++it) {
    if (it == workers.end()) it = workers.begin();
    if (!only_.empty() && it->first != only_) continue;
    if (NextOf(it->first, it->second, response)) return true;
  }
  return false;
}

bool LogCursor::NextOf(const std::string& worker, const BoundedLog& log,
                       Response* response) {
  int64_t& offset = offsets_[worker];
  BoundedLog::Piece piece = log.Read(offset, kLogBytesOfMessage);
  // Without data still, if bytes that the reader has not had are gone.
  if (piece.offset <= offset && piece.data.empty()) return false;
  offset = piece.end();
  last_ = worker;
  response->mutable_piece()->set_worker(worker);
  response->mutable_piece()->set_offset(piece.offset);
  response->mutable_piece()->set_data(std::move(piece.data));
  return true;
}

absl::Status LogCursor::Check(const JobReading& reading) const {
  if (only_.empty() || reading.job.IndexOf(only_) >= 0 ||
      reading.logs.Of(reading.job.id).count(only_) > 0) {
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const JobWorkerRecord& worker : reading.job.workers) {
    names.push_back(worker.name);
  }
  return absl::NotFoundError(absl::StrCat(
      reading.job.id, " has no worker \"", only_, "\"",
      names.empty() ? "; it was not placed yet"
                    : absl::StrCat("; it has ", absl::StrJoin(names, ", "))));
}

}  // namespace stagecoach::coordinator

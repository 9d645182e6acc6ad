#include "client/output/log_output.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/output/job_output.h"

namespace stagecoach::client {
namespace {

std::string TimeText(const v1::JobEvent& event) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ",
                          absl::FromUnixMicros(event.unix_microseconds()),
                          absl::UTCTimeZone());
}

std::string MessageOf(const v1::JobEvent& event) {
  if (!event.has_result()) return event.message();
  const v1::StepResult& step = event.result();
  if (step.skipped()) return absl::StrCat("step ", step.step(), " skipped");
  return absl::StrFormat("step %d, loss %.4f, %.3f s", step.step(), step.loss(),
                         step.seconds());
}

}  // namespace

Json EventJson(const std::string& job_id, const v1::JobEvent& event) {
  Json json;
  json["revision"] = event.revision();
  json["time"] = TimeText(event);
  json["job_id"] = job_id;
  json["event"] = event.kind();
  json["message"] = MessageOf(event);
  if (event.has_result()) json["step"] = StepJson(event.result());
  if (event.workers_size() > 0) {
    json["workers"] = Json::array();
    for (const auto& worker : event.workers()) {
      json["workers"].push_back(worker);
    }
  }
  if (event.epoch() > 0) json["epoch"] = event.epoch();
  if (event.has_cause()) {
    json["cause"] = CauseJson(event.cause());
    json["victims"] = Json::array();
    for (const auto& victim : event.victims()) {
      json["victims"].push_back(victim);
    }
  }
  return json;
}

std::string EventText(const v1::JobEvent& event) {
  std::string text =
      absl::StrFormat("%s %6d  %-16s %s", TimeText(event), event.revision(),
                      event.kind(), MessageOf(event));
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

Json EndJson(const v1::StreamEnd& end) {
  Json json;
  json["end"] = true;
  json["job_id"] = end.job_id();
  json["state"] = JobStateName(end.state());
  json["over"] = end.over();
  return json;
}

void LogPrinter::StartAt(const std::string& worker, int64_t offset) {
  workers_[worker].next = offset;
}

std::string LogPrinter::Line(const std::string& worker, int64_t offset,
                             const std::string& line) const {
  if (style_ == Style::kPrefixed)
    return absl::StrCat(worker, " | ", line, "\n");
  Json json;
  json["worker"] = worker;
  json["offset"] = offset;
  json["next_offset"] = offset + static_cast<int64_t>(line.size()) + 1;
  json["line"] = line;
  return DumpLine(json);
}

std::string LogPrinter::Print(const v1::LogPiece& piece, int64_t* lost_bytes) {
  Worker& worker = workers_[piece.worker()];
  *lost_bytes = std::max<int64_t>(0, piece.offset() - worker.next);
  std::string text;
  if (*lost_bytes > 0) {
    // The line's own end is among what is lost.
    if (!worker.partial.empty()) {
      text += Line(piece.worker(),
                   worker.next - static_cast<int64_t>(worker.partial.size()),
                   worker.partial);
      worker.partial.clear();
    }
    worker.next = piece.offset();
  }
  const std::string& data = piece.data();
  int64_t offset = worker.next - static_cast<int64_t>(worker.partial.size());
  worker.next += static_cast<int64_t>(data.size());
  if (style_ == Style::kRaw) return data;
  std::string rest = std::move(worker.partial) + data;
  size_t begin = 0;
  for (size_t end = rest.find('\n'); end != std::string::npos;
       end = rest.find('\n', begin)) {
    text += Line(piece.worker(), offset, rest.substr(begin, end - begin));
    offset += static_cast<int64_t>(end + 1 - begin);
    begin = end + 1;
  }
  worker.partial = rest.substr(begin);
  return text;
}

std::string LogPrinter::Flush() {
  std::string text;
  for (auto& [name, worker] : workers_) {
    if (worker.partial.empty()) continue;
    text +=
        Line(name, worker.next - static_cast<int64_t>(worker.partial.size()),
             worker.partial);
    worker.partial.clear();
  }
  return text;
}

}  // namespace stagecoach::client

#ifndef STAGECOACH_CLIENT_OUTPUT_LOG_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_LOG_OUTPUT_H_

#include <cstdint>
#include <map>
#include <string>

#include "client/output/json.h"
#include "stagecoach/v1/job.pb.h"

// A job's events and logs, as they arrive, for people and as one JSON document
// per line.
namespace stagecoach::client {

Json EventJson(const std::string& job_id, const v1::JobEvent& event);
// "2026-11-30T10:00:00.000Z      5  running          transport shm".
std::string EventText(const v1::JobEvent& event);

// {"end": true, "job_id", "state", "over"}: the last line of a stream.
Json EndJson(const v1::StreamEnd& end);

// Makes lines of the pieces of several workers' logs. Pure; thread-compatible.
class LogPrinter {
 public:
  enum class Style {
    kRaw,       // the bytes as they are: of one worker
    kPrefixed,  // "w0 | line"
    kJson,      // {"worker", "offset", "next_offset", "line"}
  };

  explicit LogPrinter(Style style) : style_(style) {}

  // Says from which offset the next piece of a worker is wanted.
  void StartAt(const std::string& worker, int64_t offset);
  // What to print for it. *lost_bytes: how many before it are no longer kept.
  std::string Print(const v1::LogPiece& piece, int64_t* lost_bytes);
  // The unfinished lines, at the end.
  std::string Flush();

 private:
  struct Worker {
    int64_t next = 0;     // offset that the next piece should have
    std::string partial;  // an unfinished line, which ends at `next`
  };

  std::string Line(const std::string& worker, int64_t offset,
                   const std::string& line) const;

  const Style style_;
  std::map<std::string, Worker> workers_;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_LOG_OUTPUT_H_

#ifndef STAGECOACH_BASE_LOG_H_
#define STAGECOACH_BASE_LOG_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Structured log lines on stderr, as text or as JSON. Thread-safe.
//
//   LogFields fields;
//   fields.job = job_id;
//   fields.step = 3;
//   LogInfo("step committed", fields);
//
// No macros: torch's headers define the usual ones.
namespace stagecoach {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// What a line is about; fields left alone are not printed.
struct LogFields {
  absl::string_view job = {};
  int64_t epoch = -1;
  int64_t step = -1;
  int32_t stage = -1;
  absl::string_view worker = {};
};

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  bool json = false;
  // Put before each line, for example "coordinator" or "worker w1".
  std::string process;
  // Gets each line that is written, with its newline, on the thread that wrote
  // it. Must not block and not log.
  std::function<void(const LogFields& fields, absl::string_view line)> observer;
};

// "debug", "info", "warning", "error", "off".
bool ParseLogLevel(absl::string_view text, LogLevel* level);

// Call once at start; before it, lines of level info and above go out as text.
void InitLog(const LogOptions& options);

void LogDebug(absl::string_view message, const LogFields& fields = {});
void LogInfo(absl::string_view message, const LogFields& fields = {});
void LogWarning(absl::string_view message, const LogFields& fields = {});
void LogError(absl::string_view message, const LogFields& fields = {});

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_LOG_H_

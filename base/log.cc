#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "nlohmann/json.hpp"

namespace stagecoach {
namespace {

struct Logger {
  explicit Logger(LogOptions log_options);

  const LogOptions options;
  spdlog::logger sink;
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

absl::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      break;
  }
  return "off";
}

Logger::Logger(LogOptions log_options)
    : options(std::move(log_options)),
      sink("stagecoach", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
  sink.set_pattern("%v");
  sink.set_level(ToSpdlog(options.level));
}

// The logger in use. A line keeps the one that it started with.
class CurrentLogger {
 public:
  std::shared_ptr<Logger> Get() {
    MutexLock lock(&mu_);
    return logger_;
  }
  void Set(std::shared_ptr<Logger> logger) {
    MutexLock lock(&mu_);
    logger_.swap(logger);
  }

 private:
  Mutex mu_;
  std::shared_ptr<Logger> logger_ SC_GUARDED_BY(mu_) =
      std::make_shared<Logger>(LogOptions());
};

// Never deleted: threads may log while the process ends.
CurrentLogger& Current() {
  static auto* const current = new CurrentLogger;
  return *current;
}

std::string Now() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                          absl::UTCTimeZone());
}

std::string TextLine(const Logger& logger, LogLevel level,
                     absl::string_view message, const LogFields& fields) {
  std::string line = absl::StrCat(Now(), " ", LevelName(level), " ");
  if (!logger.options.process.empty()) {
    absl::StrAppend(&line, logger.options.process, ": ");
  }
  // What follows the first line is indented: no message can look like two.
  absl::StrAppend(&line, absl::StrReplaceAll(message, {{"\n", "\n    "}}));
  if (!fields.job.empty()) absl::StrAppend(&line, " job=", fields.job);
  if (fields.epoch >= 0) absl::StrAppend(&line, " epoch=", fields.epoch);
  if (fields.step >= 0) absl::StrAppend(&line, " step=", fields.step);
  if (fields.stage >= 0) absl::StrAppend(&line, " stage=", fields.stage);
  if (!fields.worker.empty()) absl::StrAppend(&line, " worker=", fields.worker);
  return line;
}

std::string JsonLine(const Logger& logger, LogLevel level,
                     absl::string_view message, const LogFields& fields) {
  nlohmann::ordered_json line;
  line["time"] = Now();
  line["level"] = std::string(LevelName(level));
  if (!logger.options.process.empty()) {
    line["process"] = logger.options.process;
  }
  line["message"] = std::string(message);
  if (!fields.job.empty()) line["job"] = std::string(fields.job);
  if (fields.epoch >= 0) line["epoch"] = fields.epoch;
  if (fields.step >= 0) line["step"] = fields.step;
  if (fields.stage >= 0) line["stage"] = fields.stage;
  if (!fields.worker.empty()) line["worker"] = std::string(fields.worker);
  // A message may hold bytes that are not UTF-8, a file's name for example.
  return line.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

void Log(LogLevel level, absl::string_view message, const LogFields& fields) {
  const std::shared_ptr<Logger> logger = Current().Get();
  const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
  if (!logger->sink.should_log(spdlog_level)) return;
  std::string line = logger->options.json
                         ? JsonLine(*logger, level, message, fields)
                         : TextLine(*logger, level, message, fields);
  logger->sink.log(spdlog_level, spdlog::string_view_t(line));
  if (logger->options.observer == nullptr) return;
  line += '\n';
  logger->options.observer(fields, line);
}

}  // namespace

bool ParseLogLevel(absl::string_view text, LogLevel* level) {
  for (const LogLevel candidate :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError,
        LogLevel::kOff}) {
    if (LevelName(candidate) != text) continue;
    *level = candidate;
    return true;
  }
  return false;
}

void InitLog(const LogOptions& options) {
  Current().Set(std::make_shared<Logger>(options));
}

void LogDebug(absl::string_view message, const LogFields& fields) {
  Log(LogLevel::kDebug, message, fields);
}

void LogInfo(absl::string_view message, const LogFields& fields) {
  Log(LogLevel::kInfo, message, fields);
}

void LogWarning(absl::string_view message, const LogFields& fields) {
  Log(LogLevel::kWarning, message, fields);
}

void LogError(absl::string_view message, const LogFields& fields) {
  Log(LogLevel::kError, message, fields);
}

}  // namespace stagecoach

// The coordinator's process: flags, signals, exit code.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "base/notification.h"
#include "base/process.h"
#include "base/version.h"
#include "coordinator/coordinator.h"

namespace stagecoach::coordinator {
namespace {

constexpr char kExamples[] = R"(
examples:
  stagecoach-coordinator
      listens on 127.0.0.1:7070; start workers with
      stagecoach-worker --coordinator 127.0.0.1:7070 --name w0
  stagecoach-coordinator --listen 127.0.0.1:0
      takes a free port and prints "listening on 127.0.0.1:PORT"
  stagecoach-coordinator --listen unix:/run/stagecoach.sock
  stagecoach-coordinator --heartbeat 200ms --suspect 1s --dead 3s

exit codes: 0 stopped by a signal, 1 internal, 2 usage or address,
4 not allowed to listen there, 6 the port is taken)";

// A shutdown that takes longer is ended by force.
constexpr absl::Duration kShutdownLimit = absl::Seconds(9);

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return 2;
    case absl::StatusCode::kPermissionDenied:
      return 4;
    case absl::StatusCode::kAlreadyExists:
      return 6;
    default:
      return 1;
  }
}

struct Flags {
  std::string listen = "127.0.0.1:7070";
  bool allow_plaintext = false;
  std::string heartbeat = "500ms";
  std::string suspect = "2s";
  std::string dead = "6s";
  std::string log_level = "info";
  bool log_json = false;
  pid_t parent = 0;
};

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration > absl::ZeroDuration() &&
      duration < absl::InfiniteDuration()) {
    return "";
  }
  return absl::StrCat("\"", text, "\" is not a duration like 500ms or 2s");
}

std::string CheckLogLevel(const std::string& text) {
  LogLevel level;
  if (ParseLogLevel(text, &level)) return "";
  return absl::StrCat("\"", text,
                      "\" is not one of debug, info, warning, error, off");
}

void AddFlags(CLI::App* app, Flags* flags) {
  app->set_version_flag("--version",
                        absl::StrCat("stagecoach-coordinator ", kVersion,
                                     " (protocol ", kProtocolVersion, ")"));
  app->add_option("--listen", flags->listen,
                  "where to listen: HOST:PORT or unix:PATH; port 0 takes a "
                  "free one")
      ->capture_default_str();
  app->add_flag("--allow-plaintext", flags->allow_plaintext,
                "listen beyond this machine without encryption or "
                "authentication");
  const CLI::Validator duration(CheckDuration, "DURATION");
  app->add_option("--heartbeat", flags->heartbeat,
                  "how often workers report that they live")
      ->check(duration)
      ->capture_default_str();
  app->add_option("--suspect", flags->suspect,
                  "silence after which a worker gets no new job")
      ->check(duration)
      ->capture_default_str();
  app->add_option("--dead", flags->dead,
                  "silence after which a worker counts as lost")
      ->check(duration)
      ->capture_default_str();
  app->add_option("--log-level", flags->log_level,
                  "debug, info, warning, error or off")
      ->check(CLI::Validator(CheckLogLevel, "LEVEL"))
      ->capture_default_str();
  app->add_flag("--log-json", flags->log_json, "log as JSON, one line each");
  app->add_option("--die-with-parent", flags->parent,
                  "end when the process with this id, our parent, ends");
  app->footer(kExamples);
}

absl::Duration ToDuration(const std::string& text) {
  absl::Duration duration;
  absl::ParseDuration(text, &duration);
  return duration;
}

Coordinator::Options ToOptions(const Flags& flags) {
  Coordinator::Options options;
  options.listen = flags.listen;
  options.allow_plaintext = flags.allow_plaintext;
  options.controller.heartbeat = ToDuration(flags.heartbeat);
  options.controller.suspect = ToDuration(flags.suspect);
  options.controller.dead = ToDuration(flags.dead);
  return options;
}

void StartLog(const Flags& flags) {
  LogOptions log;
  ParseLogLevel(flags.log_level, &log.level);
  log.json = flags.log_json;
  log.process = "coordinator";
  InitLog(log);
}

// Serves until a signal comes; a second signal ends the process at once.
int Serve(const Flags& flags) {
  // Lives for ever, as the thread that waits for signals does.
  static auto* const stop = new Notification;
  OnTerminationSignal([](int signal) {
    if (stop->HasBeenNotified()) std::_Exit(128 + signal);
    stop->Notify();
  });
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator =
      Coordinator::Start(ToOptions(flags));
  if (!coordinator.ok()) {
    std::fprintf(stderr, "stagecoach-coordinator: %s\n",
                 std::string(coordinator.status().message()).c_str());
    return ExitCodeOf(coordinator.status());
  }
  std::printf("listening on %s\n", (*coordinator)->address().c_str());
  std::fflush(stdout);
  stop->WaitForNotification();
  LogInfo("shutting down; workers stay and wait for the next coordinator");
  static auto* const done = new Notification;
  std::thread([] {
    if (done->WaitForNotificationWithTimeout(kShutdownLimit)) return;
    LogError("the shutdown hangs; ending the process");
    std::_Exit(1);
  }).detach();
  (*coordinator)->Shutdown();
  coordinator->reset();
  done->Notify();
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Plans jobs, places them on stage workers and follows them.",
               "stagecoach-coordinator");
  Flags flags;
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  DieWithParent(flags.parent);
  StartLog(flags);
  return Serve(flags);
}

}  // namespace
}  // namespace stagecoach::coordinator

int main(int argc, char** argv) {
  return stagecoach::coordinator::Main(argc, argv);
}

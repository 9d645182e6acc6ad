// The coordinator's process: flags, signals, exit code.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/failpoint_server.h"
#include "base/log.h"
#include "base/notification.h"
#include "base/process.h"
#include "base/tls_files.h"
#include "base/version.h"
#include "coordinator/coordinator.h"
#include "coordinator/journal/sqlite_journal.h"
#include "rpc/tls_flags.h"

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
  stagecoach-coordinator --listen 0.0.0.0:7070 --tls-authority ca.pem
      --tls-certificate node.pem --tls-key node.key
      serves other machines; workers and commands show certificates, too
  stagecoach-coordinator --heartbeat 200ms --suspect 1s --dead 3s
  stagecoach-coordinator --data-directory /var/lib/stagecoach
      jobs, workers and commands outlive it: when it is started again, workers
      come back and running steps go on
  stagecoach-coordinator check /var/lib/stagecoach
  stagecoach-coordinator repair /var/lib/stagecoach

exit codes: 0 stopped by a signal, 1 internal, the disk, a damaged journal,
2 usage or address, 4 not allowed to listen there, 6 the port is taken, or the
data directory is in use)";

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
  std::string data_directory;
  size_t keep_jobs = ControllerOptions().keep_jobs;
  bool allow_plaintext = false;
  TlsFiles tls;
  std::string heartbeat = "500ms";
  std::string suspect = "2s";
  std::string dead = "6s";
  std::string recovery_wait = "60s";
  std::string stuck_wait = "60s";
  std::string stuck_first_wait = "30m";
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
  rpc::AddTlsFlags(app, &flags->tls);
  app->add_option("--data-directory", flags->data_directory,
                  "where jobs and commands are kept; without it they end with "
                  "this process")
      ->type_name("DIR");
  app->add_option("--keep-jobs", flags->keep_jobs,
                  "how many finished jobs are remembered")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
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
  app->add_option("--recovery-wait", flags->recovery_wait,
                  "how long a job that lost a worker waits for another one")
      ->check(duration)
      ->capture_default_str();
  app->add_option("--stuck-wait", flags->stuck_wait,
                  "how long a worker may be in one action, and all workers of "
                  "a job may wait for each other; at least 20 times the "
                  "longest of the last steps")
      ->check(duration)
      ->capture_default_str();
  app->add_option("--stuck-first-wait", flags->stuck_first_wait,
                  "how long a worker may be in one action of the first step "
                  "after it was placed")
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
  options.data_directory = flags.data_directory;
  options.controller.keep_jobs = flags.keep_jobs;
  options.controller.heartbeat = ToDuration(flags.heartbeat);
  options.controller.suspect = ToDuration(flags.suspect);
  options.controller.dead = ToDuration(flags.dead);
  options.controller.reconnect_wait = options.controller.dead;
  options.controller.recovery_wait = ToDuration(flags.recovery_wait);
  options.controller.stuck_wait = ToDuration(flags.stuck_wait);
  options.controller.stuck_first_wait = ToDuration(flags.stuck_first_wait);
  return options;
}

void StartLog(const Flags& flags) {
  LogOptions log;
  ParseLogLevel(flags.log_level, &log.level);
  log.json = flags.log_json;
  log.process = "coordinator";
  InitLog(log);
}

int Fail(int code, const absl::Status& status) {
  std::fprintf(stderr, "stagecoach-coordinator: %s\n",
               std::string(status.message()).c_str());
  return code;
}

// What the flags say of a data directory, in one line.
int Maintain(const absl::StatusOr<std::string>& result) {
  if (result.ok()) {
    std::printf("%s\n", result->c_str());
    return 0;
  }
  return Fail(ExitCodeOf(result.status()), result.status());
}

// Serves until a signal comes, or the journal fails; a second signal ends the
// process at once.
int Serve(const Flags& flags) {
  // Lives for ever, as the thread that waits for signals does.
  static auto* const stop = new Notification;
  static std::atomic<bool> failed = false;
  OnTerminationSignal([](int signal) {
    if (stop->HasBeenNotified()) std::_Exit(128 + signal);
    stop->Notify();
  });
  Coordinator::Options options = ToOptions(flags);
  options.controller.on_failure = [](const absl::Status& /*status*/) {
    failed = true;
    if (!stop->HasBeenNotified()) stop->Notify();
  };
  if (const absl::Status status = rpc::UseTlsOf(flags.tls); !status.ok()) {
    return Fail(2, status);
  }
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator =
      Coordinator::Start(options);
  if (!coordinator.ok()) {
    return Fail(ExitCodeOf(coordinator.status()), coordinator.status());
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
  return failed ? 1 : 0;
}

int Main(int argc, char** argv) {
  CLI::App app("Plans jobs, places them on stage workers and follows them.",
               "stagecoach-coordinator");
  Flags flags;
  AddFlags(&app, &flags);
  std::string checked;
  std::string repaired;
  app.add_subcommand("check", "say whether a data directory is sound")
      ->fallthrough()
      ->add_option("DIR", checked)
      ->required();
  app.add_subcommand("repair", "cut off the damaged end of a journal")
      ->fallthrough()
      ->add_option("DIR", repaired)
      ->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  DieWithParent(flags.parent);
  StartLog(flags);
  if (const absl::Status status = ServeFailpoints(); !status.ok()) {
    return Fail(2, status);
  }
  if (!checked.empty()) return Maintain(CheckDataDirectory(checked));
  if (!repaired.empty()) return Maintain(RepairDataDirectory(repaired));
  return Serve(flags);
}

}  // namespace
}  // namespace stagecoach::coordinator

int main(int argc, char** argv) try {
  return stagecoach::coordinator::Main(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "stagecoach-coordinator: internal error: %s\n",
               error.what());
  return 1;
}

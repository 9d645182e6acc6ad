// One coordinator under many workers: its share of a core, its memory, and how
// long it takes to see what happens.
//
//   bazel run //benchmarks/coordinator_load -- [--workers N] [--jobs N]
//       [--step-ms N] [--seconds N]
//
// The coordinator is the real program in a process of its own, with a journal
// in a temporary folder; the workers are simulated in this process, each with
// its own connection. Prints a line for each phase. Exit code 1 if a job is not
// where it has to be.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/process.h"
#include "base/tls_files.h"
#include "benchmarks/coordinator_load/simulated_workers.h"
#include "client/job_client.h"
#include "coordinator/test_spec.h"

namespace stagecoach::benchmarks {
namespace {

struct Flags {
  std::string coordinator;
  int workers = 1000;
  int jobs = 100;
  int step_milliseconds = 1000;
  int seconds = 30;
};

// What the coordinator's process has used up.
struct Usage {
  double cpu_seconds = 0;
  double resident_mib = 0;
};

Usage UsageOf(pid_t pid) {
  Usage usage;
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(stat, text);
  // After the name in parentheses: state is field 3, user and system time 14
  // and 15, resident pages 24 (proc(5)).
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; fields >> field; ++i) {
    if (i == 14 || i == 15) {
      usage.cpu_seconds +=
          std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
    if (i == 24) {
      usage.resident_mib = std::stod(field) *
                           static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576;
    }
  }
  return usage;
}

class Load {
 public:
  explicit Load(const Flags& flags) : flags_(flags) {}
  bool Run();

 private:
  // Runs `work` and prints what it took.
  void Phase(const char* name, const std::function<void()>& work);
  // Until `done`, at most a minute; notes a failure otherwise.
  void Await(const char* what, const std::function<bool()>& done);
  int JobsIn(v1::JobState state);
  std::string Submit(int workers);

  const Flags flags_;
  pid_t coordinator_ = 0;
  SimulatedWorkers* workers_ = nullptr;
  client::JobClient* client_ = nullptr;
  bool failed_ = false;
};

void Load::Phase(const char* name, const std::function<void()>& work) {
  const absl::Time start = absl::Now();
  const Usage before = UsageOf(coordinator_);
  const int64_t beats = workers_->heartbeats();
  const int64_t steps = workers_->steps();
  work();
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const Usage after = UsageOf(coordinator_);
  std::printf("%-34s %8.2f %7.1f %% %9.1f %10.0f %12.0f\n", name, seconds,
              100 * (after.cpu_seconds - before.cpu_seconds) / seconds,
              after.resident_mib,
              static_cast<double>(workers_->heartbeats() - beats) / seconds,
              static_cast<double>(workers_->steps() - steps) / seconds);
  std::fflush(stdout);
}

void Load::Await(const char* what, const std::function<bool()>& done) {
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (!done()) {
    if (absl::Now() > give_up) {
      std::printf("not within a minute: %s\n", what);
      failed_ = true;
      return;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

int Load::JobsIn(v1::JobState state) {
  const auto jobs = client_->List();
  if (!jobs.ok()) return -1;
  return static_cast<int>(
      std::count_if(jobs->jobs().begin(), jobs->jobs().end(),
                    [&](const v1::Job& job) { return job.state() == state; }));
}

std::string Load::Submit(int workers) {
  job::JobSpec spec = coordinator::TinyJob(workers, /*steps=*/1'000'000);
  spec.model.layers = workers;
  spec.pipeline.split.assign(static_cast<size_t>(workers), 1);
  v1::JobSpec proto;
  job::ToProto(spec, &proto);
  const auto id = client_->Submit(proto);
  if (id.ok()) return *id;
  std::printf("a job is refused: %s\n", id.status().ToString().c_str());
  failed_ = true;
  return "";
}

bool Load::Run() {
  std::string folder =
      absl::StrCat(std::filesystem::temp_directory_path().string(),
                   "/coordinator_load_XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) return false;
  SpawnOptions spawn;
  spawn.program = flags_.coordinator;
  spawn.arguments = {"--listen",       "127.0.0.1:0", "--data-directory",
                     folder + "/data", "--log-level", "error"};
  spawn.pipe_stdout = true;
  auto process = ChildProcess::Spawn(spawn);
  if (!process.ok()) {
    std::printf("%s\n", process.status().ToString().c_str());
    return false;
  }
  const auto line = process->ReadLine(absl::Seconds(20));
  if (!line.ok()) return false;
  const std::string address(absl::StripPrefix(*line, "listening on "));
  coordinator_ = process->pid();
  client::JobClient client(address);
  client_ = &client;

  std::printf("%d workers, %d jobs of %d workers, a step takes %d ms\n\n",
              flags_.workers, flags_.jobs, flags_.workers / flags_.jobs,
              flags_.step_milliseconds);
  std::printf("%-34s %8s %9s %9s %10s %12s\n", "coordinator", "seconds",
              "of a core", "MiB", "beats/s", "step reports/s");
  SimulatedWorkers::Options options;
  options.coordinator = address;
  options.count = flags_.workers;
  options.step_time = absl::Milliseconds(flags_.step_milliseconds);
  {
    SimulatedWorkers workers(options);
    workers_ = &workers;
    Phase("all register", [&] {
      Await("every worker is registered",
            [&] { return workers.registered() == flags_.workers; });
    });
    Phase("idle", [&] { absl::SleepFor(absl::Seconds(flags_.seconds)); });
    Phase("all jobs from submit to running", [&] {
      for (int i = 0; i < flags_.jobs; ++i) {
        Submit(flags_.workers / flags_.jobs);
      }
      Await("every job runs",
            [&] { return JobsIn(v1::JOB_STATE_RUNNING) == flags_.jobs; });
    });
    Phase("stepping", [&] { absl::SleepFor(absl::Seconds(flags_.seconds)); });
    Phase("one worker dies, its job has ended", [&] {
      workers.Kill(0);
      Await("one job has failed",
            [&] { return JobsIn(v1::JOB_STATE_FAILED) == 1; });
    });
    Phase("all workers restart, none is lost", [&] {
      workers.RestartAll();
      Await("every job has failed",
            [&] { return JobsIn(v1::JOB_STATE_FAILED) == flags_.jobs; });
      Await("every worker is back",
            [&] { return workers.registered() == flags_.workers - 1; });
    });
  }
  process->Stop(absl::Seconds(5));
  std::filesystem::remove_all(folder);
  return !failed_;
}

}  // namespace
}  // namespace stagecoach::benchmarks

// NOLINTNEXTLINE(bugprone-exception-escape): whoever measures sees what it
// says.
int main(int argc, char** argv) {
  stagecoach::benchmarks::Flags flags;
  flags.coordinator = absl::StrCat(stagecoach::ExecutableFolder(),
                                   "/../../coordinator/stagecoach-coordinator");
  CLI::App app("One coordinator under many simulated workers.");
  app.add_option("--coordinator", flags.coordinator, "the program")
      ->check(CLI::ExistingFile);
  app.add_option("--workers", flags.workers)->check(CLI::PositiveNumber);
  app.add_option("--jobs", flags.jobs)->check(CLI::PositiveNumber);
  app.add_option("--step-ms", flags.step_milliseconds,
                 "that a step's compute takes")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", flags.seconds, "of the phases that only measure")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  // The simulated workers are plain ones.
  for (const stagecoach::TlsFlag& flag : stagecoach::kTlsFlags) {
    unsetenv(flag.variable);
  }
  return stagecoach::benchmarks::Load(flags).Run() ? 0 : 1;
}

// Plays the coordinator (with --listen) and the workers (with --coordinator) of
// a local cluster in tests.
//
// FAKE_COORDINATOR says what becomes of a submitted job:
//   succeeds    two steps, then SUCCEEDED; the same numbers for every spec
//   differs     the same, but another loss in step 1 with several workers
//   fails       worker w1 is lost in step 1
//   queues      stays QUEUED until it is cancelled
//   runs        stays RUNNING until it is cancelled
//   dies        becomes RUNNING, then the coordinator ends once it is watched
// or of the coordinator:
//   exits       complains and ends with 3
//   silent      never says where it listens
// A worker with --profile says that each of four layers costs 10 ms forward and
// 20 ms backward, and the head twice that.
// One with --generate prints the bytes of FAKE_GENERATED (default " and on.")
// as tokens and ends, or with FAKE_WORKER = hangs waits after them.
// FAKE_WORKER: waits, exits (complains, ends with 2), ignores-term, stops
//
// With --version both say FAKE_VERSION, or what goes with the client; with
// --check the worker says what it has, or FAKE_CHECK = fails, that it fails;
// it never has a GPU.
//
// FAKE_FIFO is a named pipe that stays open for writing as long as the process
// lives; lines: "coordinator PID", "worker PID", "watched".
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/process.h"
#include "base/tls_files.h"
#include "base/version.h"
#include "client/testing/fake_coordinator.h"
#include "client/testing/sample_messages.h"
#include "rpc/tls_flags.h"

namespace stagecoach::client {
namespace {

int fifo = -1;

std::string Environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : value;
}

void Tell(const std::string& line) {
  if (fifo < 0) return;
  const std::string text = line + "\n";
  if (write(fifo, text.data(), text.size()) < 0) _exit(9);
}

[[noreturn]] void WaitForEver() {
  while (true) pause();
}

[[noreturn]] void Complain(const char* what, int exit_code) {
  std::fprintf(stderr, "fake: %s\n", what);
  _exit(exit_code);
}

v1::Job Ended(const v1::Job& submitted, v1::Job sample) {
  sample.set_id(submitted.id());
  sample.set_name(submitted.name());
  sample.set_schedule(submitted.schedule());
  sample.set_release(submitted.release());
  *sample.mutable_spec() = submitted.spec();
  return sample;
}

void SetFate(const std::string& fate, FakeCoordinator* coordinator) {
  coordinator->on_submit = [fate, coordinator](v1::Job job) {
    if (fate == "queues") return;
    job.set_state(v1::JOB_STATE_RUNNING);
    coordinator->Put(job);
    if (fate == "succeeds") coordinator->Put(Ended(job, SucceededJob()));
    if (fate == "fails") coordinator->Put(Ended(job, FailedJob()));
    if (fate == "differs") {
      v1::Job sample = SucceededJob();
      if (job.spec().pipeline().workers() > 1) {
        sample.mutable_steps(1)->set_loss(0.25);
      }
      coordinator->Put(Ended(job, sample));
    }
  };
  coordinator->on_watch = [fate] {
    Tell("watched");
    if (fate == "dies") Complain("out of order", 3);
  };
}

[[noreturn]] void RunCoordinator() {
  const std::string fate = Environment("FAKE_COORDINATOR", "succeeds");
  Tell(absl::StrCat("coordinator ", getpid()));
  if (fate == "exits") Complain("no such flag", 3);
  if (fate == "silent") WaitForEver();
  if (!rpc::UseTlsOf(TlsFilesOfEnvironment()).ok()) Complain("no TLS", 3);
  FakeCoordinator coordinator;
  SetFate(fate, &coordinator);
  std::printf("fake coordinator\nlistening on %s\n",
              coordinator.Start().c_str());
  std::fflush(stdout);
  WaitForEver();
}

[[noreturn]] void PrintProfile() {
  const std::string layer =
      R"({"forwardSeconds":0.01,"backwardSeconds":0.02,)"
      R"("backwardInputSeconds":0.011,"backwardWeightSeconds":0.012,)"
      R"("inFlightBytes":"1000"})";
  std::printf(R"({"layers":[%s,%s,%s,%s],"head":{"forwardSeconds":0.02,)"
              R"("backwardSeconds":0.04,"backwardInputSeconds":0.022,)"
              R"("backwardWeightSeconds":0.024},"copySeconds":0.0001})"
              "\n",
              layer.c_str(), layer.c_str(), layer.c_str(), layer.c_str());
  std::fflush(stdout);
  _exit(0);
}

[[noreturn]] void PrintGenerated(bool hang) {
  for (const char byte : Environment("FAKE_GENERATED", " and on.")) {
    std::printf("%d\n", static_cast<unsigned char>(byte));
    std::fflush(stdout);
  }
  if (hang) {
    Tell("hangs");
    WaitForEver();
  }
  _exit(0);
}

[[noreturn]] void RunWorker(const std::string& task) {
  const std::string behaviour = Environment("FAKE_WORKER", "waits");
  if (behaviour == "ignores-term") signal(SIGTERM, SIG_IGN);
  Tell(absl::StrCat("worker ", getpid()));
  if (behaviour == "exits") Complain("the port is taken", 2);
  if (behaviour == "stops") raise(SIGSTOP);
  if (task == "--profile") PrintProfile();
  if (task == "--generate") PrintGenerated(behaviour == "hangs");
  WaitForEver();
}

[[noreturn]] void Say(const std::string& words) {
  std::printf("%s\n", words.c_str());
  std::fflush(stdout);
  _exit(0);
}

// What is asked of the program itself.
void AnswerQuestions(const std::vector<std::string>& arguments) {
  const auto has = [&](const char* word) {
    return std::find(arguments.begin(), arguments.end(), word) !=
           arguments.end();
  };
  if (has("--version")) {
    Say(Environment(
        "FAKE_VERSION",
        absl::StrCat(kVersion, " (protocol ", kProtocolVersion, ")").c_str()));
  }
  if (!has("--check")) return;
  if (Environment("FAKE_CHECK", "") == "fails") {
    Complain("libtorch_cpu.so: cannot open shared object file", 2);
  }
  if (has("cuda:0")) Complain("there is no usable GPU", 2);
  Say("engine torch\ndevice cpu\ntorch 2.11.0");
}

int Run(const std::vector<std::string>& arguments) {
  AnswerQuestions(arguments);
  bool is_coordinator = false;
  std::string task;  // what a worker is to do besides waiting
  for (const std::string& argument : arguments) {
    absl::string_view text = argument;
    pid_t parent = 0;
    if (absl::ConsumePrefix(&text, "--die-with-parent=") &&
        absl::SimpleAtoi(text, &parent)) {
      DieWithParent(parent);
    }
    is_coordinator = is_coordinator || argument == "--listen";
    if (argument == "--profile" || argument == "--generate") task = argument;
  }
  const std::string path = Environment("FAKE_FIFO", "");
  if (!path.empty()) fifo = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (is_coordinator) RunCoordinator();
  RunWorker(task);
}

}  // namespace
}  // namespace stagecoach::client

int main(int argc, char** argv) {
  return stagecoach::client::Run(std::vector<std::string>(argv, argv + argc));
}

// Plays the parts of the processes that process_test.cc starts:
//
//   echo WORD...      prints its arguments, one per line, and ends with 7
//   getenv NAME       prints an environment variable
//   reverse           answers each line of stdin with its reverse
//   deaf              closes stdin, then prints "ready" and waits
//   complain          writes to stderr
//   wait              prints "ready" and waits for a signal
//   ignore-term       the same, but SIGTERM does nothing
//   middle            starts `orphan`, whose stdout is its own, and waits
//   orphan            dies with its parent; stops itself after "ready"
//   late-orphan       claims a parent that is not its own
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/process.h"

namespace stagecoach {
namespace {

void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void WaitForEver() {
  while (true) pause();
}

pid_t ParentFlag(absl::string_view flag) {
  pid_t parent = 0;
  if (!absl::ConsumePrefix(&flag, "--die-with-parent=") ||
      !absl::SimpleAtoi(flag, &parent)) {
    return -1;
  }
  return parent;
}

[[noreturn]] void Middle() {
  SpawnOptions options;
  options.program = ExecutableFolder() + "/process_test_child";
  options.arguments = {"orphan"};
  const auto child = ChildProcess::Spawn(options);
  if (!child.ok()) _exit(1);
  WaitForEver();
}

int Run(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string part = argv[1];
  if (part == "echo") {
    for (int i = 2; i < argc; ++i) Print(argv[i]);
    return 7;
  }
  if (part == "reverse") {
    for (std::string line; std::getline(std::cin, line);) {
      Print(std::string(line.rbegin(), line.rend()));
    }
    return 0;
  }
  if (part == "deaf") {
    close(STDIN_FILENO);
    Print("ready");
    WaitForEver();
  }
  if (part == "getenv") {
    const char* value = std::getenv(argv[2]);
    Print(value == nullptr ? "unset" : value);
    return 0;
  }
  if (part == "complain") {
    std::fputs("complaint\n", stderr);
    return 0;
  }
  if (part == "ignore-term") signal(SIGTERM, SIG_IGN);
  if (part == "wait" || part == "ignore-term") {
    Print("ready");
    WaitForEver();
  }
  if (part == "middle") Middle();
  if (part == "late-orphan") {
    DieWithParent(1);
    Print("still here");
    return 0;
  }
  if (part == "orphan") {
    DieWithParent(ParentFlag(argv[argc - 1]));
    Print("ready");
    raise(SIGSTOP);
    return 0;
  }
  return 2;
}

}  // namespace
}  // namespace stagecoach

int main(int argc, char** argv) { return stagecoach::Run(argc, argv); }

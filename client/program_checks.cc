#include "client/program_checks.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/status.h"
#include "base/version.h"
#include "client/child_log.h"

namespace stagecoach::client {
namespace {

constexpr absl::Duration kVersionTimeout = absl::Seconds(20);
// Loading libtorch from a cold disk takes long.
constexpr absl::Duration kEngineTimeout = absl::Minutes(2);
constexpr int kTailLines = 5;

// Its last words, on one line, without the program's name in front.
std::string LastWords(const ChildLog& log, absl::string_view program) {
  const std::string tail = log.Tail(kTailLines);
  absl::string_view words = absl::StripAsciiWhitespace(tail);
  if (const size_t name = words.rfind(absl::StrCat(program, ": "));
      name != absl::string_view::npos) {
    words.remove_prefix(name + program.size() + 2);
  }
  return absl::StrJoin(absl::StrSplit(words, '\n'), " ");
}

absl::string_view BaseName(absl::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

absl::StatusOr<std::string> OutputOf(const std::string& program,
                                     const std::vector<std::string>& arguments,
                                     absl::Duration timeout) {
  const absl::Time deadline = Clock::Real()->Now() + timeout;
  SC_ASSIGN_OR_RETURN(const ChildLog log, ChildLog::Temporary());
  SpawnOptions spawn;
  spawn.program = program;
  spawn.arguments = arguments;
  spawn.stderr_file = log.path();
  spawn.pipe_stdout = true;
  SC_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Spawn(spawn));
  const auto left = [deadline] {
    return std::max(deadline - Clock::Real()->Now(), absl::ZeroDuration());
  };
  std::string output;
  while (true) {
    const absl::StatusOr<std::string> line = child.ReadLine(left());
    // Its end; or the time is up, which the wait says.
    if (!line.ok()) break;
    absl::StrAppend(&output, *line, "\n");
  }
  SC_ASSIGN_OR_RETURN(const int exit_code, child.Wait(left()));
  if (exit_code == 0) return output;
  const std::string words = LastWords(log, BaseName(program));
  return absl::InternalError(
      words.empty() ? absl::StrCat("ended with exit code ", exit_code) : words);
}

Finding JudgeVersion(const std::string& program, const std::string& path,
                     const std::string& words) {
  const std::string ours =
      absl::StrCat(kVersion, " (protocol ", kProtocolVersion, ")");
  absl::string_view theirs = absl::StripAsciiWhitespace(words);
  absl::ConsumePrefix(&theirs, absl::StrCat(program, " "));
  if (theirs == ours) {
    return {program, Verdict::kOk, absl::StrCat(path, ", ", ours), ""};
  }
  return {program, Verdict::kFail,
          absl::StrCat(path, " is ", theirs, ", this command ", ours),
          "install the same version of all three programs"};
}

Finding CheckProgram(const DaemonBinary& daemon,
                     const std::string& own_folder) {
  const absl::StatusOr<std::string> path = FindDaemon(daemon, own_folder);
  if (!path.ok()) {
    return {daemon.name, Verdict::kFail, "cannot be found",
            std::string(path.status().message())};
  }
  const absl::StatusOr<std::string> words =
      OutputOf(*path, {"--version"}, kVersionTimeout);
  if (!words.ok()) {
    return {daemon.name, Verdict::kFail,
            absl::StrCat(*path, ": ", words.status().message()),
            "the program does not start; are its libraries installed "
            "(scripts/setup.sh)?"};
  }
  return JudgeVersion(daemon.name, *path, *words);
}

std::vector<Finding> CheckEngines(const std::string& own_folder) {
  const absl::StatusOr<std::string> worker =
      FindDaemon(WorkerBinary(), own_folder);
  // CheckProgram has said so.
  if (!worker.ok()) return {};
  std::vector<Finding> findings;
  const auto one_line = [](const std::string& output) {
    return absl::StrJoin(
        absl::StrSplit(absl::StripAsciiWhitespace(output), '\n'), ", ");
  };
  const absl::StatusOr<std::string> cpu =
      OutputOf(*worker, {"--check"}, kEngineTimeout);
  if (cpu.ok()) {
    findings.push_back({"libtorch", Verdict::kOk, one_line(*cpu), ""});
  } else {
    findings.push_back({"libtorch", Verdict::kFail,
                        std::string(cpu.status().message()),
                        "run scripts/setup.sh, then build the worker again"});
    return findings;
  }
  const absl::StatusOr<std::string> gpu =
      OutputOf(*worker, {"--check", "--device", "cuda:0"}, kEngineTimeout);
  if (gpu.ok()) {
    findings.push_back({"CUDA", Verdict::kOk, one_line(*gpu), ""});
  } else {
    findings.push_back({"CUDA", Verdict::kWarn,
                        std::string(gpu.status().message()),
                        "only workers with --device cuda:N need it"});
  }
  return findings;
}

Finding CheckNccl() {
  void* const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) {
    dlclose(library);
    return {"NCCL", Verdict::kOk, "libnccl.so.2 can be loaded", ""};
  }
  const char* const error = dlerror();
  return {"NCCL", Verdict::kWarn, error == nullptr ? "not there" : error,
          "only the data path between GPUs needs it; install NCCL, or put its "
          "folder into LD_LIBRARY_PATH"};
}

}  // namespace stagecoach::client

#include "client/testing/client_process.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr int kPatienceMilliseconds = 60000;

ChildProcess Spawn(std::vector<std::string> arguments,
                   ClientProcess::Environment environment,
                   const std::string& error_file) {
  SpawnOptions options;
  options.program = ExecutableFolder() + "/stagecoach";
  options.arguments = std::move(arguments);
  options.environment = std::move(environment);
  options.stderr_file = error_file;
  options.pipe_stdout = true;
  absl::StatusOr<ChildProcess> process = ChildProcess::Spawn(options);
  if (!process.ok()) {
    std::fprintf(stderr, "%s\n", process.status().ToString().c_str());
    std::abort();
  }
  return *std::move(process);
}

}  // namespace

ClientProcess::ClientProcess(std::vector<std::string> arguments,
                             Environment environment)
    : error_file_(MakeFile("stderr", "")),
      process_(
          Spawn(std::move(arguments), std::move(environment), error_file_)) {}

void ClientProcess::Signal(int signal) {
  EXPECT_TRUE(process_.Signal(signal).ok());
}

ClientResult ClientProcess::Finish() {
  ClientResult result;
  while (true) {
    const absl::StatusOr<std::string> line = process_.ReadLine(kPatience);
    if (!line.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(line.status())) << line.status();
      break;
    }
    result.out += *line + "\n";
  }
  const absl::StatusOr<int> exit_code = process_.Wait(kPatience);
  EXPECT_TRUE(exit_code.ok()) << exit_code.status();
  if (exit_code.ok()) result.exit_code = *exit_code;
  std::stringstream text;
  text << std::ifstream(error_file_).rdbuf();
  result.error = text.str();
  return result;
}

ClientResult RunClient(std::vector<std::string> arguments,
                       ClientProcess::Environment environment) {
  return ClientProcess(std::move(arguments), std::move(environment)).Finish();
}

std::string MakeFolder() {
  std::string pattern = testing::TempDir() + "/clientXXXXXX";
  return mkdtemp(pattern.data());
}

std::string MakeFile(const std::string& name, const std::string& contents) {
  std::string path = MakeFolder() + "/" + name;
  std::ofstream(path) << contents;
  return path;
}

LifeLine::LifeLine() : path_(MakeFolder() + "/fifo") {
  if (mkfifo(path_.c_str(), 0600) != 0) std::abort();
  fd_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

LifeLine::~LifeLine() { close(fd_); }

std::string LifeLine::ReadLine() {
  while (true) {
    const size_t newline = pending_.find('\n');
    if (newline != std::string::npos) {
      std::string line = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      return line;
    }
    pollfd entry = {fd_, POLLIN, 0};
    if (poll(&entry, 1, kPatienceMilliseconds) <= 0) return "timeout";
    char buffer[256];
    const ssize_t count = read(fd_, buffer, sizeof(buffer));
    if (count == 0) return "";
    if (count > 0) pending_.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace stagecoach::client

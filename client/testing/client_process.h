#ifndef STAGECOACH_CLIENT_TESTING_CLIENT_PROCESS_H_
#define STAGECOACH_CLIENT_TESTING_CLIENT_PROCESS_H_

#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "client/output/json.h"

namespace stagecoach::client {

struct ClientResult {
  int exit_code = -1;
  std::string out;
  std::string error;

  Json document() const { return Json::parse(out); }
};

// The stagecoach command as a process of its own, started from the folder that
// the test's executable is in. Aborts the test if it cannot be started.
class ClientProcess {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  explicit ClientProcess(std::vector<std::string> arguments,
                         Environment environment = {});

  pid_t pid() const { return process_.pid(); }
  void Signal(int signal);
  // Waits for its end, at most a minute.
  ClientResult Finish();

 private:
  std::string error_file_;
  ChildProcess process_;
};

// Starts it and waits.
ClientResult RunClient(std::vector<std::string> arguments,
                       ClientProcess::Environment environment = {});

// A new file in the test's folder.
std::string MakeFile(const std::string& name, const std::string& contents);
// A new folder there.
std::string MakeFolder();

// A named pipe that processes hold open for writing while they live.
class LifeLine {
 public:
  LifeLine();
  ~LifeLine();
  LifeLine(const LifeLine&) = delete;
  LifeLine& operator=(const LifeLine&) = delete;

  const std::string& path() const { return path_; }
  // The next line that anyone wrote; "" when nobody has it open any more, after
  // somebody had. Waits at most a minute, then "timeout".
  std::string ReadLine();

 private:
  std::string path_;
  std::string pending_;
  int fd_ = -1;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_TESTING_CLIENT_PROCESS_H_

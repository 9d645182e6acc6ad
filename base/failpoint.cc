#include "base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"

namespace stagecoach {
namespace {

struct Failpoint {
  enum class Action { kOff, kKill, kDelay, kError };
  Action action = Action::kOff;
  int milliseconds = 0;
  int64_t times = 0;  // 0: always; else in so many
  std::string text = "off";
  int64_t reached = 0;
};

absl::Status Parse(absl::string_view text, Failpoint* point) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('@', 1));
  const std::vector<absl::string_view> words =
      absl::StrSplit(parts[0], ' ', absl::SkipEmpty());
  absl::Status bad = absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" is none of off, kill, delay MILLISECONDS, error, and @N behind it"));
  point->text = std::string(text);
  point->times = 0;
  if (parts.size() > 1 &&
      (!absl::SimpleAtoi(parts[1], &point->times) || point->times < 1)) {
    return bad;
  }
  if (words.size() == 2 && words[0] == "delay" &&
      absl::SimpleAtoi(words[1], &point->milliseconds) &&
      point->milliseconds >= 0) {
    point->action = Failpoint::Action::kDelay;
    return absl::OkStatus();
  }
  if (words.size() != 1) return bad;
  if (words[0] == "off") {
    point->action = Failpoint::Action::kOff;
  } else if (words[0] == "kill") {
    point->action = Failpoint::Action::kKill;
  } else if (words[0] == "error") {
    point->action = Failpoint::Action::kError;
  } else {
    return bad;
  }
  return absl::OkStatus();
}

// All places of this process, and what the environment asks for.
class Registry {
 public:
  Registry() {
    for (const auto& names : {CoordinatorFailpoints(), WorkerFailpoints()}) {
      for (const std::string& name : names) points_[name];
    }
    const char* text = std::getenv("STAGECOACH_FAILPOINT");
    if (text == nullptr || *text == '\0') return;
    const std::vector<std::string> parts = absl::StrSplit(text, '@');
    const std::string action =
        parts.size() > 1 ? absl::StrCat("kill@", parts[1]) : "kill@1";
    if (!Set(parts[0], action).ok()) {
      std::fprintf(stderr, "STAGECOACH_FAILPOINT=%s: not NAME or NAME@N\n",
                   text);
      std::abort();
    }
  }

  absl::Status Set(absl::string_view name, absl::string_view action) {
    MutexLock lock(&mu_);
    auto it = points_.find(std::string(name));
    if (it == points_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no failpoint ", name));
    }
    Failpoint changed;
    absl::Status status = Parse(action, &changed);
    changed.reached = it->second.reached;
    if (status.ok()) it->second = changed;
    return status;
  }

  // What is to happen now.
  Failpoint Reach(const std::string& name) {
    MutexLock lock(&mu_);
    auto it = points_.find(name);
    if (it == points_.end()) {
      std::fprintf(stderr, "failpoint %s is in no list\n", name.c_str());
      std::abort();
    }
    Failpoint& point = it->second;
    ++point.reached;
    Failpoint now = point;
    if (point.times == 0) return now;
    if (--point.times > 0) {
      now.action = Failpoint::Action::kOff;
    } else {
      point.action = Failpoint::Action::kOff;
      point.text = "off";
    }
    return now;
  }

  std::vector<FailpointState> List() {
    std::vector<FailpointState> list;
    MutexLock lock(&mu_);
    for (const auto& [name, point] : points_) {
      list.push_back({name, point.reached, point.text});
    }
    return list;
  }

 private:
  Mutex mu_;
  std::map<std::string, Failpoint> points_ SC_GUARDED_BY(mu_);
};

// Lives for ever: threads may reach places while the process ends.
Registry& Places() {
  static auto* const registry = new Registry;
  return *registry;
}

}  // namespace

std::vector<std::string> CoordinatorFailpoints() {
  return {"journal.append.before",
          "journal.append.after",
          "journal.flush.before",
          "journal.flush.after",
          "journal.mark",
          "coordinator.register",
          "coordinator.assign",
          "coordinator.prepared",
          "coordinator.commit.decided",
          "coordinator.commit.partly_sent",
          "coordinator.checkpoint.stored",
          "coordinator.recovering",
          "coordinator.rewound"};
}

std::vector<std::string> WorkerFailpoints() {
  return {"worker.register",
          "worker.assign",
          "worker.schedule.installed",
          "worker.send",
          "worker.acknowledge",
          "worker.release",
          "worker.prepared",
          "worker.commit",
          "worker.applied",
          "worker.state.copied",
          "worker.checkpoint.write",
          "worker.checkpoint.sync",
          "worker.checkpoint.written",
          "worker.checkpoint.rename",
          "worker.checkpoint.sealed"};
}

bool FailpointsAreBuilt() {
#ifdef STAGECOACH_FAILPOINTS
  return true;
#else
  return false;
#endif
}

absl::Status ReachFailpoint(const char* name) {
  const Failpoint now = Places().Reach(name);
  switch (now.action) {
    case Failpoint::Action::kOff:
      break;
    case Failpoint::Action::kKill:
      kill(getpid(), SIGKILL);
      pause();
      break;
    case Failpoint::Action::kDelay:
      std::this_thread::sleep_for(std::chrono::milliseconds(now.milliseconds));
      break;
    case Failpoint::Action::kError:
      return absl::ResourceExhaustedError(
          absl::StrCat("No space left on device (failpoint ", name, ")"));
  }
  return absl::OkStatus();
}

std::vector<FailpointState> ListFailpoints() { return Places().List(); }

absl::Status SetFailpoint(absl::string_view name, absl::string_view action) {
  return Places().Set(name, action);
}

}  // namespace stagecoach

#include "base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace stagecoach {
namespace {

// What the environment asks for; read once.
struct Order {
  std::string name;
  int times = 1;
};

Order ReadOrder() {
  Order order;
  const char* text = std::getenv("STAGECOACH_FAILPOINT");
  if (text == nullptr) return order;
  const std::vector<std::string> parts = absl::StrSplit(text, '@');
  order.name = parts[0];
  if (parts.size() > 1 && !absl::SimpleAtoi(parts[1], &order.times)) {
    std::fprintf(stderr, "STAGECOACH_FAILPOINT=%s: not NAME or NAME@N\n", text);
    std::abort();
  }
  return order;
}

bool IsKnown(const std::string& name) {
  for (const auto& names : {CoordinatorFailpoints(), WorkerFailpoints()}) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> CoordinatorFailpoints() {
  return {"journal.append.before",
          "journal.append.after",
          "journal.flush.before",
          "journal.flush.after",
          "coordinator.register",
          "coordinator.assign",
          "coordinator.prepared",
          "coordinator.commit.decided",
          "coordinator.commit.partly_sent",
          "coordinator.recovering",
          "coordinator.rewound"};
}

std::vector<std::string> WorkerFailpoints() {
  return {"worker.register",         "worker.assign",
          "worker.prepared",         "worker.commit",
          "worker.applied",          "worker.checkpoint.written",
          "worker.checkpoint.sealed"};
}

bool FailpointsAreBuilt() {
#ifdef STAGECOACH_FAILPOINTS
  return true;
#else
  return false;
#endif
}

void ReachFailpoint(const char* name) {
  if (!IsKnown(name)) {
    std::fprintf(stderr, "failpoint %s is in no list\n", name);
    std::abort();
  }
  static const Order order = ReadOrder();
  static std::atomic<int> reached = 0;
  if (order.name != name || ++reached != order.times) return;
  kill(getpid(), SIGKILL);
  pause();
}

}  // namespace stagecoach

#include "coordinator/placement_policy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stagecoach::coordinator {
namespace {

// By libtorch version, in the order of each one's first name.
using Groups = std::vector<std::pair<std::string, std::vector<std::string>>>;

void AddTo(Groups& groups, const WorkerRecord& worker) {
  auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
    return group.first == worker.torch_version;
  });
  if (it == groups.end()) {
    it = groups.insert(groups.end(), {worker.torch_version, {}});
  }
  it->second.push_back(worker.name);
}

std::string DescribeGroups(const Groups& groups) {
  return absl::StrJoin(groups, ", ", [](std::string* out, const auto& group) {
    absl::StrAppend(out, group.second.size(), " with ",
                    group.first.empty() ? "none" : group.first);
  });
}

std::string Missing(int64_t count, int registered, int idle,
                    const Groups& groups) {
  std::string reason = absl::StrCat("waiting for ", count, " idle workers, ",
                                    registered, " registered");
  if (idle < registered) absl::StrAppend(&reason, ", ", idle, " idle");
  if (idle >= count) {
    absl::StrAppend(&reason,
                    ", but not of one libtorch: ", DescribeGroups(groups));
  }
  return reason;
}

}  // namespace

WorkerChoice ChooseWorkers(
    const std::map<std::string, WorkerRecord, NaturalOrder>& workers,
    const std::set<std::string>& draining, int64_t count) {
  Groups groups;
  int registered = 0;
  int idle = 0;
  for (const auto& [name, worker] : workers) {
    if (!worker.dead) ++registered;
    if (!worker.idle() || draining.count(name) > 0) continue;
    ++idle;
    AddTo(groups, worker);
  }
  WorkerChoice choice;
  for (auto& [version, names] : groups) {
    if (static_cast<int64_t>(names.size()) < count) continue;
    names.resize(static_cast<size_t>(count));
    choice.workers = std::move(names);
    return choice;
  }
  choice.reason = Missing(count, registered, idle, groups);
  return choice;
}

}  // namespace stagecoach::coordinator

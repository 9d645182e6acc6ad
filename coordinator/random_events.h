#ifndef STAGECOACH_COORDINATOR_RANDOM_EVENTS_H_
#define STAGECOACH_COORDINATOR_RANDOM_EVENTS_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/cluster_state.h"
#include "coordinator/event.h"

namespace stagecoach::coordinator {

// Events of every kind with names that often fit together and sometimes do not.
class RandomEvents {
 public:
  explicit RandomEvents(uint32_t seed) : random_(seed) {}

  Event Next(const ClusterState& state) {
    Event event;
    at_ += absl::Milliseconds(static_cast<int64_t>(random_() % 1000));
    event.at = at_;
    event.body = Body(state);
    return event;
  }

 private:
  std::string Worker() { return absl::StrCat("w", random_() % 5); }
  std::string Job() { return absl::StrCat("job-", random_() % 6); }
  std::string Text() { return std::string(1, "xyz"[random_() % 3]); }

  std::vector<std::string> Workers(const ClusterState& state) {
    std::vector<std::string> workers;
    for (const auto& [name, worker] : state.workers()) {
      if (worker.idle() && workers.size() < 2) workers.push_back(name);
    }
    if (random_() % 8 == 0) workers = {Worker(), Worker()};
    return workers;
  }
  std::optional<v1::WorkerMemory> Memory() {
    if (random_() % 2 == 0) return std::nullopt;
    v1::WorkerMemory memory;
    memory.set_step(static_cast<int64_t>(random_() % 9));
    return memory;
  }
  int64_t NextStep(const ClusterState& state, const std::string& id) {
    const JobRecord* job = state.FindJob(id);
    if (job == nullptr || random_() % 8 == 0) {
      return static_cast<int64_t>(random_() % 3);
    }
    return job->steps_committed();
  }

  EventBody Body(const ClusterState& state);
  EventBody WorkerBody();
  WorkerReleased Released(const std::string& job);

  std::mt19937 random_;
  absl::Time at_ = absl::UnixEpoch();
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_RANDOM_EVENTS_H_

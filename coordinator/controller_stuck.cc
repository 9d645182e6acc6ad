// Workers that beat, and yet do not get on: a kernel that hangs, a disk that
// does not answer. Nobody waits for them for ever.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/controller.h"

namespace stagecoach::coordinator {
namespace {

// How many of the last steps tell how long one is.
constexpr size_t kLastSteps = 20;

std::string Describe(const std::optional<Position>& position) {
  if (!position.has_value()) return "between two actions";
  return absl::StrCat("in ", position->action, " of step ", position->step);
}

}  // namespace

absl::Duration Controller::StuckAfter(const Run& run) const {
  const JobRecord& job = *state_.FindJob(run.run.job_id());
  // The first step of a placement is longer than the others.
  if (job.steps_committed() <= run.run.planned().first_step) {
    return options_.stuck_first_wait;
  }
  double longest = 0;
  const size_t begin =
      job.steps.size() - std::min(job.steps.size(), kLastSteps);
  for (size_t i = begin; i < job.steps.size(); ++i) {
    longest = std::max(longest, job.steps[i].seconds);
  }
  return std::max(options_.stuck_wait,
                  absl::Seconds(options_.stuck_steps * longest));
}

void Controller::CheckStuck() {
  std::vector<std::pair<std::string, std::string>> stuck;
  for (const auto& [job_id, run] : runs_) {
    const std::vector<int> owing = run.run.Owing();
    if (owing.empty()) continue;
    const absl::Duration limit = StuckAfter(run);
    for (const int index : owing) {
      const std::string& name =
          run.run.members()[static_cast<size_t>(index)].name;
      const Session* session = SessionOf(name);
      // Who waits for a peer is not to blame, and who is silent is another
      // case.
      if (session == nullptr || Now() - session->moved < limit ||
          (session->position.has_value() && session->position->waiting)) {
        continue;
      }
      stuck.emplace_back(
          name, absl::StrCat("it is stuck: its heartbeats come, but for ",
                             absl::FormatDuration(limit), " it has been ",
                             Describe(session->position)));
    }
  }
  for (const auto& [name, reason] : stuck) {
    if (SessionOf(name) != nullptr) LoseWorker(name, reason);
  }
  if (!stuck.empty()) Schedule();
}

}  // namespace stagecoach::coordinator

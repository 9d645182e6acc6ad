// Workers that beat, and yet do not get on: a kernel that hangs, a disk that
// does not answer. Nobody waits for them for ever. And workers that all wait
// for each other, since something that one sent another was lost on the way.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/controller.h"

namespace stagecoach::coordinator {
namespace {

// How many of the last steps tell how long one is.
constexpr size_t kLastSteps = 20;

// As a worker says it (StepExecutor) that has not got what a peer sends.
constexpr char kTransfer[] = "transfer";

std::string Describe(const std::optional<Position>& position) {
  if (!position.has_value()) return "between two actions";
  return absl::StrCat("in ", position->action, " of step ", position->step);
}

bool IsWaiting(const std::optional<Position>& position) {
  return position.has_value() && !position->waiting_for.empty();
}

}  // namespace

absl::Duration Controller::RestLimit(const JobRecord& job) const {
  double longest = 0;
  const size_t begin =
      job.steps.size() - std::min(job.steps.size(), kLastSteps);
  for (size_t i = begin; i < job.steps.size(); ++i) {
    longest = std::max(longest, job.steps[i].seconds);
  }
  return std::max(options_.stuck_wait,
                  absl::Seconds(options_.stuck_steps * longest));
}

absl::Duration Controller::StuckAfter(const Run& run) const {
  const JobRecord& job = *state_.FindJob(run.run.job_id());
  // The first step of a placement is longer than the others.
  return job.steps_committed() <= run.run.planned().first_step
             ? options_.stuck_first_wait
             : RestLimit(job);
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
          IsWaiting(session->position)) {
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

// Whether all workers that owe something wait for a peer, and have done so for
// `limit`. Then the verdict on it, else nullopt.
std::optional<FailureReport> Controller::FindRest(const Run& run,
                                                  absl::Duration limit) {
  FailureReport report;
  report.kind = FailureKind::kWorkerLost;
  report.worker = -1;
  std::vector<std::string> words;
  for (const int index : run.run.Owing()) {
    const std::string& name =
        run.run.members()[static_cast<size_t>(index)].name;
    const Session* session = SessionOf(name);
    if (session == nullptr || Now() - session->moved < limit ||
        !IsWaiting(session->position)) {
      return std::nullopt;
    }
    const Position& position = *session->position;
    words.push_back(absl::StrCat(name, " waits for ", position.waiting_for, " ",
                                 Describe(position)));
    // Who waits for its bytes to be acknowledged is nearer to what was lost
    // than who has not got anything to work on.
    if (report.worker < 0 || (report.position->waiting_for == kTransfer &&
                              position.waiting_for != kTransfer)) {
      report.worker = index;
      report.position = position;
    }
  }
  if (words.empty()) return std::nullopt;
  report.message =
      absl::StrCat("nobody gets on: for ", absl::FormatDuration(limit), " ",
                   absl::StrJoin(words, ", "),
                   "; what one of them sent, or its acknowledgement, was lost");
  return report;
}

// Nobody computes, so that a first step has no more time than the others. The
// processes are sound: they get the job again.
void Controller::CheckRest() {
  std::vector<std::pair<std::string, FailureReport>> resting;
  for (const auto& [job_id, run] : runs_) {
    if (!run.reports.empty()) continue;
    auto report = FindRest(run, RestLimit(*state_.FindJob(job_id)));
    if (report.has_value()) resting.emplace_back(job_id, *std::move(report));
  }
  for (auto& [job_id, report] : resting) {
    ReportFailure(job_id, std::move(report));
  }
}

}  // namespace stagecoach::coordinator

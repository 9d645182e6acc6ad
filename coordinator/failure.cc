#include "coordinator/failure.h"

#include "absl/strings/str_cat.h"

namespace stagecoach::coordinator {
namespace {

using Workers = std::vector<SuspectedWorker>;
using Reports = std::vector<FailureReport>;

bool IsWorker(const Workers& workers, int index) {
  return index >= 0 && index < static_cast<int>(workers.size());
}

bool Blames(const Workers& workers, const FailureReport& report) {
  return !report.lost && report.blamed != report.worker &&
         IsWorker(workers, report.blamed);
}

bool IsDefinite(const Workers& workers, const FailureReport& report) {
  return report.lost || (!Blames(workers, report) &&
                         (report.kind == FailureKind::kOutOfMemory ||
                          report.kind == FailureKind::kInvalid));
}

// A worker that said why it ends, and then ended, has said it best.
const FailureReport& FirstWordOf(const Workers& workers, const Reports& reports,
                                 const FailureReport& report) {
  for (const FailureReport& earlier : reports) {
    if (earlier.worker == report.worker && !Blames(workers, earlier)) {
      return earlier;
    }
  }
  return report;
}

const FailureReport* ReportOf(const Reports& reports, int worker) {
  for (const FailureReport& report : reports) {
    if (report.worker == worker) return &report;
  }
  return nullptr;
}

bool OthersSilent(const Workers& workers, int except) {
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].silent && static_cast<int>(i) != except) return true;
  }
  return false;
}

// Where the chain of blame that starts with `first` ends.
int EndOfBlame(const Workers& workers, const Reports& reports,
               const FailureReport& first) {
  int culprit = first.blamed;
  for (size_t hops = 0; hops < workers.size(); ++hops) {
    const FailureReport* next = ReportOf(reports, culprit);
    if (next == nullptr) return culprit;
    culprit = next->blamed;
  }
  return first.blamed;
}

FailureVerdict Blame(const Workers& workers, int culprit, FailureKind kind,
                     const std::optional<Position>& position,
                     const std::string& message) {
  FailureVerdict verdict;
  verdict.culprit = culprit;
  const SuspectedWorker& worker = workers[static_cast<size_t>(culprit)];
  verdict.cause.kind = kind;
  verdict.cause.worker = worker.name;
  verdict.cause.stage = worker.lowest_stage;
  verdict.cause.message = message;
  const std::optional<Position>& where =
      position.has_value() ? position : worker.last_position;
  if (where.has_value()) {
    verdict.cause.stage = where->stage;
    verdict.cause.action = where->action;
    verdict.cause.microbatch = where->microbatch;
    verdict.cause.step = where->step;
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    if (static_cast<int>(i) == culprit) continue;
    verdict.victims.push_back(workers[i].name);
  }
  return verdict;
}

FailureVerdict BlameReporter(const Workers& workers,
                             const FailureReport& report) {
  return Blame(workers, report.worker, report.kind, report.position,
               report.message);
}

}  // namespace

std::string DescribeCause(const FailureCause& cause) {
  std::string text;
  if (!cause.worker.empty()) {
    absl::StrAppend(&text, "stage ", cause.stage, " (worker ", cause.worker,
                    ")");
    if (cause.step >= 0) absl::StrAppend(&text, ", step ", cause.step);
    if (!cause.action.empty()) absl::StrAppend(&text, ", ", cause.action);
    if (cause.microbatch >= 0) {
      absl::StrAppend(&text, ", microbatch ", cause.microbatch);
    }
    absl::StrAppend(&text, ": ");
  }
  absl::StrAppend(&text, cause.message);
  return text;
}

std::optional<FailureVerdict> JudgeFailure(const Workers& workers,
                                           const Reports& reports,
                                           const FailureGrace& grace,
                                           absl::Time now) {
  if (reports.empty()) return std::nullopt;
  for (const FailureReport& report : reports) {
    if (!IsDefinite(workers, report)) continue;
    return BlameReporter(workers, FirstWordOf(workers, reports, report));
  }
  for (const FailureReport& report : reports) {
    if (Blames(workers, report)) continue;
    if (now < report.at + grace.own || OthersSilent(workers, report.worker)) {
      return std::nullopt;
    }
    return BlameReporter(workers, report);
  }
  const FailureReport& first = reports.front();
  const int culprit = EndOfBlame(workers, reports, first);
  if (now < first.at + grace.blame ||
      workers[static_cast<size_t>(culprit)].silent) {
    return std::nullopt;
  }
  return Blame(workers, culprit, FailureKind::kWorkerLost, std::nullopt,
               absl::StrCat("edge lost, reported by ",
                            workers[static_cast<size_t>(first.worker)].name,
                            ": ", first.message));
}

}  // namespace stagecoach::coordinator

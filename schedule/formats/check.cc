#include "schedule/formats/check.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "schedule/shape.h"

namespace stagecoach::schedule::formats {
namespace {

constexpr size_t kMaxKindLength = 64;

bool IsCommunication(ActionKind kind) {
  return IsSend(kind) || IsReceive(kind) || IsAwaitRelease(kind);
}

bool IsPlanned(const Schedule& schedule, const EdgeId& edge) {
  const auto it = std::lower_bound(
      schedule.edges.begin(), schedule.edges.end(), edge,
      [](const EdgePlan& plan, const EdgeId& id) { return plan.edge < id; });
  return it != schedule.edges.end() && it->edge == edge;
}

std::string CommunicationProblem(const Schedule& schedule,
                                 const Action& action) {
  if (!schedule.lowered()) {
    return "is communication, but send_budget is 0; set it, or leave "
           "communication to lowering";
  }
  const EdgeId edge = schedule.EdgeOf(action);
  if (edge.from == edge.to || IsPlanned(schedule, edge)) return "";
  return absl::StrCat("uses edge ", ToString(edge),
                      ", which is not among the edges");
}

}  // namespace

absl::Status ErrorAt(absl::string_view text, size_t offset,
                     absl::string_view message) {
  const absl::string_view before = text.substr(0, offset);
  const size_t line =
      static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t newline = before.rfind('\n');
  const size_t start = newline == absl::string_view::npos ? 0 : newline + 1;
  return absl::InvalidArgumentError(
      absl::StrCat(line + 1, ":", before.size() - start + 1, ": ", message));
}

bool ParseNumber(absl::string_view digits, int64_t low, int64_t high,
                 int* out) {
  if (digits.empty() || digits.size() > 10) return false;
  if (digits.size() > 1 && digits[0] == '0') return false;
  int64_t value = 0;
  for (const char c : digits) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
    value = value * 10 + (c - '0');
  }
  if (value < low || value > high) return false;
  *out = static_cast<int>(value);
  return true;
}

bool ParseDirection(absl::string_view name, Direction* direction) {
  for (const Direction d : {Direction::kActivation, Direction::kGradient}) {
    if (name != DirectionName(d)) continue;
    *direction = d;
    return true;
  }
  return false;
}

std::string KindProblem(absl::string_view kind) {
  const bool plain = std::all_of(kind.begin(), kind.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
           c == '_' || c == '.';
  });
  if (plain && kind.size() <= kMaxKindLength) return "";
  return absl::StrCat("a schedule's kind has at most ", kMaxKindLength,
                      " letters, digits, '-', '_' and '.'");
}

std::string EdgeProblem(const Schedule& schedule, const EdgePlan& plan) {
  for (const WorkerIndex worker : {plan.edge.from, plan.edge.to}) {
    if (worker.value() >= 0 && worker.value() < schedule.workers) continue;
    return absl::StrCat("worker ", worker.value(),
                        " is out of range; workers are 0 to ",
                        schedule.workers - 1);
  }
  if (plan.receive_depth < 0 || plan.pool_slots < 0) {
    return "receive_depth and pool_slots must be 0 or more";
  }
  if (!schedule.lowered()) {
    return "an edge, but send_budget is 0; set it, or leave edges to lowering";
  }
  if (!schedule.edges.empty() && !(schedule.edges.back().edge < plan.edge)) {
    return "edges must ascend by sender, receiver and direction";
  }
  return "";
}

std::string ActionCheck::Problem(const Action& action) {
  std::string problem = ActionProblem(schedule_, action);
  if (problem.empty() && IsCommunication(action.kind)) {
    problem = CommunicationProblem(schedule_, action);
  }
  if (problem.empty() && ++count_ > kMaxActions) {
    problem = absl::StrCat("one action more than the limit of ", kMaxActions);
  }
  if (problem.empty()) return "";
  return absl::StrCat(ToString(action), ": ", problem);
}

}  // namespace stagecoach::schedule::formats

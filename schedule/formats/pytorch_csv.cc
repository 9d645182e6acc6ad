#include "schedule/formats/pytorch_csv.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "schedule/formats/check.h"
#include "schedule/lowering.h"

namespace stagecoach::schedule {
namespace {

using formats::ErrorAt;

constexpr absl::string_view kOverlap = "OVERLAP_F_B";
constexpr size_t kMaxShown = 40;

bool IsTransfer(ActionKind kind) { return IsSend(kind) || IsReceive(kind); }

// "3UNSHARD": a stage, and no microbatch.
bool ConcernsParameters(absl::string_view cell) {
  const size_t name = cell.find_first_not_of("0123456789");
  if (name == 0 || name == absl::string_view::npos) return false;
  const absl::string_view what = cell.substr(name);
  return what == "UNSHARD" || what == "RESHARD" || what == "REDUCE_GRAD";
}

// Where each stage is and which microbatches it runs, as far as read.
struct StageSeen {
  int worker = -1;
  int forwards = 0;
  int lowest = -1;  // of its forwards; likewise highest
  int highest = -1;
  size_t highest_at = 0;  // offset of that cell
};

class CsvParser {
 public:
  CsvParser(absl::string_view text, int send_budget)
      : text_(text), send_budget_(send_budget) {}

  absl::StatusOr<Schedule> Parse();

 private:
  absl::Status ParseRow(absl::string_view line, size_t offset);
  absl::Status ParseCell(absl::string_view cell, size_t offset);
  absl::Status ParseOverlap(absl::string_view cell, size_t offset);
  absl::Status Add(absl::string_view word, size_t offset);
  absl::Status Place(const Action& action, size_t offset);
  absl::Status CheckStages();
  absl::Status CheckLastRank() const;

  const absl::string_view text_;
  const int send_budget_;
  int64_t actions_ = 0;
  bool transfers_ = false;
  std::vector<StageSeen> stages_;
  Schedule schedule_;
};

absl::Status NotAnAction(absl::string_view text, size_t offset,
                         absl::string_view cell) {
  return ErrorAt(text, offset,
                 absl::StrCat("\"", cell.substr(0, kMaxShown),
                              "\" is not an action of PyTorch's schedules, as "
                              "\"2F0\" or \"1SEND_F0\" is"));
}

absl::Status CsvParser::Place(const Action& action, size_t offset) {
  // Each stage and each microbatch has a cell of its own, and a cell and its
  // comma at least four bytes.
  const size_t most =
      std::min(text_.size() / 4 + 1, static_cast<size_t>(kMaxActions));
  if (action.stage.index() >= most || action.microbatch.index() >= most) {
    return ErrorAt(text_, offset,
                   absl::StrCat(ToString(action),
                                ": stage or microbatch is out of range; the "
                                "file is too short for so many"));
  }
  if (action.stage.index() >= stages_.size()) {
    stages_.resize(action.stage.index() + 1);
  }
  const int worker = static_cast<int>(schedule_.actions.size()) - 1;
  StageSeen& stage = stages_[action.stage.index()];
  if (stage.worker < 0) stage.worker = worker;
  if (stage.worker != worker) {
    return ErrorAt(
        text_, offset,
        absl::StrCat(ToString(action), ": stage ", action.stage.value(),
                     " is on worker ", stage.worker, " (line ",
                     stage.worker + 1, ") already"));
  }
  const int m = action.microbatch.value();
  schedule_.microbatches = std::max(schedule_.microbatches, m + 1);
  if (action.kind != ActionKind::kForward) return absl::OkStatus();
  ++stage.forwards;
  if (stage.lowest < 0 || m < stage.lowest) stage.lowest = m;
  if (m > stage.highest) {
    stage.highest = m;
    stage.highest_at = offset;
  }
  return absl::OkStatus();
}

absl::Status CsvParser::Add(absl::string_view word, size_t offset) {
  Action action;
  if (!ParseAction(word, &action) ||
      !(IsCompute(action.kind) || IsTransfer(action.kind))) {
    return NotAnAction(text_, offset, word);
  }
  if (++actions_ > kMaxActions) {
    return ErrorAt(
        text_, offset,
        absl::StrCat("too many actions; the limit is ", kMaxActions));
  }
  transfers_ |= IsTransfer(action.kind);
  schedule_.actions.back().push_back(action);
  return Place(action, offset);
}

absl::Status CsvParser::ParseOverlap(absl::string_view cell, size_t offset) {
  const size_t close = cell.find(')');
  if (close == absl::string_view::npos || cell.substr(close + 1) != kOverlap) {
    return NotAnAction(text_, offset, cell);
  }
  absl::string_view inside = cell.substr(1, close - 1);
  size_t at = offset + 1;
  while (true) {
    const size_t end = inside.find(';');
    SC_RETURN_IF_ERROR(Add(inside.substr(0, end), at));
    if (end == absl::string_view::npos) return absl::OkStatus();
    inside.remove_prefix(end + 1);
    at += end + 1;
  }
}

absl::Status CsvParser::ParseCell(absl::string_view cell, size_t offset) {
  const absl::string_view word = absl::StripAsciiWhitespace(cell);
  if (word.empty() || ConcernsParameters(word)) return absl::OkStatus();
  const size_t at = offset + static_cast<size_t>(word.data() - cell.data());
  return word[0] == '(' ? ParseOverlap(word, at) : Add(word, at);
}

absl::Status CsvParser::ParseRow(absl::string_view line, size_t offset) {
  if (schedule_.actions.size() == static_cast<size_t>(kMaxWorkers)) {
    return ErrorAt(
        text_, offset,
        absl::StrCat("at most ", kMaxWorkers, " workers are possible"));
  }
  schedule_.actions.emplace_back();
  size_t start = 0;
  while (true) {
    const size_t comma = std::min(line.find(',', start), line.size());
    SC_RETURN_IF_ERROR(
        ParseCell(line.substr(start, comma - start), offset + start));
    if (comma == line.size()) break;
    start = comma + 1;
  }
  if (!schedule_.actions.back().empty()) return absl::OkStatus();
  return ErrorAt(text_, offset, "the row has no action; each rank needs some");
}

// Every stage somewhere, and as many on one worker as on another.
absl::Status CsvParser::CheckStages() {
  std::vector<int> held(schedule_.actions.size(), 0);
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (stages_[s].worker < 0) {
      return ErrorAt(text_, 0,
                     absl::StrCat("stage ", s, " is on no row, but stage ",
                                  stages_.size() - 1, " is"));
    }
    schedule_.placement.push_back(WorkerIndex(stages_[s].worker));
    ++held[static_cast<size_t>(stages_[s].worker)];
  }
  for (size_t w = 0; w < held.size(); ++w) {
    if (held[w] == held[0]) continue;
    return ErrorAt(
        text_, 0,
        absl::StrCat("row ", w + 1, " has ", held[w], " stages and row 1 has ",
                     held[0], "; each worker must have as many"));
  }
  schedule_.stages_per_worker = held[0];
  return absl::OkStatus();
}

absl::Status CsvParser::CheckLastRank() const {
  const StageSeen& first = stages_.front();
  const StageSeen& last = stages_.back();
  const int count = first.forwards;
  if (stages_.size() < 2 || first.lowest != 0 || first.highest != count - 1 ||
      last.forwards != count || last.lowest != 1 || last.highest != count) {
    return absl::OkStatus();
  }
  return ErrorAt(
      text_, last.highest_at,
      absl::StrCat("the last rank runs microbatches 1 to ", count,
                   " where the others run 0 to ", count - 1, ": microbatch ",
                   count,
                   " does not exist and 0 is left out. That is how PyTorch's "
                   "Schedule1F1B.pipeline_order numbers its last rank, which "
                   "is wrong (it is not what that schedule runs); generate "
                   "1f1b, or write 0 to ",
                   count - 1));
}

absl::StatusOr<Schedule> CsvParser::Parse() {
  size_t start = 0;
  while (start < text_.size()) {
    const size_t newline = std::min(text_.find('\n', start), text_.size());
    absl::string_view line = text_.substr(start, newline - start);
    absl::ConsumeSuffix(&line, "\r");
    const bool trailing =
        text_.find_first_not_of("\r\n", start) == absl::string_view::npos;
    if (trailing) break;
    SC_RETURN_IF_ERROR(ParseRow(line, start));
    start = newline + 1;
  }
  if (schedule_.actions.empty()) return ErrorAt(text_, 0, "there is no row");
  schedule_.kind = "custom";
  schedule_.workers = static_cast<int>(schedule_.actions.size());
  SC_RETURN_IF_ERROR(CheckStages());
  SC_RETURN_IF_ERROR(CheckLastRank());
  if (!transfers_) return std::move(schedule_);
  LoweringOptions options;
  options.send_budget = send_budget_;
  absl::StatusOr<Schedule> lowered = LowerWithTransfers(schedule_, options);
  if (lowered.ok()) return lowered;
  return ErrorAt(text_, 0, lowered.status().message());
}

}  // namespace

absl::StatusOr<std::string> ToPytorchCsv(const Schedule& schedule,
                                         PytorchCsvForm form) {
  const bool transfers = form == PytorchCsvForm::kCommunication;
  if (transfers && !schedule.lowered()) {
    return absl::InvalidArgumentError(
        "the schedule has no communication; lower it, or write the form "
        "without");
  }
  std::string csv;
  for (const std::vector<Action>& list : schedule.actions) {
    const char* comma = "";
    for (const Action& action : list) {
      if (!IsCompute(action.kind) && !(transfers && IsTransfer(action.kind))) {
        continue;
      }
      absl::StrAppend(&csv, comma, action.stage.value(),
                      ActionKindName(action.kind), action.microbatch.value());
      comma = ",";
    }
    csv += "\r\n";  // as Python's csv.writer ends rows
  }
  return csv;
}

absl::StatusOr<Schedule> ParsePytorchCsv(absl::string_view text,
                                         int send_budget) {
  return CsvParser(text, send_budget).Parse();
}

}  // namespace stagecoach::schedule

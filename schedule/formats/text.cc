// The readable form:
//
//   stagecoach-schedule 1 kind=1f1b workers=2 stages_per_worker=1 ...
//       microbatches=4 send_budget=2                      (all on one line)
//   placement 0 1
//   edge 0->1 activation receive_depth=2 pool_slots=4
//   worker 0: 0F0 0AWAIT_RELEASE_F0 0SEND_F0 ...
//   worker 1: 1RECV_F0 1F0 ...
//   end
//
// Empty lines and lines that start with '#' are skipped. `end` is how cut input
// is told from whole.

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "schedule/formats/check.h"
#include "schedule/formats/formats.h"
#include "schedule/shape.h"

namespace stagecoach::schedule {
namespace {

using formats::ErrorAt;
using formats::kFormatName;
using formats::kVersion;

constexpr int kMaxInt = 0x7fffffff;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Words of lines, with their places.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  // Goes to the next line that has words; false at the end of the text.
  bool NextLine() {
    while (next_line_ < text_.size()) {
      at_ = next_line_;
      const size_t newline = text_.find('\n', at_);
      end_ = newline == absl::string_view::npos ? text_.size() : newline;
      next_line_ = newline == absl::string_view::npos ? end_ : newline + 1;
      SkipSpace();
      if (at_ < end_ && text_[at_] != '#') return true;
    }
    at_ = end_ = word_at_ = text_.size();
    return false;
  }

  // The next word of the line, or an empty one.
  absl::string_view Word() {
    SkipSpace();
    word_at_ = at_;
    while (at_ < end_ && !IsSpace(text_[at_])) ++at_;
    return text_.substr(word_at_, at_ - word_at_);
  }
  bool AtEndOfLine() {
    SkipSpace();
    word_at_ = at_;
    return at_ == end_;
  }

  // At the last word asked for.
  absl::Status Error(absl::string_view message) const {
    return ErrorAt(text_, word_at_, message);
  }

 private:
  void SkipSpace() {
    while (at_ < end_ && IsSpace(text_[at_])) ++at_;
  }

  const absl::string_view text_;
  size_t at_ = 0;
  size_t end_ = 0;
  size_t next_line_ = 0;
  size_t word_at_ = 0;
};

class TextParser {
 public:
  explicit TextParser(absl::string_view text) : scanner_(text) {}

  absl::StatusOr<Schedule> Parse() {
    SC_RETURN_IF_ERROR(ParseHeader());
    SC_RETURN_IF_ERROR(ParsePlacement());
    bool ended = false;
    while (!ended) {
      if (!scanner_.NextLine()) return CutShort();
      SC_RETURN_IF_ERROR(ParseLine(&ended));
    }
    if (scanner_.NextLine()) {
      scanner_.Word();
      return scanner_.Error("nothing may follow \"end\"");
    }
    return std::move(schedule_);
  }

 private:
  absl::Status CutShort() const {
    return scanner_.Error(
        "the text ends before its \"end\" line; it was cut short");
  }

  absl::Status Expect(absl::string_view word) {
    if (scanner_.Word() == word) return absl::OkStatus();
    return scanner_.Error(absl::StrCat("expected \"", word, "\""));
  }

  absl::Status ExpectEndOfLine() {
    if (scanner_.AtEndOfLine()) return absl::OkStatus();
    return scanner_.Error(
        absl::StrCat("unexpected \"", Shown(scanner_.Word()), "\""));
  }

  // "name=value"
  absl::Status Field(absl::string_view name, absl::string_view* value) {
    *value = scanner_.Word();
    if (absl::ConsumePrefix(value, name) && absl::ConsumePrefix(value, "=")) {
      return absl::OkStatus();
    }
    return scanner_.Error(absl::StrCat("expected \"", name, "=...\""));
  }

  absl::Status IntField(absl::string_view name, int low, int* out) {
    absl::string_view value;
    SC_RETURN_IF_ERROR(Field(name, &value));
    if (formats::ParseNumber(value, low, kMaxInt, out)) return absl::OkStatus();
    return scanner_.Error(absl::StrCat(name, " is \"", Shown(value),
                                       "\"; it must be a whole number, ", low,
                                       " or more"));
  }

  // Outside bytes in a message: short, and printable.
  static std::string Shown(absl::string_view word) {
    std::string shown(word.substr(0, 40));
    for (char& c : shown) {
      if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
    }
    return shown;
  }

  absl::Status ParseHeader() {
    if (!scanner_.NextLine()) return CutShort();
    SC_RETURN_IF_ERROR(Expect(kFormatName));
    if (const absl::string_view version = scanner_.Word();
        version != absl::StrCat(kVersion)) {
      return scanner_.Error(absl::StrCat("version \"", Shown(version),
                                         "\" is not known; this program reads "
                                         "version ",
                                         kVersion));
    }
    absl::string_view kind;
    SC_RETURN_IF_ERROR(Field("kind", &kind));
    if (std::string problem = formats::KindProblem(kind); !problem.empty()) {
      return scanner_.Error(problem);
    }
    schedule_.kind = std::string(kind);
    SC_RETURN_IF_ERROR(IntField("workers", 1, &schedule_.workers));
    if (schedule_.workers > kMaxWorkers) {
      return scanner_.Error(
          absl::StrCat("at most ", kMaxWorkers, " workers are possible"));
    }
    SC_RETURN_IF_ERROR(
        IntField("stages_per_worker", 1, &schedule_.stages_per_worker));
    SC_RETURN_IF_ERROR(IntField("microbatches", 1, &schedule_.microbatches));
    SC_RETURN_IF_ERROR(IntField("send_budget", 0, &schedule_.send_budget));
    return ExpectEndOfLine();
  }

  absl::Status ParsePlacement() {
    if (!scanner_.NextLine()) return CutShort();
    SC_RETURN_IF_ERROR(Expect("placement"));
    const size_t stages = static_cast<size_t>(schedule_.workers) *
                          static_cast<size_t>(schedule_.stages_per_worker);
    while (schedule_.placement.size() <= stages && !scanner_.AtEndOfLine()) {
      const absl::string_view word = scanner_.Word();
      int worker = 0;
      if (!formats::ParseNumber(word, 0, schedule_.workers - 1, &worker)) {
        return scanner_.Error(absl::StrCat("\"", Shown(word),
                                           "\" is not a worker; workers are 0 "
                                           "to ",
                                           schedule_.workers - 1));
      }
      schedule_.placement.push_back(WorkerIndex(worker));
    }
    if (std::string problem = HeaderProblem(schedule_); !problem.empty()) {
      return scanner_.Error(problem);
    }
    return absl::OkStatus();
  }

  absl::Status ParseLine(bool* ended) {
    const absl::string_view word = scanner_.Word();
    if (word == "edge") return ParseEdge();
    if (word == "worker") return ParseWorker();
    if (word != "end") {
      return scanner_.Error(absl::StrCat(
          "\"", Shown(word), "\" is not known; expected edge, worker or end"));
    }
    *ended = true;
    if (schedule_.actions.size() != static_cast<size_t>(schedule_.workers)) {
      return scanner_.Error(absl::StrCat("only ", schedule_.actions.size(),
                                         " of ", schedule_.workers,
                                         " workers have a line"));
    }
    return ExpectEndOfLine();
  }

  absl::Status ParseEdge() {
    if (!schedule_.actions.empty()) {
      return scanner_.Error("edges stand before the workers");
    }
    const absl::string_view ends = scanner_.Word();
    const size_t arrow = ends.find("->");
    int from = 0;
    int to = 0;
    if (arrow == absl::string_view::npos ||
        !formats::ParseNumber(ends.substr(0, arrow), 0, kMaxInt, &from) ||
        !formats::ParseNumber(ends.substr(arrow + 2), 0, kMaxInt, &to)) {
      return scanner_.Error("expected two workers, as in \"0->1\"");
    }
    EdgePlan plan;
    plan.edge.from = WorkerIndex(from);
    plan.edge.to = WorkerIndex(to);
    if (!formats::ParseDirection(scanner_.Word(), &plan.edge.direction)) {
      return scanner_.Error("expected \"activation\" or \"gradient\"");
    }
    if (std::string problem = formats::EdgeProblem(schedule_, plan);
        !problem.empty()) {
      return scanner_.Error(problem);
    }
    SC_RETURN_IF_ERROR(IntField("receive_depth", 0, &plan.receive_depth));
    SC_RETURN_IF_ERROR(IntField("pool_slots", 0, &plan.pool_slots));
    schedule_.edges.push_back(plan);
    return ExpectEndOfLine();
  }

  absl::Status ParseWorker() {
    const std::string number = absl::StrCat(schedule_.actions.size(), ":");
    if (schedule_.actions.size() == static_cast<size_t>(schedule_.workers)) {
      return scanner_.Error(absl::StrCat("all ", schedule_.workers,
                                         " workers have a line already"));
    }
    SC_RETURN_IF_ERROR(Expect(number));
    std::vector<Action>& list = schedule_.actions.emplace_back();
    while (!scanner_.AtEndOfLine()) {
      const absl::string_view word = scanner_.Word();
      Action action;
      if (!ParseAction(word, &action)) {
        return scanner_.Error(absl::StrCat(
            "\"", Shown(word), "\" is not an action, as \"2F0\" is"));
      }
      if (std::string problem = check_.Problem(action); !problem.empty()) {
        return scanner_.Error(problem);
      }
      list.push_back(action);
    }
    return absl::OkStatus();
  }

  Scanner scanner_;
  Schedule schedule_;
  formats::ActionCheck check_{schedule_};
};

void AppendAction(const Action& action, std::string* text) {
  absl::StrAppend(text, " ", action.stage.value(), ActionKindName(action.kind),
                  action.microbatch.value());
}

}  // namespace

std::string ToText(const Schedule& schedule) {
  std::string text =
      absl::StrCat(kFormatName, " ", kVersion, " kind=", schedule.kind,
                   " workers=", schedule.workers,
                   " stages_per_worker=", schedule.stages_per_worker,
                   " microbatches=", schedule.microbatches,
                   " send_budget=", schedule.send_budget, "\nplacement");
  for (const WorkerIndex worker : schedule.placement) {
    absl::StrAppend(&text, " ", worker.value());
  }
  text += '\n';
  for (const EdgePlan& plan : schedule.edges) {
    absl::StrAppend(&text, "edge ", ToString(plan.edge),
                    " receive_depth=", plan.receive_depth,
                    " pool_slots=", plan.pool_slots, "\n");
  }
  for (size_t w = 0; w < schedule.actions.size(); ++w) {
    absl::StrAppend(&text, "worker ", w, ":");
    for (const Action& action : schedule.actions[w]) {
      AppendAction(action, &text);
    }
    text += '\n';
  }
  text += "end\n";
  return text;
}

absl::StatusOr<Schedule> ParseText(absl::string_view text) {
  return TextParser(text).Parse();
}

}  // namespace stagecoach::schedule

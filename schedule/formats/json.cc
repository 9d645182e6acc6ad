// One object; every member must be there, and no other:
//
//   {"format": "stagecoach-schedule", "version": 1, "kind": "1f1b",
//    "workers": 2, "stages_per_worker": 1, "microbatches": 4,
//    "send_budget": 2, "placement": [0, 1],
//    "edges": [{"from": 0, "to": 1, "direction": "activation",
//               "receive_depth": 2, "pool_slots": 4}],
//    "actions": [["0F0", ...], ["1RECV_F0", ...]]}

#include "nlohmann/json.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "schedule/formats/check.h"
#include "schedule/formats/formats.h"
#include "schedule/formats/json_places.h"
#include "schedule/shape.h"

namespace stagecoach::schedule {
namespace {

using formats::ErrorAt;
using nlohmann::json;

constexpr int64_t kMaxInt = 0x7fffffff;

const std::vector<std::string>& ScheduleMembers() {
  static const auto* const names = new std::vector<std::string>{
      "format",      "version",           "kind",
      "workers",     "stages_per_worker", "microbatches",
      "send_budget", "placement",         "edges",
      "actions"};
  return *names;
}

const std::vector<std::string>& EdgeMembers() {
  static const auto* const names = new std::vector<std::string>{
      "from", "to", "direction", "receive_depth", "pool_slots"};
  return *names;
}

// Thrown and caught by JsonParser only.
struct TooMany {
  std::string message;
};

// Takes the actions out of the document while it is parsed: as JSON values they
// would need six times the memory, and there may be millions. Keeps the text of
// none; the first element that is no list or no action is known by its place.
class ActionTaker {
 public:
  struct Place {
    size_t list = 0;
    size_t position = 0;
  };

  // The parser's callback: whether the document is to have this value. Depth 1
  // is a member of the document, 2 a list in "actions", 3 an action.
  bool Keep(int depth, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_end || event == Event::array_end) return true;
    if (event == Event::key) {
      if (depth == 1) in_actions_ = parsed == "actions";
      return CountOther();
    }
    if (!in_actions_ || depth < 2) return CountOther();
    if (no_list_ || no_action_) return false;
    if (depth == 2 && event == Event::array_start) {
      lists_.emplace_back();
      return CountOther();
    }
    if (depth == 2) no_list_ = lists_.size();
    if (depth == 3) Take(event, parsed);
    return false;
  }

  const std::optional<size_t>& no_list() const { return no_list_; }
  const std::optional<Place>& no_action() const { return no_action_; }
  std::vector<std::vector<Action>>& lists() { return lists_; }

 private:
  static constexpr int64_t kMaxOther = int64_t{1} << 24;

  bool CountOther() {
    if (++others_ <= kMaxOther) return true;
    throw TooMany{absl::StrCat("more than ", kMaxOther,
                               " values that are no actions; no schedule has "
                               "so many")};
  }

  void Take(json::parse_event_t event, const json& parsed) {
    Action action;
    if (event != json::parse_event_t::value || !parsed.is_string() ||
        !ParseAction(parsed.get_ref<const std::string&>(), &action)) {
      no_action_ = Place{lists_.size() - 1, lists_.back().size()};
      return;
    }
    if (++count_ > kMaxActions) {
      throw TooMany{
          absl::StrCat("more actions than the limit of ", kMaxActions)};
    }
    lists_.back().push_back(action);
  }

  bool in_actions_ = false;
  int64_t others_ = 0;
  int64_t count_ = 0;
  std::optional<size_t> no_list_;
  std::optional<Place> no_action_;
  std::vector<std::vector<Action>> lists_;
};

class JsonParser {
 public:
  explicit JsonParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Schedule> Parse() {
    SC_RETURN_IF_ERROR(ReadDocument());
    SC_RETURN_IF_ERROR(ReadHeader());
    SC_RETURN_IF_ERROR(ReadPlacement());
    SC_RETURN_IF_ERROR(ReadEdges());
    SC_RETURN_IF_ERROR(ReadActions());
    return std::move(schedule_);
  }

 private:
  using Members = std::vector<formats::JsonMember>;

  static size_t PlaceOf(const Members& members, absl::string_view name) {
    for (const formats::JsonMember& member : members) {
      if (member.name == name) return member.value_at;
    }
    return 0;
  }
  absl::Status Error(const Members& members, absl::string_view name,
                     absl::string_view message) const {
    return ErrorAt(text_, PlaceOf(members, name), message);
  }

  absl::Status ReadDocument() {
    try {
      document_ = json::parse(
          text_.begin(), text_.end(),
          [this](int depth, json::parse_event_t event, const json& parsed) {
            return taker_.Keep(depth, event, parsed);
          });
    } catch (const TooMany& too_many) {
      return ErrorAt(text_, 0, too_many.message);
    } catch (const json::parse_error& error) {
      return ErrorAt(text_, error.byte == 0 ? 0 : error.byte - 1,
                     absl::StrCat("not JSON: ", error.what()));
    } catch (const json::exception& error) {
      // A number that no double holds; it is named, its place is not known.
      return ErrorAt(text_, 0, absl::StrCat("not JSON: ", error.what()));
    }
    if (!document_.is_object()) {
      return ErrorAt(text_, 0, "expected an object, {...}");
    }
    top_ = formats::JsonMembers(text_, 0);
    return CheckMembers(top_, ScheduleMembers(), 0);
  }

  // Exactly those of `names`, each once.
  absl::Status CheckMembers(const Members& members,
                            const std::vector<std::string>& names,
                            size_t object_at) const {
    std::vector<absl::string_view> seen;
    for (const formats::JsonMember& member : members) {
      if (std::find(names.begin(), names.end(), member.name) == names.end()) {
        return ErrorAt(text_, member.name_at,
                       absl::StrCat("unknown member; known are ",
                                    absl::StrJoin(names, ", ")));
      }
      if (std::find(seen.begin(), seen.end(), member.name) != seen.end()) {
        return ErrorAt(text_, member.name_at,
                       absl::StrCat("\"", member.name, "\" is there twice"));
      }
      seen.push_back(member.name);
    }
    for (const std::string& name : names) {
      if (std::find(seen.begin(), seen.end(), name) == seen.end()) {
        return ErrorAt(text_, object_at,
                       absl::StrCat("\"", name, "\" is missing"));
      }
    }
    return absl::OkStatus();
  }

  static bool IsInt(const json& value, int64_t low, int64_t high) {
    if (value.is_number_unsigned()) {
      const uint64_t number = value.get<uint64_t>();
      return number <= static_cast<uint64_t>(high) &&
             static_cast<int64_t>(number) >= low;
    }
    return value.is_number_integer() && value.get<int64_t>() >= low &&
           value.get<int64_t>() <= high;
  }

  absl::Status ReadInt(const json& object, const Members& members,
                       const char* name, int64_t low, int64_t high,
                       int* out) const {
    const json& value = object.at(name);
    if (!IsInt(value, low, high)) {
      return Error(members, name,
                   absl::StrCat("\"", name, "\" must be a whole number from ",
                                low, " to ", high));
    }
    *out = value.get<int>();
    return absl::OkStatus();
  }

  absl::Status ReadHeader() {
    if (document_["format"] != std::string(formats::kFormatName)) {
      return Error(
          top_, "format",
          absl::StrCat("\"format\" must be \"", formats::kFormatName, "\""));
    }
    if (!IsInt(document_["version"], formats::kVersion, formats::kVersion)) {
      return Error(top_, "version",
                   absl::StrCat("this version is not known; this program reads "
                                "version ",
                                formats::kVersion));
    }
    if (!document_["kind"].is_string()) {
      return Error(top_, "kind", "\"kind\" must be a string");
    }
    schedule_.kind = document_["kind"].get<std::string>();
    if (std::string problem = formats::KindProblem(schedule_.kind);
        !problem.empty()) {
      return Error(top_, "kind", problem);
    }
    SC_RETURN_IF_ERROR(ReadInt(document_, top_, "workers", 1, kMaxWorkers,
                               &schedule_.workers));
    SC_RETURN_IF_ERROR(ReadInt(document_, top_, "stages_per_worker", 1, kMaxInt,
                               &schedule_.stages_per_worker));
    SC_RETURN_IF_ERROR(ReadInt(document_, top_, "microbatches", 1, kMaxInt,
                               &schedule_.microbatches));
    return ReadInt(document_, top_, "send_budget", 0, kMaxInt,
                   &schedule_.send_budget);
  }

  // The place of element `index` of the array at `array_at`.
  size_t Element(size_t array_at, size_t index) const {
    return formats::JsonElements(text_, array_at).at(index);
  }

  absl::Status ReadPlacement() {
    const json& placement = document_["placement"];
    if (!placement.is_array()) {
      return Error(top_, "placement", "\"placement\" must be an array");
    }
    for (size_t s = 0; s < placement.size(); ++s) {
      if (!IsInt(placement[s], 0, schedule_.workers - 1)) {
        return ErrorAt(text_, Element(PlaceOf(top_, "placement"), s),
                       absl::StrCat("not a worker; workers are 0 to ",
                                    schedule_.workers - 1));
      }
      schedule_.placement.push_back(WorkerIndex(placement[s].get<int>()));
    }
    if (std::string problem = HeaderProblem(schedule_); !problem.empty()) {
      return Error(top_, "placement", problem);
    }
    return absl::OkStatus();
  }

  absl::Status ReadEdges() {
    const json& edges = document_["edges"];
    if (!edges.is_array()) {
      return Error(top_, "edges", "\"edges\" must be an array");
    }
    const std::vector<size_t> places =
        formats::JsonElements(text_, PlaceOf(top_, "edges"));
    for (size_t e = 0; e < edges.size(); ++e) {
      SC_RETURN_IF_ERROR(ReadEdge(edges[e], places.at(e)));
    }
    return absl::OkStatus();
  }

  absl::Status ReadEdge(const json& edge, size_t at) {
    if (!edge.is_object()) return ErrorAt(text_, at, "expected an object");
    const Members members = formats::JsonMembers(text_, at);
    SC_RETURN_IF_ERROR(CheckMembers(members, EdgeMembers(), at));
    int from = 0;
    int to = 0;
    EdgePlan plan;
    SC_RETURN_IF_ERROR(
        ReadInt(edge, members, "from", 0, schedule_.workers - 1, &from));
    SC_RETURN_IF_ERROR(
        ReadInt(edge, members, "to", 0, schedule_.workers - 1, &to));
    SC_RETURN_IF_ERROR(ReadInt(edge, members, "receive_depth", 0, kMaxInt,
                               &plan.receive_depth));
    SC_RETURN_IF_ERROR(
        ReadInt(edge, members, "pool_slots", 0, kMaxInt, &plan.pool_slots));
    if (!edge["direction"].is_string() ||
        !formats::ParseDirection(edge["direction"].get<std::string>(),
                                 &plan.edge.direction)) {
      return Error(members, "direction",
                   "\"direction\" must be \"activation\" or \"gradient\"");
    }
    plan.edge.from = WorkerIndex(from);
    plan.edge.to = WorkerIndex(to);
    if (std::string problem = formats::EdgeProblem(schedule_, plan);
        !problem.empty()) {
      return ErrorAt(text_, at, problem);
    }
    schedule_.edges.push_back(plan);
    return absl::OkStatus();
  }

  absl::Status ReadActions() {
    const json& lists = document_["actions"];
    if (lists.is_array() && taker_.no_list()) {
      return ErrorAt(text_,
                     Element(PlaceOf(top_, "actions"), *taker_.no_list()),
                     "expected a list of actions");
    }
    if (lists.is_array() && taker_.no_action()) {
      return ActionError(*taker_.no_action(), "not an action, as \"2F0\" is");
    }
    if (!lists.is_array() ||
        lists.size() != static_cast<size_t>(schedule_.workers)) {
      return Error(top_, "actions",
                   absl::StrCat("\"actions\" must be an array of ",
                                schedule_.workers, " lists, one per worker"));
    }
    schedule_.actions = std::move(taker_.lists());
    return CheckActions();
  }

  absl::Status CheckActions() const {
    formats::ActionCheck check(schedule_);
    for (size_t w = 0; w < schedule_.actions.size(); ++w) {
      const std::vector<Action>& list = schedule_.actions[w];
      for (size_t i = 0; i < list.size(); ++i) {
        if (std::string problem = check.Problem(list[i]); !problem.empty()) {
          return ActionError({w, i}, problem);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status ActionError(const ActionTaker::Place& place,
                           absl::string_view message) const {
    const size_t list_at = Element(PlaceOf(top_, "actions"), place.list);
    return ErrorAt(text_, Element(list_at, place.position), message);
  }

  const absl::string_view text_;
  ActionTaker taker_;
  json document_;  // without the actions
  Members top_;
  Schedule schedule_;
};

void AppendEdge(const EdgePlan& plan, std::string* text) {
  absl::StrAppend(text, "    {\"from\": ", plan.edge.from.value(),
                  ", \"to\": ", plan.edge.to.value(), ", \"direction\": \"",
                  DirectionName(plan.edge.direction),
                  "\", \"receive_depth\": ", plan.receive_depth,
                  ", \"pool_slots\": ", plan.pool_slots, "}");
}

void AppendList(const std::vector<Action>& list, std::string* text) {
  absl::StrAppend(text, "    [");
  const char* separator = "\"";
  for (const Action& action : list) {
    absl::StrAppend(text, separator, action.stage.value(),
                    ActionKindName(action.kind), action.microbatch.value());
    separator = "\", \"";
  }
  absl::StrAppend(text, list.empty() ? "]" : "\"]");
}

}  // namespace

std::string ToJson(const Schedule& schedule) {
  const std::string kind =
      json(schedule.kind).dump(-1, ' ', false, json::error_handler_t::replace);
  std::string text = absl::StrCat(
      "{\n  \"format\": \"", formats::kFormatName,
      "\",\n  \"version\": ", formats::kVersion, ",\n  \"kind\": ", kind,
      ",\n  \"workers\": ", schedule.workers,
      ",\n  \"stages_per_worker\": ", schedule.stages_per_worker,
      ",\n  \"microbatches\": ", schedule.microbatches,
      ",\n  \"send_budget\": ", schedule.send_budget, ",\n  \"placement\": [",
      absl::StrJoin(schedule.placement, ", ",
                    [](std::string* out, WorkerIndex worker) {
                      absl::StrAppend(out, worker.value());
                    }),
      "],\n  \"edges\": [");
  for (size_t e = 0; e < schedule.edges.size(); ++e) {
    text += e == 0 ? "\n" : ",\n";
    AppendEdge(schedule.edges[e], &text);
  }
  absl::StrAppend(&text, "],\n  \"actions\": [");
  for (size_t w = 0; w < schedule.actions.size(); ++w) {
    text += w == 0 ? "\n" : ",\n";
    AppendList(schedule.actions[w], &text);
  }
  text += "]\n}\n";
  return text;
}

absl::StatusOr<Schedule> ParseJson(absl::string_view text) {
  return JsonParser(text).Parse();
}

}  // namespace stagecoach::schedule

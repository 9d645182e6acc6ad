#include "client/output/schedule_output.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/output/table.h"
#include "client/output/text.h"

namespace stagecoach::client {
namespace {

Json ErrorJson(const schedule::VerifyError& error) {
  Json json;
  json["kind"] = error.kind;
  json["workers"] = Json::array();
  for (const WorkerIndex worker : error.workers) {
    json["workers"].push_back(worker.value());
  }
  json["actions"] = Json::array();
  for (const std::string& action : error.actions) {
    json["actions"].push_back(action);
  }
  json["message"] = error.message;
  return json;
}

// "1f1b, 4 workers x 1 stage, 8 microbatches, send budget 2".
std::string ShapeText(const schedule::Schedule& schedule) {
  std::string text = absl::StrCat(
      schedule.kind, ", ", Plural(schedule.workers, "worker"), " x ",
      Plural(schedule.stages_per_worker, "stage"), ", ", schedule.microbatches,
      schedule.microbatches == 1 ? " microbatch" : " microbatches");
  if (schedule.lowered()) {
    absl::StrAppend(&text, ", send budget ", schedule.send_budget);
  } else {
    absl::StrAppend(&text, ", compute actions only");
  }
  return text;
}

Json ActionOrNull(const std::string& action) {
  return action.empty() ? Json() : Json(action);
}

}  // namespace

Json VerdictJson(const schedule::Verdict& verdict) {
  Json json;
  json["ok"] = verdict.ok;
  json["errors"] = Json::array();
  for (const schedule::VerifyError& error : verdict.errors) {
    json["errors"].push_back(ErrorJson(error));
  }
  json["peak_in_flight"] = NumbersJson(verdict.peak_in_flight);
  json["ascending_accumulation"] = verdict.ascending_accumulation;
  return json;
}

std::string VerdictText(const schedule::Schedule& schedule,
                        const schedule::Verdict& verdict) {
  std::string text = absl::StrCat(verdict.ok ? "ok" : "refused", ": ",
                                  ShapeText(schedule), "\n");
  for (const schedule::VerifyError& error : verdict.errors) {
    absl::StrAppend(&text, error.kind, ": ", error.message, "\n");
    for (const std::string& action : error.actions) {
      absl::StrAppend(&text, "  ", action, "\n");
    }
  }
  if (!verdict.ok) return text;
  absl::StrAppend(
      &text, "peak in flight by worker: ", JoinNumbers(verdict.peak_in_flight),
      "\nascending accumulation: ",
      verdict.ascending_accumulation ? "yes" : "no", "\n");
  return text;
}

schedule::Verdict UnreadableVerdict(absl::string_view message) {
  schedule::Verdict verdict;
  schedule::VerifyError error;
  error.kind = "parse";
  error.message = std::string(message);
  verdict.errors.push_back(std::move(error));
  return verdict;
}

Json SimulationJson(const schedule::SimulateResult& result) {
  Json json;
  json["makespan"] = result.makespan;
  json["bubble_ratio"] = result.bubble_ratio;
  json["workers"] = Json::array();
  for (const schedule::WorkerTimes& worker : result.workers) {
    Json entry;
    entry["busy"] = worker.busy;
    entry["idle"] = worker.idle;
    entry["peak_in_flight"] = worker.peak_in_flight;
    entry["peak_held_outputs_never"] = worker.peak_held_outputs_never;
    json["workers"].push_back(std::move(entry));
  }
  return json;
}

std::string SimulationText(const schedule::Schedule& schedule,
                           const schedule::SimulateResult& result) {
  std::string text =
      absl::StrCat(ShapeText(schedule),
                   absl::StrFormat("\nmakespan %g, bubble %.1f %%\n\n",
                                   result.makespan, 100 * result.bubble_ratio));
  Table table({Left("worker"), Right("busy"), Right("idle"),
               Right("peak in flight"), Right("outputs held, never")});
  for (size_t i = 0; i < result.workers.size(); ++i) {
    const schedule::WorkerTimes& worker = result.workers[i];
    table.AddRow({absl::StrCat("w", i), absl::StrFormat("%g", worker.busy),
                  absl::StrFormat("%g", worker.idle),
                  absl::StrCat(worker.peak_in_flight),
                  absl::StrCat(worker.peak_held_outputs_never)});
  }
  return text + table.Render();
}

Json TimelineJson(const schedule::Schedule& schedule,
                  const schedule::SimulateResult& result) {
  Json json;
  json["kind"] = schedule.kind;
  json["makespan"] = result.makespan;
  json["workers"] = Json::array();
  for (const auto& timeline : result.timeline) {
    Json entries = Json::array();
    for (const schedule::TimelineEntry& item : timeline) {
      Json entry;
      entry["action"] = schedule::ToString(item.action);
      entry["start"] = item.start;
      entry["end"] = item.end;
      entries.push_back(std::move(entry));
    }
    Json worker;
    worker["timeline"] = std::move(entries);
    json["workers"].push_back(std::move(worker));
  }
  return json;
}

Json DifferenceJson(const schedule::ScheduleDifference& difference) {
  Json json;
  json["equal"] = difference.empty();
  json["header"] = Json::array();
  for (const std::string& line : difference.header) {
    json["header"].push_back(line);
  }
  json["workers"] = Json::array();
  for (const schedule::ListDifference& list : difference.lists) {
    Json entry;
    entry["worker"] = list.worker.value();
    entry["position"] = list.position;
    entry["left"] = ActionOrNull(list.left);
    entry["right"] = ActionOrNull(list.right);
    json["workers"].push_back(std::move(entry));
  }
  return json;
}

std::string DifferenceText(const schedule::ScheduleDifference& difference) {
  return difference.empty() ? "equal\n" : schedule::ToText(difference);
}

}  // namespace stagecoach::client

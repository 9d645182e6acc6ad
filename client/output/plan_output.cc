#include "client/output/plan_output.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/memory_category.h"
#include "client/output/prediction_output.h"
#include "client/output/table.h"
#include "client/output/text.h"
#include "job/model_shape.h"

namespace stagecoach::client {
namespace {

std::string WorkerName(WorkerIndex worker) {
  return absl::StrCat("w", worker.value());
}

// Activation bytes that one microbatch puts on the wire behind a stage.
int64_t OutputBytes(const job::JobPlan& plan, StageIndex stage) {
  if (!plan.schedule.SendsActivation(stage)) return 0;
  return plan.boundary.bytes();
}

Json WorkerJson(const job::JobPlan& plan, WorkerIndex worker) {
  int64_t layers = 0;
  Json stages = Json::array();
  for (const StageIndex stage : plan.schedule.StagesOf(worker)) {
    stages.push_back(stage.value());
    layers += plan.stages[stage.index()].end - plan.stages[stage.index()].begin;
  }
  Json json;
  json["worker"] = WorkerName(worker);
  json["stages"] = std::move(stages);
  json["layers"] = layers;
  json["peak_in_flight"] = plan.verdict.peak_in_flight[worker.index()];
  if (plan.measured) {
    const schedule::WorkerTimes& times = plan.simulated.workers[worker.index()];
    json["peak_in_flight_bytes"] = times.peak_in_flight_bytes;
    json["busy_seconds"] = times.busy;
  }
  if (!plan.memory.empty()) AddPrediction(plan.memory[worker.index()], &json);
  return json;
}

Json StageJson(const job::JobSpec& spec, const job::JobPlan& plan,
               StageIndex stage) {
  const job::StageLayers& layers = plan.stages[stage.index()];
  Json json;
  json["stage"] = stage.value();
  json["worker"] = WorkerName(plan.schedule.WorkerOf(stage));
  json["layers"] = layers.end - layers.begin;
  json["layer_begin"] = layers.begin;
  json["layer_end"] = layers.end;
  json["parameters"] = job::StageParameterCount(spec, layers);
  json["output_bytes"] = OutputBytes(plan, stage);
  if (plan.measured) {
    const schedule::StageCosts& costs = plan.simulation.costs[stage.index()];
    json["forward_seconds"] = costs.forward;
    json["backward_seconds"] = costs.FullBackward();
    json["backward_input_seconds"] = costs.backward_input;
    json["backward_weight_seconds"] = costs.backward_weight;
    json["in_flight_bytes"] = plan.simulation.bytes[stage.index()].in_flight;
  }
  return json;
}

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.2f ms", 1e3 * seconds);
}

std::string StagesTable(const job::JobSpec& spec, const job::JobPlan& plan) {
  std::vector<Table::Column> columns = {Right("stage"), Left("worker"),
                                        Left("layers"), Right("parameters"),
                                        Right("output")};
  if (plan.measured) {
    columns.insert(columns.end(), {Right("forward"), Right("backward")});
  }
  Table table(columns);
  for (int i = 0; i < plan.schedule.stages(); ++i) {
    const StageIndex stage(i);
    const job::StageLayers& layers = plan.stages[stage.index()];
    std::vector<std::string> row = {
        absl::StrCat(i), WorkerName(plan.schedule.WorkerOf(stage)),
        FormatLayers(layers.begin, layers.end),
        FormatCount(job::StageParameterCount(spec, layers)),
        FormatByteSize(OutputBytes(plan, stage))};
    if (plan.measured) {
      const schedule::StageCosts& costs = plan.simulation.costs[stage.index()];
      row.push_back(Milliseconds(costs.forward));
      row.push_back(Milliseconds(costs.FullBackward()));
    }
    table.AddRow(std::move(row));
  }
  return table.Render();
}

std::string WorkersTable(const job::JobPlan& plan) {
  std::vector<Table::Column> columns = {Left("worker"), Left("stages"),
                                        Right("peak in flight"), Right("idle")};
  if (plan.measured) columns.push_back(Right("kept for backward"));
  if (!plan.memory.empty()) columns.push_back(Right("predicted peak"));
  Table table(columns);
  for (int i = 0; i < plan.schedule.workers; ++i) {
    const WorkerIndex worker(i);
    std::vector<int> stages;
    for (const StageIndex stage : plan.schedule.StagesOf(worker)) {
      stages.push_back(stage.value());
    }
    const schedule::WorkerTimes& times = plan.simulated.workers[worker.index()];
    std::vector<std::string> row = {
        WorkerName(worker), JoinNumbers(stages),
        absl::StrCat(plan.verdict.peak_in_flight[worker.index()]),
        absl::StrFormat("%.1f %%", 100 * times.idle / plan.simulated.makespan)};
    if (plan.measured) {
      row.push_back(FormatByteSize(times.peak_in_flight_bytes));
    }
    if (!plan.memory.empty()) {
      const job::MemoryInterval& memory = plan.memory[worker.index()];
      row.push_back(IntervalText(memory.low.total, memory.high.total));
    }
    table.AddRow(std::move(row));
  }
  return table.Render();
}

// Each category's own greatest, with all send budgets used.
std::string CategoriesTable(const job::JobPlan& plan) {
  std::vector<MemoryCategory> shown;
  std::vector<Table::Column> columns = {Left("worker")};
  for (int i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    const bool any = std::any_of(plan.memory.begin(), plan.memory.end(),
                                 [category](const job::MemoryInterval& worker) {
                                   return worker.high.Of(category) > 0;
                                 });
    if (!any) continue;
    shown.push_back(category);
    columns.push_back(Right(MemoryCategoryName(category)));
  }
  Table table(columns);
  for (size_t i = 0; i < plan.memory.size(); ++i) {
    std::vector<std::string> row = {
        WorkerName(WorkerIndex(static_cast<int32_t>(i)))};
    for (const MemoryCategory category : shown) {
      row.push_back(FormatByteSize(plan.memory[i].high.Of(category)));
    }
    table.AddRow(std::move(row));
  }
  return table.Render();
}

// What measured costs decided.
std::string ChoiceText(const job::JobPlan& plan) {
  std::string text = absl::StrCat(
      "predicted step: ", Milliseconds(plan.simulated.makespan), "\n");
  if (plan.schedules_tried > 0) {
    absl::StrAppend(&text, "schedule \"auto\": the shortest of ",
                    plan.schedules_tried, " that were simulated, with ",
                    Plural(plan.schedule.stages_per_worker, "stage"),
                    " per worker and send budget ", plan.schedule.send_budget,
                    "\n");
  }
  if (plan.even_split_seconds > 0) {
    absl::StrAppend(
        &text, "split \"auto\": ",
        absl::StrFormat("%.2f times as quick as an even split (%s)\n",
                        plan.even_split_seconds / plan.simulated.makespan,
                        Milliseconds(plan.even_split_seconds)));
  }
  return text;
}

}  // namespace

Json PlanJson(const job::JobSpec& spec, const job::JobPlan& plan) {
  Json json;
  json["schedule"] = plan.schedule.kind;
  json["verified"] = plan.verdict.ok;
  json["ascending_accumulation"] = plan.verdict.ascending_accumulation;
  json["bubble_ratio"] = plan.simulated.bubble_ratio;
  json["measured"] = plan.measured;
  json["stages_per_worker"] = plan.schedule.stages_per_worker;
  json["send_budget"] = plan.schedule.send_budget;
  if (plan.measured) {
    json["predicted_step_seconds"] = plan.simulated.makespan;
  }
  if (plan.even_split_seconds > 0) {
    json["even_split_seconds"] = plan.even_split_seconds;
  }
  json["parameters"] = job::ModelParameterCount(spec);
  json["tokens_per_step"] = plan.target_tokens_per_step;
  json["workers"] = Json::array();
  for (int i = 0; i < plan.schedule.workers; ++i) {
    json["workers"].push_back(WorkerJson(plan, WorkerIndex(i)));
  }
  json["stages"] = Json::array();
  for (int i = 0; i < plan.schedule.stages(); ++i) {
    json["stages"].push_back(StageJson(spec, plan, StageIndex(i)));
  }
  return json;
}

std::string PlanText(const job::JobSpec& spec, const job::JobPlan& plan) {
  std::string text =
      absl::StrCat(spec.name, ": ", FormatCount(job::ModelParameterCount(spec)),
                   " parameters, ", FormatCount(plan.target_tokens_per_step),
                   " tokens a step\n");
  absl::StrAppend(&text, "\n", StagesTable(spec, plan));
  absl::StrAppend(&text, "\n", WorkersTable(plan));
  absl::StrAppend(&text, "\nschedule ", plan.schedule.kind, ": ",
                  plan.verdict.ok ? "verified" : "refused",
                  absl::StrFormat(", bubble %.1f %% at %s costs",
                                  100 * plan.simulated.bubble_ratio,
                                  plan.measured ? "measured" : "equal"),
                  plan.verdict.ascending_accumulation
                      ? ""
                      : "; microbatches are not added up in ascending order",
                  "\n");
  if (!plan.memory.empty()) {
    absl::StrAppend(&text, "\npredicted peaks by category\n",
                    CategoriesTable(plan));
  }
  if (plan.measured) text += ChoiceText(plan);
  if (plan.provisional) {
    text +=
        "what is \"auto\" is decided once a worker has measured the model; "
        "until then this stands for it\n";
  }
  return text;
}

}  // namespace stagecoach::client

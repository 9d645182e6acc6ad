#include "client/output/plan_output.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes.h"
#include "base/ids.h"
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
  return static_cast<int64_t>(plan.boundary.bytes());
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
  return json;
}

std::string StagesTable(const job::JobSpec& spec, const job::JobPlan& plan) {
  Table table({Right("stage"), Left("worker"), Left("layers"),
               Right("parameters"), Right("output")});
  for (int i = 0; i < plan.schedule.stages(); ++i) {
    const StageIndex stage(i);
    const job::StageLayers& layers = plan.stages[stage.index()];
    table.AddRow({absl::StrCat(i), WorkerName(plan.schedule.WorkerOf(stage)),
                  FormatLayers(layers.begin, layers.end),
                  FormatCount(job::StageParameterCount(spec, layers)),
                  FormatByteSize(OutputBytes(plan, stage))});
  }
  return table.Render();
}

std::string WorkersTable(const job::JobPlan& plan) {
  Table table(
      {Left("worker"), Left("stages"), Right("peak in flight"), Right("idle")});
  for (int i = 0; i < plan.schedule.workers; ++i) {
    const WorkerIndex worker(i);
    std::vector<int> stages;
    for (const StageIndex stage : plan.schedule.StagesOf(worker)) {
      stages.push_back(stage.value());
    }
    const double idle = plan.simulated.workers[worker.index()].idle;
    table.AddRow(
        {WorkerName(worker), JoinNumbers(stages),
         absl::StrCat(plan.verdict.peak_in_flight[worker.index()]),
         absl::StrFormat("%.1f %%", 100 * idle / plan.simulated.makespan)});
  }
  return table.Render();
}

}  // namespace

Json PlanJson(const job::JobSpec& spec, const job::JobPlan& plan) {
  Json json;
  json["schedule"] = plan.schedule.kind;
  json["verified"] = plan.verdict.ok;
  json["ascending_accumulation"] = plan.verdict.ascending_accumulation;
  json["bubble_ratio"] = plan.simulated.bubble_ratio;
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
                  absl::StrFormat(", bubble %.1f %% at equal costs",
                                  100 * plan.simulated.bubble_ratio),
                  plan.verdict.ascending_accumulation
                      ? ""
                      : "; microbatches are not added up in ascending order",
                  "\n");
  return text;
}

}  // namespace stagecoach::client

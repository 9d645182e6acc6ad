#include "client/output/job_output.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/bytes.h"
#include "client/output/edge_output.h"
#include "client/output/prediction_output.h"
#include "client/output/table.h"
#include "client/output/text.h"

namespace stagecoach::client {
namespace {

// ---- JSON -------------------------------------------------------------------

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// Negative numbers in messages mean "unknown".
Json NumberOrNull(int64_t number) {
  return number < 0 ? Json(nullptr) : Json(number);
}

Json WorkerJson(const v1::JobWorker& worker) {
  Json json;
  json["worker"] = worker.worker();
  json["stages"] = NumbersJson(worker.stages());
  AddPrediction(worker, &json);
  json["measured_peak_bytes"] = worker.measured_peak_bytes();
  json["outputs_held_peak_bytes"] = worker.outputs_held_peak_bytes();
  json["receive_pool_bytes"] = worker.receive_pool_bytes();
  json["idle_ratio"] = worker.idle_ratio();
  if (worker.has_link()) json["link"] = LinkJson(worker.link());
  return json;
}

Json StageJson(const v1::JobStage& stage) {
  const v1::StageMemory& memory = stage.memory();
  Json json;
  json["stage"] = stage.stage();
  json["worker"] = stage.worker();
  json["layers"] = stage.layer_end() - stage.layer_begin();
  json["layer_begin"] = stage.layer_begin();
  json["layer_end"] = stage.layer_end();
  json["output_bytes"] = stage.output_bytes();
  json["outputs_sent_bytes"] = memory.sent_bytes();
  json["released_bytes"] = memory.released_bytes();
  json["retained_bytes"] = memory.retained_bytes();
  json["discarded_bytes"] = memory.discarded_bytes();
  json["pending_bytes"] = memory.pending_bytes();
  json["retained_by"] = Json::array();
  for (const v1::RetainedBytes& retained : memory.retained_by()) {
    Json entry;
    entry["op"] = retained.op();
    entry["bytes"] = retained.bytes();
    json["retained_by"].push_back(std::move(entry));
  }
  json["outputs_held_peak_bytes"] = memory.outputs_held_peak_bytes();
  return json;
}

Json CheckpointJson(const v1::JobCheckpoint& checkpoint) {
  Json json;
  json["step"] =
      checkpoint.path().empty() ? Json(nullptr) : Json(checkpoint.step());
  json["path"] = TextOrNull(checkpoint.path());
  json["error"] = TextOrNull(checkpoint.error());
  return json;
}

Json RecoveryJson(const v1::JobRecovery& recovery) {
  Json json;
  json["cause"] = CauseJson(recovery.cause());
  json["victims"] = Json::array();
  for (const auto& victim : recovery.victims()) {
    json["victims"].push_back(victim);
  }
  json["unix_seconds"] =
      static_cast<double>(recovery.unix_microseconds()) * 1e-6;
  json["steps_before"] = recovery.steps_before();
  json["step"] = NumberOrNull(recovery.step());
  json["steps_redone"] = recovery.steps_redone();
  json["seconds_lost"] = recovery.seconds_lost();
  return json;
}

// [] {step loss}: of the parameters after so many steps.
Json EvaluationsJson(const v1::Job& job) {
  Json list = Json::array();
  const auto add = [&list](int64_t step, double loss) {
    Json entry;
    entry["step"] = step;
    entry["loss"] = loss;
    list.push_back(std::move(entry));
  };
  for (const v1::StepResult& step : job.steps()) {
    if (step.has_evaluation_loss()) add(step.step(), step.evaluation_loss());
  }
  if (job.has_evaluation_loss()) add(job.steps_size(), job.evaluation_loss());
  return list;
}

// Whose gradients were not finite: they changed nothing.
int64_t SkippedSteps(const v1::Job& job) {
  return std::count_if(
      job.steps().begin(), job.steps().end(),
      [](const v1::StepResult& step) { return step.skipped(); });
}

// ---- text -------------------------------------------------------------------

std::string LossLine(const v1::Job& job) {
  if (job.steps().empty()) return "no step was committed";
  const v1::StepResult& first = *job.steps().begin();
  const v1::StepResult& last = *job.steps().rbegin();
  const int64_t skipped = SkippedSteps(job);
  return absl::StrFormat(
      "%.4f -> %.4f over %s%s (gradient norm %.3f -> %.3f)", first.loss(),
      last.loss(), Plural(job.steps_size(), "step"),
      skipped > 0 ? absl::StrFormat(", %d skipped", skipped) : "",
      first.grad_norm(), last.grad_norm());
}

// What was chosen, where the spec says "auto".
int64_t StagesPerWorker(const v1::Job& job) {
  const v1::PipelineSpec& pipeline = job.spec().pipeline();
  return job.stages().empty() ? pipeline.stages_per_worker()
                              : job.stages_size() / pipeline.workers();
}

// "5.5622 -> 4.1012 over 3 evaluations", "" without any.
std::string EvaluationLine(const v1::Job& job) {
  std::vector<double> losses;
  for (const v1::StepResult& step : job.steps()) {
    if (step.has_evaluation_loss()) losses.push_back(step.evaluation_loss());
  }
  if (job.has_evaluation_loss()) losses.push_back(job.evaluation_loss());
  if (losses.empty()) return "";
  return absl::StrFormat(
      "%.4f -> %.4f over %s", losses.front(), losses.back(),
      Plural(static_cast<int64_t>(losses.size()), "evaluation"));
}

std::string ScheduleLine(const v1::Job& job) {
  const v1::PipelineSpec& pipeline = job.spec().pipeline();
  std::string line = job.schedule();
  if (pipeline.workers() == 0) return line;
  const int64_t microbatches = job.spec().training().microbatches();
  absl::StrAppend(&line, ", ", Plural(pipeline.workers(), "worker"), " x ",
                  Plural(StagesPerWorker(job), "stage"), ", ",
                  FormatCount(microbatches),
                  microbatches == 1 ? " microbatch" : " microbatches");
  return line;
}

std::string ReleaseLine(const v1::Job& job) {
  const int64_t budget = job.spec().pipeline().send_budget();
  if (budget == 0) return job.release();
  return absl::StrCat(job.release(), " (send budget ", budget, ")");
}

std::string CheckpointLine(const v1::Job& job) {
  const v1::JobCheckpoint& checkpoint = job.checkpoint();
  std::string line = checkpoint.path().empty() ? "none" : checkpoint.path();
  if (job.first_step() > 0) {
    absl::StrAppend(&line, "; began with step ", job.first_step());
  }
  if (!checkpoint.error().empty()) {
    absl::StrAppend(&line, "; the last attempt failed: ", checkpoint.error());
  }
  return line;
}

// "step 37, 2F5": where a failed worker was, as far as it is known.
std::string PositionOf(const v1::FailureCause& cause) {
  std::string text;
  if (cause.step() >= 0) absl::StrAppend(&text, ", step ", cause.step());
  if (cause.action().empty()) return text;
  absl::StrAppend(&text, ", ", cause.action());
  if (cause.microbatch() >= 0) {
    absl::StrAppend(&text, " (microbatch ", cause.microbatch(), ")");
  }
  return text;
}

// "2 failures, 3 steps redone, 4.1 s lost; the last: stage 1 ...".
std::string RecoveryLine(const v1::Job& job) {
  int64_t redone = 0;
  double seconds = 0;
  for (const v1::JobRecovery& recovery : job.recoveries()) {
    redone += recovery.steps_redone();
    seconds += recovery.seconds_lost();
  }
  const v1::FailureCause& last = job.recoveries().rbegin()->cause();
  return absl::StrCat(Plural(job.recoveries_size(), "failure"), ", ",
                      Plural(redone, "step"), " redone, ",
                      FormatSeconds(seconds), " lost; the last: stage ",
                      last.stage(), " (worker ", last.worker(), ")",
                      PositionOf(last), ": ", last.message());
}

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(),
                   values.begin() + static_cast<ptrdiff_t>(middle),
                   values.end());
  return values[middle];
}

std::string SpeedLine(const v1::Job& job) {
  std::vector<double> seconds;
  std::vector<double> rates;
  for (const v1::StepResult& step : job.steps()) {
    seconds.push_back(step.seconds());
    rates.push_back(step.tokens_per_second());
  }
  return absl::StrFormat("%s tokens/s, %s a step (medians)",
                         FormatShort(MedianOf(rates)),
                         FormatSeconds(MedianOf(seconds)));
}

std::string WorkersTable(const v1::Job& job) {
  const bool predicted =
      job.workers_size() > 0 && job.workers(0).has_predicted();
  std::vector<Table::Column> columns = {Left("worker"), Left("stages")};
  if (predicted) columns.push_back(Right("predicted peak"));
  columns.insert(columns.end(), {Right("measured peak"), Right("outputs held"),
                                 Right("receive pool"), Right("idle")});
  Table table(columns);
  for (const v1::JobWorker& worker : job.workers()) {
    std::vector<std::string> row = {worker.worker(),
                                    JoinNumbers(worker.stages())};
    if (predicted) row.push_back(PredictionText(worker));
    row.insert(row.end(),
               {FormatByteSize(worker.measured_peak_bytes()),
                FormatByteSize(worker.outputs_held_peak_bytes()),
                FormatByteSize(worker.receive_pool_bytes()),
                absl::StrFormat("%.1f %%", 100 * worker.idle_ratio())});
    table.AddRow(std::move(row));
  }
  std::string text = table.Render();
  for (const std::string& warning : MemoryWarnings(job)) {
    absl::StrAppend(&text, "warning: ", warning, "\n");
  }
  return text;
}

std::string RetainedBy(const v1::StageMemory& memory) {
  return absl::StrJoin(memory.retained_by(), ", ",
                       [](std::string* out, const v1::RetainedBytes& entry) {
                         absl::StrAppend(out, entry.op(), " ",
                                         FormatByteSize(entry.bytes()));
                       });
}

std::string StagesTable(const v1::Job& job) {
  Table table({Right("stage"), Left("worker"), Left("layers"), Right("sent"),
               Right("released"), Right("retained"), Right("discarded"),
               Right("held peak"), Left("retained by")});
  for (const v1::JobStage& stage : job.stages()) {
    const v1::StageMemory& memory = stage.memory();
    table.AddRow({absl::StrCat(stage.stage()), stage.worker(),
                  FormatLayers(stage.layer_begin(), stage.layer_end()),
                  FormatByteSize(memory.sent_bytes()),
                  FormatByteSize(memory.released_bytes()),
                  FormatByteSize(memory.retained_bytes()),
                  FormatByteSize(memory.discarded_bytes()),
                  FormatByteSize(memory.outputs_held_peak_bytes()),
                  RetainedBy(memory)});
  }
  return table.Render();
}

std::string Heading(const v1::Job& job) {
  std::string text = absl::StrCat("job ", job.id());
  if (!job.name().empty()) absl::StrAppend(&text, " (", job.name(), ")");
  absl::StrAppend(&text, " ", JobStateName(job.state()));
  if (job.total_seconds() > 0) {
    absl::StrAppend(&text, ", ", FormatSeconds(job.total_seconds()));
  }
  if (!job.reason().empty()) absl::StrAppend(&text, ": ", job.reason());
  return text + "\n";
}

// "released after acknowledgement": what a release waited for.
absl::string_view ReleasedHow(const v1::Job& job) {
  return job.release() == "sent" ? "released at local completion"
                                 : "released after acknowledgement";
}

}  // namespace

Json StepJson(const v1::StepResult& step) {
  Json json;
  json["step"] = step.step();
  json["loss"] = step.loss();
  json["grad_norm"] = step.grad_norm();
  json["learning_rate"] = step.learning_rate();
  json["seconds"] = step.seconds();
  json["compute_seconds"] = step.compute_seconds();
  json["tokens_per_second"] = step.tokens_per_second();
  json["skipped"] = step.skipped();
  return json;
}

Json CauseJson(const v1::FailureCause& cause) {
  Json json;
  json["kind"] = FailureKindName(cause.kind());
  json["stage"] = NumberOrNull(cause.stage());
  json["worker"] = TextOrNull(cause.worker());
  json["action"] = TextOrNull(cause.action());
  json["microbatch"] = NumberOrNull(cause.microbatch());
  json["step"] = NumberOrNull(cause.step());
  json["message"] = cause.message();
  return json;
}

std::string JobStateName(v1::JobState state) {
  const std::string name = v1::JobState_Name(state);
  if (name.empty()) return absl::StrCat("STATE_", static_cast<int>(state));
  return std::string(absl::StripPrefix(name, "JOB_STATE_"));
}

std::string FailureKindName(v1::FailureKind kind) {
  const std::string name = v1::FailureKind_Name(kind);
  if (name.empty()) return absl::StrCat("kind_", static_cast<int>(kind));
  return absl::AsciiStrToLower(absl::StripPrefix(name, "FAILURE_KIND_"));
}

Json JobJson(const v1::Job& job) {
  Json json;
  json["job_id"] = job.id();
  json["name"] = job.name();
  json["state"] = JobStateName(job.state());
  json["reason"] = job.reason();
  json["schedule"] = job.schedule();
  json["transport"] = job.transport();
  json["edges"] = Json::array();
  for (const std::string& edge : job.edges()) {
    json["edges"].push_back(EdgeJson(job, edge));
  }
  json["release"] = job.release();
  json["kernels"] = TextOrNull(job.spec().training().kernels());
  json["total_seconds"] = job.total_seconds();
  json["parameters_sha256"] = TextOrNull(job.parameters_sha256());
  if (job.first_step() > 0) json["first_step"] = job.first_step();
  if (job.has_checkpoint())
    json["checkpoint"] = CheckpointJson(job.checkpoint());
  json["recoveries"] = Json::array();
  for (const v1::JobRecovery& recovery : job.recoveries()) {
    json["recoveries"].push_back(RecoveryJson(recovery));
  }
  json["steps"] = Json::array();
  for (const auto& step : job.steps()) json["steps"].push_back(StepJson(step));
  json["skipped_steps"] = SkippedSteps(job);
  const Json evaluations = EvaluationsJson(job);
  if (!evaluations.empty()) json["evaluations"] = evaluations;
  json["workers"] = Json::array();
  for (const v1::JobWorker& worker : job.workers()) {
    json["workers"].push_back(WorkerJson(worker));
  }
  const std::vector<std::string> warnings = MemoryWarnings(job);
  if (!warnings.empty()) json["memory_warnings"] = warnings;
  json["stages"] = Json::array();
  for (const v1::JobStage& stage : job.stages()) {
    json["stages"].push_back(StageJson(stage));
  }
  if (job.state() == v1::JOB_STATE_FAILED) {
    json["cause"] = CauseJson(job.cause());
    json["victims"] = Json::array();
    for (const auto& victim : job.victims()) json["victims"].push_back(victim);
  }
  return json;
}

Json JobListJson(const v1::ListJobsResponse& response) {
  Json json;
  json["jobs"] = Json::array();
  for (const v1::Job& job : response.jobs()) {
    Json entry;
    entry["id"] = job.id();
    entry["state"] = JobStateName(job.state());
    entry["reason"] = job.reason();
    entry["name"] = job.name();
    entry["schedule"] = job.schedule();
    entry["total_seconds"] = job.total_seconds();
    json["jobs"].push_back(std::move(entry));
  }
  return json;
}

std::string ReleaseSentence(const v1::Job& job) {
  int64_t sent = 0;
  int64_t released = 0;
  int64_t retained = 0;
  int64_t discarded = 0;
  for (const v1::JobStage& stage : job.stages()) {
    sent += stage.memory().sent_bytes();
    released += stage.memory().released_bytes();
    retained += stage.memory().retained_bytes();
    discarded += stage.memory().discarded_bytes();
  }
  int64_t held = 0;
  for (const v1::JobWorker& worker : job.workers()) {
    held = std::max(held, worker.outputs_held_peak_bytes());
  }
  std::string text = absl::StrCat(
      FormatByteSize(sent), " of outputs sent; ", FormatByteSize(released), " ",
      ReleasedHow(job), ", ", FormatByteSize(retained), " retained");
  if (discarded > 0) {
    absl::StrAppend(&text, ", ", FormatByteSize(discarded), " discarded");
  }
  absl::StrAppend(&text, "; at most ", FormatByteSize(held),
                  " held at once by a worker");
  return text;
}

std::string JobText(const v1::Job& job) {
  std::string text = Heading(job);
  absl::StrAppend(&text, "  loss        ", LossLine(job), "\n");
  if (const std::string line = EvaluationLine(job); !line.empty()) {
    absl::StrAppend(&text, "  evaluation  ", line, "\n");
  }
  absl::StrAppend(&text, "  schedule    ", ScheduleLine(job), "\n");
  absl::StrAppend(&text, "  release     ", ReleaseLine(job), "\n");
  absl::StrAppend(&text, "  transport   ", TransportLine(job), "\n");
  if (const std::string& kernels = job.spec().training().kernels();
      !kernels.empty()) {
    absl::StrAppend(&text, "  kernels     ", kernels, "\n");
  }
  if (!job.steps().empty()) {
    absl::StrAppend(&text, "  speed       ", SpeedLine(job), "\n");
  }
  if (job.has_checkpoint()) {
    absl::StrAppend(&text, "  checkpoint  ", CheckpointLine(job), "\n");
  }
  if (!job.recoveries().empty()) {
    absl::StrAppend(&text, "  recovered   ", RecoveryLine(job), "\n");
  }
  if (!job.workers().empty()) {
    absl::StrAppend(&text, "\n", WorkersTable(job));
  }
  if (!job.stages().empty()) {
    absl::StrAppend(&text, "\n", StagesTable(job));
    absl::StrAppend(&text, "\n", ReleaseSentence(job), "\n");
  }
  if (!job.parameters_sha256().empty()) {
    absl::StrAppend(&text, "parameters_sha256 ", job.parameters_sha256(), "\n");
  }
  return text;
}

std::string JobListText(const v1::ListJobsResponse& response) {
  if (response.jobs().empty()) return "no jobs\n";
  Table table({Left("id"), Left("name"), Left("state"), Left("schedule"),
               Right("seconds"), Left("reason")});
  for (const v1::Job& job : response.jobs()) {
    table.AddRow({job.id(), job.name(), JobStateName(job.state()),
                  job.schedule(), absl::StrFormat("%.1f", job.total_seconds()),
                  job.reason()});
  }
  return table.Render();
}

std::string FailureText(const v1::Job& job) {
  std::string text = absl::StrCat("job ", job.id(), " failed: ");
  const v1::FailureCause& cause = job.cause();
  if (!job.has_cause() || cause.message().empty()) {
    absl::StrAppend(
        &text, job.reason().empty() ? "no cause was reported" : job.reason());
  } else if (cause.worker().empty()) {
    absl::StrAppend(&text, cause.message());
  } else {
    absl::StrAppend(&text, "stage ", cause.stage(), " (worker ", cause.worker(),
                    ")", PositionOf(cause), ": ", cause.message());
  }
  if (!job.victims().empty()) {
    absl::StrAppend(
        &text, "\nfailed because of it: ", absl::StrJoin(job.victims(), ", "));
  }
  return text;
}

}  // namespace stagecoach::client

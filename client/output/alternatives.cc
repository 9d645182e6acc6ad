#include "client/output/alternatives.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bytes.h"
#include "base/status.h"
#include "client/output/table.h"
#include "job/model_shape.h"
#include "schedule/auto.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/schedule.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace stagecoach::client {
namespace {

constexpr int kMaxStagesPerWorker = 4;
// Of a worker's layers. Divisible by every V up to 4, so that times are exact.
constexpr double kWorkerCost = 12;

schedule::StageCosts EqualCosts(int stages_per_worker) {
  const double cost = kWorkerCost / stages_per_worker;
  schedule::StageCosts costs;
  costs.forward = costs.backward_input = costs.backward_weight = cost;
  return costs;
}

class Finder {
 public:
  Finder(const job::JobSpec& spec, const job::JobPlan& plan,
         const job::ModelProfile* profile)
      : spec_(spec), plan_(plan), profile_(profile) {}

  std::vector<Alternative> Find();

 private:
  int workers() const { return plan_.schedule.workers; }
  int own_v() const { return plan_.schedule.stages_per_worker; }
  bool Fits(int v) const {
    return int64_t{workers()} * v <= spec_.model.layers;
  }
  // V that are compared, ascending.
  std::vector<int> StagesPerWorker() const;
  void AddKind(const schedule::Generator& generator);
  void AddAuto();
  void Add(Alternative alternative, const absl::Status& status);
  absl::StatusOr<schedule::Schedule> Make(absl::string_view kind, int v) const;
  absl::StatusOr<schedule::SimulateOptions> Simulation(int v) const;
  // Fills in what the verifier and the simulator say.
  absl::Status Evaluate(const schedule::Schedule& schedule,
                        Alternative* alternative) const;
  absl::Status Search(Alternative* alternative) const;

  const job::JobSpec& spec_;
  const job::JobPlan& plan_;
  const job::ModelProfile* const profile_;
  std::vector<Alternative> found_;
};

std::vector<int> Finder::StagesPerWorker() const {
  std::vector<int> all;
  for (int v = 1; v <= kMaxStagesPerWorker && Fits(v); ++v) all.push_back(v);
  if (own_v() > kMaxStagesPerWorker) all.push_back(own_v());
  return all;
}

absl::StatusOr<schedule::Schedule> Finder::Make(absl::string_view kind,
                                                int v) const {
  if (!Fits(v)) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs ", workers() * v, " stages, but the model has ",
                     spec_.model.layers, " layers"));
  }
  schedule::GenerateOptions shape;
  shape.workers = workers();
  shape.stages_per_worker = v;
  shape.microbatches = plan_.schedule.microbatches;
  SC_ASSIGN_OR_RETURN(const schedule::Schedule compute,
                      schedule::Generate(kind, shape));
  schedule::LoweringOptions lowering;
  lowering.send_budget = static_cast<int>(spec_.pipeline.send_budget);
  lowering.tied_embeddings = job::SumsTiedGradients(spec_);
  return schedule::Lower(compute, lowering);
}

absl::StatusOr<schedule::SimulateOptions> Finder::Simulation(int v) const {
  if (profile_ == nullptr) {
    schedule::SimulateOptions options;
    options.costs = {EqualCosts(v)};
    return options;
  }
  if (v == own_v()) return plan_.simulation;
  job::JobSpec spec = spec_;
  spec.pipeline.split.clear();  // for another V
  SC_ASSIGN_OR_RETURN(const std::vector<job::StageLayers> stages,
                      job::ChooseSplit(spec, profile_, int64_t{workers()} * v));
  return job::SimulationOf(spec, profile_, stages);
}

absl::Status Finder::Evaluate(const schedule::Schedule& schedule,
                              Alternative* alternative) const {
  schedule::VerifyOptions demands;
  demands.tied_embeddings = job::SumsTiedGradients(spec_);
  const schedule::Verdict verdict = schedule::Verify(schedule, demands);
  SC_RETURN_IF_ERROR(verdict.ToStatus());
  SC_ASSIGN_OR_RETURN(const schedule::SimulateOptions options,
                      Simulation(schedule.stages_per_worker));
  SC_ASSIGN_OR_RETURN(const schedule::SimulateResult result,
                      schedule::Simulate(schedule, options));
  alternative->ascending_accumulation = verdict.ascending_accumulation;
  alternative->time =
      profile_ == nullptr ? result.makespan / kWorkerCost : result.makespan;
  for (const schedule::WorkerTimes& worker : result.workers) {
    alternative->peak_in_flight_bytes = std::max(
        alternative->peak_in_flight_bytes, worker.peak_in_flight_bytes);
  }
  alternative->bubble_ratio = result.bubble_ratio;
  alternative->peak_in_flight = *std::max_element(
      verdict.peak_in_flight.begin(), verdict.peak_in_flight.end());
  return absl::OkStatus();
}

void Finder::Add(Alternative alternative, const absl::Status& status) {
  alternative.refused = std::string(status.message());
  found_.push_back(std::move(alternative));
}

void Finder::AddKind(const schedule::Generator& generator) {
  std::vector<int> all = StagesPerWorker();
  if (generator.only_stages_per_worker != 0) {
    all = {generator.only_stages_per_worker};
  }
  for (const int v : all) {
    Alternative alternative;
    alternative.schedule = std::string(generator.kind);
    alternative.stages_per_worker = v;
    alternative.this_job =
        v == own_v() && alternative.schedule == spec_.pipeline.schedule;
    const absl::StatusOr<schedule::Schedule> schedule = Make(generator.kind, v);
    const absl::Status status =
        schedule.ok() ? Evaluate(*schedule, &alternative) : schedule.status();
    Add(std::move(alternative), status);
  }
}

absl::Status Finder::Search(Alternative* alternative) const {
  schedule::AutoOptions options;
  options.workers = workers();
  options.microbatches = plan_.schedule.microbatches;
  options.send_budgets = {static_cast<int>(spec_.pipeline.send_budget)};
  options.tied_embeddings = job::SumsTiedGradients(spec_);
  for (const int v : StagesPerWorker()) {
    SC_ASSIGN_OR_RETURN(const schedule::SimulateOptions simulation,
                        Simulation(v));
    options.profiles.resize(static_cast<size_t>(v));
    options.profiles.back().costs = simulation.costs;
    options.profiles.back().bytes = simulation.bytes;
    options.latency = simulation.latency;
    options.bandwidth = simulation.bandwidth;
  }
  SC_ASSIGN_OR_RETURN(const schedule::AutoChoice choice,
                      schedule::ChooseSchedule(options));
  const schedule::AutoCandidate& chosen = choice.candidates[choice.chosen];
  alternative->stages_per_worker = chosen.stages_per_worker;
  alternative->takes = chosen.kind;
  alternative->max_in_flight = chosen.max_in_flight;
  return Evaluate(choice.schedule, alternative);
}

void Finder::AddAuto() {
  Alternative alternative;
  alternative.schedule = "auto";
  const absl::Status status = Search(&alternative);
  Add(std::move(alternative), status);
}

std::vector<Alternative> Finder::Find() {
  if (schedule::FindGenerator(spec_.pipeline.schedule) == nullptr) {
    Alternative own;
    own.schedule = spec_.pipeline.schedule;
    own.stages_per_worker = own_v();
    own.this_job = true;
    const absl::Status status = Evaluate(plan_.schedule, &own);
    Add(std::move(own), status);
  }
  for (const schedule::Generator& generator : schedule::Generators()) {
    if (generator.trains) AddKind(generator);
  }
  AddAuto();
  return std::move(found_);
}

// "verified; takes zbv with at most 5 in flight".
std::string VerdictOf(const Alternative& alternative) {
  if (!alternative.verified()) return alternative.refused;
  std::string text = "verified";
  if (!alternative.ascending_accumulation) {
    text += ", does not add up in ascending order";
  }
  if (alternative.takes.empty()) return text;
  absl::StrAppend(
      &text, "; takes ",
      alternative.takes == "auto" ? "a list of its own" : alternative.takes);
  if (alternative.max_in_flight > 0) {
    absl::StrAppend(&text, " with at most ", alternative.max_in_flight,
                    " in flight");
  }
  return text;
}

Json AlternativeJson(const Alternative& alternative, bool measured) {
  const bool verified = alternative.verified();
  const auto known = [verified](auto value) {
    return verified ? Json(value) : Json();
  };
  Json json;
  json["schedule"] = alternative.schedule;
  json["stages_per_worker"] = alternative.stages_per_worker;
  json["this_job"] = alternative.this_job;
  json["verified"] = verified;
  json["refused"] = verified ? Json() : Json(alternative.refused);
  json["ascending_accumulation"] = known(alternative.ascending_accumulation);
  json[measured ? "predicted_step_seconds" : "time"] = known(alternative.time);
  json["bubble_ratio"] = known(alternative.bubble_ratio);
  json["peak_in_flight"] = known(alternative.peak_in_flight);
  json["activations"] = known(alternative.activations());
  if (measured) {
    json["peak_in_flight_bytes"] = known(alternative.peak_in_flight_bytes);
  }
  if (alternative.schedule == "auto") {
    json["takes"] = known(alternative.takes);
    json["max_in_flight"] = known(alternative.max_in_flight);
  }
  return json;
}

}  // namespace

std::vector<Alternative> FindAlternatives(const job::JobSpec& spec,
                                          const job::JobPlan& plan,
                                          const job::ModelProfile* profile) {
  return Finder(spec, plan, profile).Find();
}

Json AlternativesJson(const std::vector<Alternative>& alternatives,
                      bool measured) {
  Json list = Json::array();
  for (const Alternative& alternative : alternatives) {
    list.push_back(AlternativeJson(alternative, measured));
  }
  return list;
}

std::string AlternativesText(const std::vector<Alternative>& alternatives,
                             bool measured) {
  Table table({Left("schedule"), Right("V"), Right("time"), Right("bubble"),
               Right("peak in flight"),
               Right(measured ? "bytes" : "activations"), Left("verdict")});
  for (const Alternative& row : alternatives) {
    const std::string name =
        absl::StrCat(row.schedule, row.this_job ? " *" : "");
    if (!row.verified()) {
      table.AddRow({name, absl::StrCat(row.stages_per_worker), "-", "-", "-",
                    "-", VerdictOf(row)});
      continue;
    }
    table.AddRow({name, absl::StrCat(row.stages_per_worker),
                  measured ? absl::StrFormat("%.1f ms", 1e3 * row.time)
                           : absl::StrFormat("%.2f", row.time),
                  absl::StrFormat("%.1f %%", 100 * row.bubble_ratio),
                  absl::StrCat(row.peak_in_flight),
                  measured ? FormatByteSize(row.peak_in_flight_bytes)
                           : absl::StrFormat("%.2f", row.activations()),
                  VerdictOf(row)});
  }
  return absl::StrCat(
      table.Render(),
      measured
          ? "* this job. V: stages per worker. Time of a step at measured "
            "costs. In flight: stage\nand microbatch pairs, and what they "
            "keep for backward, of the worker with most.\n"
          : "* this job. V: stages per worker. Time at equal costs: 1 is the "
            "forward of one\nmicrobatch through a worker's layers. In flight: "
            "stage and microbatch pairs;\nactivations: 1 is what one "
            "microbatch keeps on a worker.\n");
}

}  // namespace stagecoach::client

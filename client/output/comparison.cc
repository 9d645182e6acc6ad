#include "client/output/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/output/table.h"
#include "client/output/text.h"

namespace stagecoach::client {
namespace {

// Longer tables are cut in the middle.
constexpr size_t kMaxRows = 24;

// A skipped step has no number; which kind of none says nothing.
bool SameBits(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  return absl::bit_cast<uint64_t>(a) == absl::bit_cast<uint64_t>(b);
}

std::vector<StepComparison> CompareSteps(const v1::Job& job,
                                         const v1::Job& reference) {
  std::vector<StepComparison> steps;
  const int count = std::min(job.steps_size(), reference.steps_size());
  for (int i = 0; i < count; ++i) {
    const v1::StepResult& a = job.steps(i);
    const v1::StepResult& b = reference.steps(i);
    StepComparison step;
    step.step = a.step();
    step.loss = a.loss();
    step.reference_loss = b.loss();
    step.grad_norm = a.grad_norm();
    step.reference_grad_norm = b.grad_norm();
    step.equal = a.step() == b.step() && SameBits(a.loss(), b.loss()) &&
                 SameBits(a.grad_norm(), b.grad_norm()) &&
                 a.skipped() == b.skipped();
    steps.push_back(step);
  }
  return steps;
}

// What makes two parameters the same, as one string.
std::string Identity(const v1::ParameterDigest& parameter) {
  return absl::StrCat(parameter.dtype(), "[", JoinNumbers(parameter.shape()),
                      "] ", parameter.sha256());
}

void CompareParameters(const v1::Job& job, const v1::Job& reference,
                       Comparison* comparison) {
  std::map<std::string, std::pair<std::string, std::string>> by_name;
  for (const auto& parameter : job.parameters()) {
    by_name[parameter.name()].first = Identity(parameter);
  }
  for (const auto& parameter : reference.parameters()) {
    by_name[parameter.name()].second = Identity(parameter);
  }
  comparison->parameters = static_cast<int64_t>(by_name.size());
  for (const auto& [name, identities] : by_name) {
    if (identities.first != identities.second) {
      comparison->unequal_parameters.push_back(name);
    }
  }
}

const StepComparison* FirstUnequalStep(const Comparison& comparison) {
  for (const StepComparison& step : comparison.steps) {
    if (!step.equal) return &step;
  }
  return nullptr;
}

std::string DifferenceOf(const Comparison& comparison, const v1::Job& job,
                         const v1::Job& reference) {
  if (const StepComparison* step = FirstUnequalStep(comparison)) {
    std::string text = absl::StrFormat(
        "step %d differs first: loss %.17g and %.17g, gradient norm %.17g and "
        "%.17g",
        step->step, step->loss, step->reference_loss, step->grad_norm,
        step->reference_grad_norm);
    if (!comparison.unequal_parameters.empty()) {
      absl::StrAppend(&text, "; parameter ",
                      comparison.unequal_parameters.front(), " differs");
    }
    return text;
  }
  if (job.steps_size() != reference.steps_size()) {
    return absl::StrCat("the job has ", Plural(job.steps_size(), "step"),
                        ", the single process ", reference.steps_size());
  }
  if (comparison.steps.empty()) return "no step was reported";
  if (comparison.parameters == 0) return "no parameter was reported";
  if (!comparison.unequal_parameters.empty()) {
    return absl::StrCat("after step ", comparison.steps.back().step,
                        " parameter ", comparison.unequal_parameters.front(),
                        " differs (", comparison.unequal_parameters.size(),
                        " of ", comparison.parameters,
                        " do), all losses equal");
  }
  if (job.parameters_sha256() != reference.parameters_sha256()) {
    return "the hash of all parameters differs, though each alone is equal";
  }
  return "";
}

Json SideJson(const v1::Job& job) {
  Json json;
  json["job_id"] = job.id();
  json["schedule"] = job.schedule();
  json["transport"] = job.transport();
  json["release"] = job.release();
  json["workers"] = job.spec().pipeline().workers();
  json["total_seconds"] = job.total_seconds();
  json["parameters_sha256"] = job.parameters_sha256();
  return json;
}

std::vector<std::string> RowOf(const StepComparison& step) {
  const auto text = [&](double value) {
    return step.equal ? absl::StrFormat("%.9g", value)
                      : absl::StrFormat("%.17g", value);
  };
  return {absl::StrCat(step.step),        text(step.loss),
          text(step.reference_loss),      text(step.grad_norm),
          text(step.reference_grad_norm), step.equal ? "equal" : "DIFFERS"};
}

std::string StepsTable(const Comparison& comparison) {
  Table table({Right("step"), Right("loss"), Right("single process"),
               Right("gradient norm"), Right("single process"), Left("bits")});
  const size_t count = comparison.steps.size();
  const StepComparison* first_unequal = FirstUnequalStep(comparison);
  bool cut = false;
  for (size_t i = 0; i < count; ++i) {
    const StepComparison& step = comparison.steps[i];
    const bool shown = count <= kMaxRows || i < kMaxRows / 2 ||
                       i + kMaxRows / 2 >= count || &step == first_unequal;
    if (shown) table.AddRow(RowOf(step));
    if (!shown && !cut) table.AddRow({"..."});
    cut = !shown;
  }
  return table.Render();
}

std::string SideText(const v1::Job& job) {
  return absl::StrCat(job.schedule(), ", ",
                      Plural(job.spec().pipeline().workers(), "worker"),
                      ", release ", job.release(), ", transport ",
                      job.transport(), ", ", FormatSeconds(job.total_seconds()),
                      ", parameters_sha256 ", job.parameters_sha256());
}

}  // namespace

Comparison Compare(const v1::Job& job, const v1::Job& reference) {
  Comparison comparison;
  comparison.steps = CompareSteps(job, reference);
  CompareParameters(job, reference, &comparison);
  comparison.difference = DifferenceOf(comparison, job, reference);
  comparison.equal = comparison.difference.empty();
  return comparison;
}

Json ComparisonJson(const Comparison& comparison, const v1::Job& job,
                    const v1::Job& reference) {
  Json json;
  json["equal"] = comparison.equal;
  json["difference"] =
      comparison.equal ? Json(nullptr) : Json(comparison.difference);
  const StepComparison* first = FirstUnequalStep(comparison);
  json["first_unequal_step"] =
      first == nullptr ? Json(nullptr) : Json(first->step);
  json["parameters"] = comparison.parameters;
  json["unequal_parameters"] = comparison.unequal_parameters;
  json["steps"] = Json::array();
  for (const StepComparison& step : comparison.steps) {
    Json entry;
    entry["step"] = step.step;
    entry["loss"] = step.loss;
    entry["reference_loss"] = step.reference_loss;
    entry["grad_norm"] = step.grad_norm;
    entry["reference_grad_norm"] = step.reference_grad_norm;
    entry["equal"] = step.equal;
    json["steps"].push_back(std::move(entry));
  }
  json["job"] = SideJson(job);
  json["reference"] = SideJson(reference);
  return json;
}

std::string ComparisonText(const Comparison& comparison, const v1::Job& job,
                           const v1::Job& reference) {
  std::string text =
      absl::StrCat("job             ", SideText(job), "\n", "single process  ",
                   SideText(reference), "\n\n", StepsTable(comparison), "\n");
  if (comparison.equal) {
    absl::StrAppend(
        &text, "equal to the last bit: ",
        Plural(static_cast<int64_t>(comparison.steps.size()), "step"), ", ",
        Plural(comparison.parameters, "parameter"), "\n");
  } else {
    absl::StrAppend(&text, "NOT equal: ", comparison.difference, "\n");
  }
  return text;
}

}  // namespace stagecoach::client

#include "job/own_stages.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "job/boundary.h"
#include "job/words.h"

namespace stagecoach::job {
namespace {

constexpr size_t kMaxBoundaryTensors = 16;

constexpr char kOnlyForOwnStages[] =
    "is for model.architecture = \"plugin\" or \"torchscript\" alone; leave it "
    "out";

void CheckBoundaries(const ModelSpec& model, const AddFinding& add) {
  if (!model.boundary.empty() && !model.boundaries.empty()) {
    add("model.boundaries", "says what model.boundary says; give one of both");
  }
  if (model.boundaries.size() > kMaxBoundaryTensors) {
    add("model.boundaries",
        absl::StrCat("has ", model.boundaries.size(), " tensors; the most is ",
                     kMaxBoundaryTensors));
  }
  for (const std::string& text : model.boundaries) {
    const auto row = ParseBoundaryRow(text);
    if (!row.ok()) add("model.boundaries", row.status().message());
  }
}

}  // namespace

void CheckOwnStages(const JobSpec& spec, const AddFinding& add) {
  const ModelSpec& model = spec.model;
  const bool plugin = model.architecture == Architecture::kPlugin;
  if (!plugin && !model.options.empty()) {
    add("model.options",
        "is for model.architecture = \"plugin\" alone; leave it out");
  }
  if (!model.brings_stages()) {
    if (!model.path.empty()) add("model.path", kOnlyForOwnStages);
    if (!model.boundary.empty()) add("model.boundary", kOnlyForOwnStages);
    if (!model.boundaries.empty()) add("model.boundaries", kOnlyForOwnStages);
    if (spec.data.targets != "next") add("data.targets", kOnlyForOwnStages);
    return;
  }
  const std::string with_it = absl::StrCat(" with model.architecture = \"",
                                           WordOf(model.architecture), "\"");
  if (model.path.empty()) {
    add("model.path",
        absl::StrCat("is missing; architecture \"", WordOf(model.architecture),
                     "\" needs the path of its ", plugin ? "library" : "file"));
  }
  CheckBoundaries(model, add);
  if (model.boundary.empty() && model.boundaries.empty() && model.hidden == 0) {
    add("model.boundary",
        "is missing; give the sizes of one row of what crosses stages, or "
        "model.hidden for [data.sequence_length, model.hidden]");
  }
  if (model.tie_embeddings) {
    add("model.tie_embeddings", absl::StrCat("must be false", with_it));
  }
  if (model.dropout > 0) {
    add("model.dropout",
        "the model drops what it likes; leave this out, or tell it to the "
        "model");
  }
  if (spec.training.precision != Precision::kFloat32) {
    add("training.precision", absl::StrCat("must be \"float32\"", with_it));
  }
  if (!spec.training.freeze.empty()) {
    add("training.freeze",
        absl::StrCat("cannot be used", with_it,
                     ", whose parameters are not known here; leave it out"));
  }
  if (spec.data.isolated()) {
    add("data.documents", absl::StrCat("must be \"packed\"", with_it));
  }
}

}  // namespace stagecoach::job

// Fuzz target of a Hugging Face model's config.json: what is read is a model
// with sizes, and its own config reads as the same model again.

#include <string>

#include "absl/strings/string_view.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "job/hf_config.h"
#include "job/job_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using stagecoach::fuzzing::Require;
  namespace job = stagecoach::job;
  const auto model = job::ParseHfConfig(
      absl::string_view(reinterpret_cast<const char*>(data), size), "fuzzed");
  if (!model.ok()) {
    Require(absl::IsInvalidArgument(model.status()), model.status().ToString());
    return 0;
  }
  Require(model->layers > 0 && model->hidden > 0 && model->heads > 0 &&
              model->vocabulary > 0,
          "a model without a size");
  job::JobSpec spec;
  spec.model = *model;
  const std::string written = job::HfConfigText(spec);
  const auto again = job::ParseHfConfig(written, "written");
  Require(again.ok(), again.status().ToString() + written);
  spec.model = *again;
  Require(job::HfConfigText(spec) == written, "written otherwise: " + written);
  return 0;
}

#include "stage_worker/model/weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "job/model_shape.h"
#include "stage_worker/checkpoint/safetensors.h"

namespace stagecoach::worker {
namespace {

using checkpoint::SafetensorsFolder;
using checkpoint::StoredTensor;

// "transformer.h.0.ln_1.weight" is "h.0.ln_1.weight" in a file of the model
// without its head.
std::string NameIn(const SafetensorsFolder& folder, const std::string& name) {
  if (folder.Has(name)) return name;
  const std::string bare = name.substr(name.find('.') + 1);
  return folder.Has(bare) ? bare : name;
}

// What files hold besides parameters: causal masks and rotary tables of old
// versions of transformers, and the head that is the embedding.
bool IsHarmless(const std::string& name, const job::ModelSpec& model) {
  return absl::EndsWith(name, ".attn.bias") ||
         absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, ".rotary_emb.inv_freq") ||
         (model.tie_embeddings && name == "lm_head.weight");
}

absl::Status CheckNoSurplus(const job::JobSpec& spec,
                            const SafetensorsFolder& folder) {
  std::set<std::string> expected;
  job::StageLayers all;
  all.end = spec.model.layers;
  for (const job::ParameterShape& parameter : job::StageParameters(spec, all)) {
    expected.insert(NameIn(folder, parameter.name));
  }
  for (const std::string& name : folder.names()) {
    if (IsHarmless(name, spec.model)) expected.insert(name);
  }
  return folder.CheckNoSurplus(expected);
}

absl::Status CheckIsFloat(const std::string& name, const StoredTensor& tensor) {
  const DType dtype = tensor.descriptor.dtype;
  if (dtype == DType::kFloat32 || dtype == DType::kBFloat16 ||
      dtype == DType::kFloat16) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tensor \"", name, "\" is ", tensor.descriptor.ToString(),
                   "; weights must be float32, bfloat16 or float16"));
}

void Fill(const StoredTensor& tensor, at::Tensor& value) {
  at::Tensor host =
      value.is_cpu() ? value : at::empty(value.sizes(), at::kFloat);
  const absl::Status status =
      checkpoint::CopyAsFloat32(tensor, host.mutable_data_ptr<float>());
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
  if (!value.is_cpu()) value.copy_(host);
}

}  // namespace

absl::Status StartFromCheckpoint(const job::JobSpec& spec, StageModel* model) {
  SC_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFolder> opened,
                      SafetensorsFolder::Open(spec.model.checkpoint));
  const std::shared_ptr<const SafetensorsFolder> folder = std::move(opened);
  SC_RETURN_IF_ERROR(CheckNoSurplus(spec, *folder));
  for (StageParameter* parameter : model->parameters()) {
    const std::string name = NameIn(*folder, parameter->stored_name());
    SC_ASSIGN_OR_RETURN(const StoredTensor tensor,
                        folder->Find(name, parameter->shape));
    SC_RETURN_IF_ERROR(
        Annotate(CheckIsFloat(name, tensor), spec.model.checkpoint));
    parameter->initialise = [folder, tensor](at::Tensor& value) {
      Fill(tensor, value);
    };
  }
  return absl::OkStatus();
}

}  // namespace stagecoach::worker

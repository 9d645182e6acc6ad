#ifndef STAGECOACH_STAGE_WORKER_MODEL_STAGE_MODEL_H_
#define STAGECOACH_STAGE_WORKER_MODEL_STAGE_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job_spec.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/model/dropout.h"

namespace stagecoach::worker {

// One parameter of a stage. The engine lays all parameters of a worker out in
// flat buffers, fills `value` and `gradient` with views of them, and calls
// `initialise` once.
struct StageParameter {
  std::string name;  // as Hugging Face's model calls it
  std::vector<int64_t> shape;
  int64_t global_index = 0;  // order over the whole model
  // A second leaf of a tied parameter: not counted in norm and digest.
  bool tied_copy = false;
  bool tied = false;    // owner or copy of the tied group
  std::string tied_to;  // of a tied copy: the owner's name
  // Fills the value, which depends on (seed, name) alone or is a checkpoint's.
  std::function<void(at::Tensor& value)> initialise;

  at::Tensor value;  // float32; requires grad, unless it is frozen
  // The value in the type that the job computes in, if that is a shorter one.
  at::Tensor rounded;
  // View of the flat gradient buffer; undefined where it is frozen.
  at::Tensor gradient;

  // The name under which a checkpoint stores its value.
  const std::string& stored_name() const { return tied_copy ? tied_to : name; }
};

// What generation keeps of the tokens that a model has seen: each block's keys
// and values, [rows, heads, tokens, width], as its attention takes them.
struct LayerCache {
  at::Tensor keys;
  at::Tensor values;
};
struct KeyValueCache {
  int64_t length = 0;  // tokens
  std::vector<LayerCache> layers;
};

// The slice of a model that one stage runs, as plain ATen calls under autograd.
// Single-executor (the engine thread).
class StageModel {
 public:
  virtual ~StageModel() = default;
  virtual std::vector<StageParameter*> parameters() = 0;
  // First stage: `inputs` = {token ids [rows, sequence]}; others: {hidden
  // [rows, sequence, hidden]}, in the type that the job computes in. Last
  // stage: `targets` [rows, sequence] is defined and the result is {loss sum
  // over the target tokens, scalar}.
  virtual std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                          const at::Tensor& targets) = 0;
  // Before each Forward of a job whose documents are isolated: the document of
  // each token, int64 [rows, sequence]. Attention then stays within documents.
  // Throws std::invalid_argument where a model cannot.
  virtual void UseDocuments(const at::Tensor& documents);
  // Before each Forward that drops (none of an evaluation does), where the
  // model has dropout.
  virtual void UseDropout(const DropoutPosition& /*position*/) {}
  // First stage, for generation: what Forward makes of `tokens` [rows, n] that
  // come behind those of the cache, and adds them to it. All of them together
  // are no more than data.sequence_length. Throws std::invalid_argument where a
  // model cannot.
  virtual at::Tensor Continue(const at::Tensor& tokens, KeyValueCache* cache);
  // Last stage, for generation: hidden states [rows, hidden] as the last block
  // leaves them to logits [rows, vocabulary]. Throws std::invalid_argument
  // where a model gives a loss alone.
  virtual at::Tensor Logits(const at::Tensor& hidden);
};

using StageModelFactory =
    std::function<absl::StatusOr<std::unique_ptr<StageModel>>(
        const job::JobSpec& spec, const StageAssignment& stage)>;

// The model families, in ATen ops (kernels = "aten"), with drawn weights.
absl::StatusOr<std::unique_ptr<StageModel>> NewGpt2Stage(
    const job::JobSpec& spec, const StageAssignment& stage);
absl::StatusOr<std::unique_ptr<StageModel>> NewLlamaStage(
    const job::JobSpec& spec, const StageAssignment& stage);

// The stage of the job's architecture, with drawn weights or, where the job has
// a checkpoint, with that stage's tensors of it (see weights.h).
absl::StatusOr<std::unique_ptr<StageModel>> NewStageModel(
    const job::JobSpec& spec, const StageAssignment& stage);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_STAGE_MODEL_H_

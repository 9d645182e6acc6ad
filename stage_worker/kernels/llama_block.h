#ifndef STAGECOACH_STAGE_WORKER_KERNELS_LLAMA_BLOCK_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_LLAMA_BLOCK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model_config.h"
#include "stage_worker/kernels/gemm.h"
#include "stage_worker/kernels/linear.h"

namespace stagecoach::worker::kernels {

// A block of a Llama, Mistral or Qwen: x1 = x + o(attention(norm(x))), then
// y = x1 + down(activation(gate(z)) * up(z)) with z = norm(x1). Norms are RMS
// norms; queries and keys are turned by their positions, and normed before it
// where there are norms for them.
struct LlamaBlock {
  Parameter input_norm;
  Linear q_proj;
  Linear k_proj;
  Linear v_proj;
  Linear o_proj;
  Parameter q_norm;  // both or none
  Parameter k_norm;
  Parameter post_attention_norm;
  Linear gate_proj;
  Linear up_proj;
  Linear down_proj;
  // [sequence, head width]; of the parameters' type.
  const at::Tensor* cosine = nullptr;
  const at::Tensor* sine = nullptr;

  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_width = 0;
  int64_t window = 0;  // tokens that a token sees; 0: all before it
  double epsilon = 0;
  job::Activation activation = job::Activation::kSilu;
  GemmLibrary library = GemmLibrary::kMkl;

  // Any of its parameters does.
  bool Trains() const {
    return input_norm.Trains() || q_proj.Trains() || k_proj.Trains() ||
           v_proj.Trains() || o_proj.Trains() || q_norm.Trains() ||
           k_norm.Trains() || post_attention_norm.Trains() ||
           gate_proj.Trains() || up_proj.Trains() || down_proj.Trains();
  }
};

// As RunGpt2Block. Kept for the backward: x, x1, queries, keys and values as
// attention takes them (and before their norms, where those are), its output,
// and both halves of the inner layer.
at::Tensor RunLlamaBlock(const LlamaBlock& block, const at::Tensor& x);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_LLAMA_BLOCK_H_

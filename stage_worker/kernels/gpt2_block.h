#ifndef STAGECOACH_STAGE_WORKER_KERNELS_GPT2_BLOCK_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_GPT2_BLOCK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "job/model_config.h"
#include "stage_worker/kernels/gemm.h"
#include "stage_worker/kernels/linear.h"

namespace stagecoach::worker::kernels {

// A block of GPT-2: x1 = x + proj(attention(c_attn(ln_1(x)))), then
// y = x1 + c_proj(activation(c_fc(ln_2(x1)))).
struct Gpt2Block {
  Parameter ln_1_weight;
  Parameter ln_1_bias;
  Linear c_attn;  // query, key and value side by side
  Linear attn_c_proj;
  Parameter ln_2_weight;
  Parameter ln_2_bias;
  Linear c_fc;
  Linear mlp_c_proj;

  int64_t heads = 0;
  double score_scale = 0;
  double epsilon = 0;
  job::Activation activation = job::Activation::kGeluTanh;
  GemmLibrary library = GemmLibrary::kMkl;

  // Any of its parameters does.
  bool Trains() const {
    return ln_1_weight.Trains() || ln_1_bias.Trains() || c_attn.Trains() ||
           attn_c_proj.Trains() || ln_2_weight.Trains() || ln_2_bias.Trains() ||
           c_fc.Trains() || mlp_c_proj.Trains();
  }
};

// The block as one node of autograd's graph, or as no node while gradients are
// off. `x` is contiguous [rows, sequence, hidden], float or double as the
// parameters are. Kept for the backward: x, x1, query, key and value,
// attention's output and the inner layer before its activation, 10 times the
// size of x where the inner width is 4 times the hidden one; the two norms'
// outputs and the activation's are computed again. `block` and its parameters
// must outlive the node.
at::Tensor RunGpt2Block(const Gpt2Block& block, const at::Tensor& x);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_GPT2_BLOCK_H_

#ifndef STAGECOACH_STAGE_WORKER_KERNELS_ATTENTION_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_ATTENTION_H_

#include <cstdint>

// Causal self-attention, softmax(scale * q k^T) v, exact, without a [sequence,
// sequence] matrix: a block of queries at a time, whose probabilities are
// computed again in the backward from one number per row (Dao,
// FlashAttention-2, 2023). A block of scores fits a core's cache, so that its
// whole rows are there at once and products of plain matrices do the work.
//
// Queries, keys and values are heads side by side in rows of tokens, as linear
// layers leave them, and the results lie in the same way: nothing is transposed
// or copied. float or double.
namespace stagecoach::worker::kernels {

struct AttentionShape {
  int64_t rows = 0;      // of the microbatch
  int64_t sequence = 0;  // tokens of a row
  int64_t heads = 0;
  int64_t key_value_heads = 0;  // divides heads; equal to it but for GQA
  int64_t width = 0;            // of a head
  double scale = 1;
  // Tokens that a token sees, itself included; 0: all before it.
  int64_t window = 0;
};

// Element (row, token, head, i) is data[(row * sequence + token) * stride +
// head * width + i].
template <typename T>
struct Heads {
  T* data = nullptr;
  int64_t stride = 0;
};

// Fills output and log_sums [rows, heads, sequence]: of each query's scores,
// the logarithm of the sum of their exponentials.
template <typename T>
void AttentionForward(const AttentionShape& shape, const Heads<const T>& query,
                      const Heads<const T>& key, const Heads<const T>& value,
                      const Heads<T>& output, T* log_sums);

template <typename T>
struct AttentionGradients {
  Heads<T> query;
  Heads<T> key;
  Heads<T> value;
};

// Fills the three gradients, given that of the output.
template <typename T>
void AttentionBackward(const AttentionShape& shape, const Heads<const T>& query,
                       const Heads<const T>& key, const Heads<const T>& value,
                       const Heads<const T>& output, const T* log_sums,
                       const Heads<const T>& output_gradient,
                       const AttentionGradients<T>& gradients);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_ATTENTION_H_

#ifndef STAGECOACH_STAGE_WORKER_KERNELS_EMBEDDING_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_EMBEDDING_H_

#include <ATen/core/Tensor.h>

#include "stage_worker/kernels/linear.h"

namespace stagecoach::worker::kernels {

// tokens [rows, sequence] of int64 to [rows, sequence, hidden]: the token's row
// of `table`, plus the position's of `positions` where there is one. As one
// node of autograd's graph, which adds to the rows of the gradients alone;
// autograd's own makes a gradient as large as the table for every microbatch.
// Throws std::out_of_range for a token that the table does not have. The
// parameters must outlive the node.
at::Tensor RunEmbedding(const Parameter& table, const Parameter& positions,
                        const at::Tensor& tokens);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_EMBEDDING_H_

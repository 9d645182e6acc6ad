#ifndef STAGECOACH_STAGE_WORKER_MODEL_CHUNKED_LOSS_H_
#define STAGECOACH_STAGE_WORKER_MODEL_CHUNKED_LOSS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace stagecoach::worker {

// Sum of the cross entropies of `rows` [rows, hidden] under `head` [vocabulary,
// hidden] for `targets` [rows], `chunk` rows at a time: logits never stand
// whole. Keeps no logits for the backward, which computes each piece's again.
// Pieces are added up in ascending order, so the result depends on `chunk`, and
// on nothing else. Throws what torch throws.
at::Tensor ChunkedHeadLoss(const at::Tensor& rows, const at::Tensor& head,
                           const at::Tensor& targets, int64_t chunk);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_MODEL_CHUNKED_LOSS_H_

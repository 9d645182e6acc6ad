#ifndef STAGECOACH_STAGE_WORKER_KERNELS_OPTIMIZER_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_OPTIMIZER_H_

#include <cstdint>

// The optimizers as one pass over flat buffers: clipping, update, and gradients
// set to 0 for the next step. float.
namespace stagecoach::worker::kernels {

// In double. The order of the sum depends on `count` alone.
double SumOfSquares(const float* x, int64_t count);

// values -= rate * (clip * gradients); gradients = 0.
struct SgdOptions {
  double rate = 0;
  double clip = 1;
};
void SgdUpdate(const SgdOptions& options, int64_t count, float* gradients,
               float* values);

// Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019; the
// operations of at::_fused_adamw_, in its order.
struct AdamWOptions {
  double rate = 0;
  double clip = 1;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  int64_t step = 1;  // the first is 1
};
struct AdamWBuffers {
  float* values = nullptr;
  float* gradients = nullptr;
  float* averages = nullptr;
  float* squared_averages = nullptr;
};
void AdamWUpdate(const AdamWOptions& options, int64_t count,
                 const AdamWBuffers& buffers);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_OPTIMIZER_H_

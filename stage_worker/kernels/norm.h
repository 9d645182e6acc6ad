#ifndef STAGECOACH_STAGE_WORKER_KERNELS_NORM_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_NORM_H_

#include <cstdint>

// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) over the
// rows of contiguous [rows, width] matrices, float or double. What the backward
// needs besides x is one or two numbers per row; the normalised rows are
// cheaper to compute again (ApplyNorm) than to keep.
namespace stagecoach::worker::kernels {

template <typename T>
struct NormShape {
  int64_t rows = 0;
  int64_t width = 0;
  double epsilon = 0;
  const T* weight = nullptr;
  const T* bias = nullptr;  // null with RMS norm
};

// Of each row; means are null with RMS norm.
template <typename T>
struct NormStatistics {
  T* mean = nullptr;
  T* inverse_deviation = nullptr;
};

// Fills the statistics, and y.
template <typename T>
void NormForward(const NormShape<T>& shape, const T* x,
                 const NormStatistics<T>& statistics, T* y);
// y again, from statistics.
template <typename T>
void ApplyNorm(const NormShape<T>& shape, const T* x,
               const NormStatistics<T>& statistics, T* y);
// dx = gradient of the input (+ residual, where that is not null). dx may be dy
// or residual.
template <typename T>
void NormInputGradient(const NormShape<T>& shape, const T* x,
                       const NormStatistics<T>& statistics, const T* dy,
                       const T* residual, T* dx);
// Adds to the gradients of weight and bias, where these are not null.
template <typename T>
void NormWeightGradient(const NormShape<T>& shape, const T* x,
                        const NormStatistics<T>& statistics, const T* dy,
                        T* weight_gradient, T* bias_gradient);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_NORM_H_

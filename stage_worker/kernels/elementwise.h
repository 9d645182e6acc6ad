#ifndef STAGECOACH_STAGE_WORKER_KERNELS_ELEMENTWISE_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "job/model_config.h"
#include "stage_worker/kernels/gemm.h"

// What is between the matrix products of a block, one pass over memory each.
// float or double.
namespace stagecoach::worker::kernels {

// to[row] = bias (+ residual[row], where that is not null): what a product is
// then added to. A null bias is 0. `to` may be `residual`.
template <typename T>
void FillRows(const T* bias, const T* residual, const Matrix<T>& to);

// gradient[column] += sum over the rows.
template <typename T>
void AddColumnSums(const Matrix<const T>& from, T* gradient);

// to += from, element by element.
template <typename T>
void AddTo(const T* from, int64_t count, T* to);

// to = activation(x); `to` may be x.
template <typename T>
void ActivationForward(job::Activation activation, const T* x, int64_t count,
                       T* to);
// gradient *= activation'(x).
template <typename T>
void ActivationBackward(job::Activation activation, const T* x, int64_t count,
                        T* gradient);

// The gate of a Llama's MLP: to = activation(gate) * up.
template <typename T>
void GateForward(job::Activation activation, const T* gate, const T* up,
                 int64_t count, T* to);
// With `gradient` that of the product: gate_gradient = gradient * up *
// activation'(gate), up_gradient = gradient * activation(gate). Either may be
// `gradient`.
template <typename T>
void GateBackward(job::Activation activation, const T* gate, const T* up,
                  const T* gradient, int64_t count, T* gate_gradient,
                  T* up_gradient);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_ELEMENTWISE_H_

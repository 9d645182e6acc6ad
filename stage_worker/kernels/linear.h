#ifndef STAGECOACH_STAGE_WORKER_KERNELS_LINEAR_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_LINEAR_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "stage_worker/kernels/elementwise.h"
#include "stage_worker/kernels/gemm.h"

namespace stagecoach::worker::kernels {

// Of a stage, owned by its model: the tensors are bound after the blocks are
// made, so that kernels look at them when they run. Null: there is none.
struct Parameter {
  const at::Tensor* value = nullptr;
  const at::Tensor* gradient = nullptr;  // undefined where it is frozen

  explicit operator bool() const { return value != nullptr; }
  template <typename T>
  const T* Value() const {
    return value == nullptr ? nullptr : value->const_data_ptr<T>();
  }
  bool Trains() const { return gradient != nullptr && gradient->defined(); }
  // Null where it does not train.
  template <typename T>
  T* Gradient() const {
    return Trains() ? gradient->mutable_data_ptr<T>() : nullptr;
  }
};

// y = x W + bias on matrices of rows.
struct Linear {
  Parameter weight;
  Parameter bias;  // may be absent
  // The weight is stored [out, in], as torch's Linear; else [in, out], as
  // Hugging Face's Conv1D.
  bool output_first = false;

  int64_t inputs() const { return weight.value->size(output_first ? 1 : 0); }
  int64_t outputs() const { return weight.value->size(output_first ? 0 : 1); }

  // `residual`, contiguous, is added where it is not null.
  template <typename T>
  void Forward(GemmLibrary library, const Matrix<const T>& x, const T* residual,
               const Matrix<T>& y) const {
    const bool filled = bias || residual != nullptr;
    if (filled) FillRows(bias.Value<T>(), residual, y);
    Gemm<T>(library, x, WeightMatrix<T>(), y, 1, filled ? 1 : 0);
  }
  // dx = dy W^T + beta * dx.
  template <typename T>
  void InputGradient(GemmLibrary library, const Matrix<const T>& dy,
                     const Matrix<T>& dx, double beta = 0) const {
    Gemm<T>(library, dy, WeightMatrix<T>().Transposed(), dx, 1, beta);
  }
  bool Trains() const { return weight.Trains() || bias.Trains(); }
  // Adds to the gradients of those of weight and bias that train.
  template <typename T>
  void AddWeightGradient(GemmLibrary library, const Matrix<const T>& x,
                         const Matrix<const T>& dy) const {
    if (bias.Trains()) AddColumnSums<T>(dy, bias.Gradient<T>());
    if (!weight.Trains()) return;
    const Matrix<T> stored = RowMajor(
        weight.Gradient<T>(), weight.value->size(0), weight.value->size(1));
    if (output_first) {
      Gemm<T>(library, dy.Transposed(), x, stored, 1, 1);
    } else {
      Gemm<T>(library, x.Transposed(), dy, stored, 1, 1);
    }
  }

 private:
  // [in, out]
  template <typename T>
  Matrix<const T> WeightMatrix() const {
    const Matrix<const T> stored = RowMajor(
        weight.Value<T>(), weight.value->size(0), weight.value->size(1));
    return output_first ? stored.Transposed() : stored;
  }
};

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_LINEAR_H_

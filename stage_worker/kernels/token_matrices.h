#ifndef STAGECOACH_STAGE_WORKER_KERNELS_TOKEN_MATRICES_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_TOKEN_MATRICES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "stage_worker/kernels/attention.h"
#include "stage_worker/kernels/block_node.h"
#include "stage_worker/kernels/gemm.h"

// Tensors of a block as what kernels take. All are contiguous and have a row
// for each token.
namespace stagecoach::worker::kernels {

template <typename T>
T* Data(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr<T>();
}
template <typename T>
const T* Read(const at::Tensor& tensor) {
  return tensor.const_data_ptr<T>();
}

template <typename T>
class TokenMatrices {
 public:
  explicit TokenMatrices(int64_t tokens) : tokens_(tokens) {}

  int64_t tokens() const { return tokens_; }

  at::Tensor New(int64_t width) const { return NewOf({tokens_, width}); }
  static at::Tensor NewOf(at::IntArrayRef sizes) {
    return Uninitialised(sizes, c10::CppTypeToScalarType<T>::value);
  }

  Matrix<T> Rows(const at::Tensor& tensor) const {
    return RowMajor(Data<T>(tensor), tokens_, tensor.numel() / tokens_);
  }
  Matrix<const T> ReadRows(const at::Tensor& tensor) const {
    return RowMajor(Read<T>(tensor), tokens_, tensor.numel() / tokens_);
  }

  // `parts` kinds of heads lie side by side; this is the part of index `part`.
  Heads<T> Part(const at::Tensor& tensor, int64_t part = 0,
                int64_t parts = 1) const {
    const int64_t stride = tensor.numel() / tokens_;
    return {Data<T>(tensor) + part * (stride / parts), stride};
  }
  Heads<const T> ReadPart(const at::Tensor& tensor, int64_t part = 0,
                          int64_t parts = 1) const {
    const int64_t stride = tensor.numel() / tokens_;
    return {Read<T>(tensor) + part * (stride / parts), stride};
  }

 private:
  const int64_t tokens_;
};

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_TOKEN_MATRICES_H_

#ifndef STAGECOACH_STAGE_WORKER_KERNELS_GEMM_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_GEMM_H_

#include <cstdint>

namespace stagecoach::worker::kernels {

// The library that multiplies matrices. Both come with libtorch. MKL takes its
// AVX2 kernels on other makers' processors; oneDNN has AVX-512 ones there, but
// costs some 20 us per call, so that small products are MKL's either way: the
// rule is a function of the shape alone, and P = 1 follows it like any other.
enum class GemmLibrary { kMkl, kOneDnn };

// Whether products can be oneDNN's on this processor. ATen's call of it throws
// where AVX-512 BW, VL and DQ are not there, also for float, which needs none
// of them.
bool HasOneDnn();

// A view of a row-major matrix, or of its transpose.
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  // elements between rows of what is stored
  bool transposed = false;

  Matrix Transposed() const {
    return {data, columns, rows, stride, !transposed};
  }
  // Read only.
  operator Matrix<const T>() const {
    return {data, rows, columns, stride, transposed};
  }
};

template <typename T>
Matrix<T> RowMajor(T* data, int64_t rows, int64_t columns) {
  return {data, rows, columns, columns, false};
}

// c = alpha * a * b + beta * c. `c` is not transposed and overlaps neither;
// with beta = 0 it is not read. float or double; the latter is always MKL's.
// The shapes must fit, and kOneDnn needs HasOneDnn().
template <typename T>
void Gemm(GemmLibrary library, const Matrix<const T>& a,
          const Matrix<const T>& b, const Matrix<T>& c, double alpha = 1,
          double beta = 0);

extern template void Gemm(GemmLibrary, const Matrix<const float>&,
                          const Matrix<const float>&, const Matrix<float>&,
                          double, double);
extern template void Gemm(GemmLibrary, const Matrix<const double>&,
                          const Matrix<const double>&, const Matrix<double>&,
                          double, double);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_GEMM_H_

#include "stage_worker/kernels/gemm.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <type_traits>
#include <utility>

// MKL's, inside libtorch_cpu.so; ATen calls the same. Column-major.
extern "C" {
void sgemm_(const char* trans_a, const char* trans_b, const int* m,
            const int* n, const int* k, const float* alpha, const float* a,
            const int* lda, const float* b, const int* ldb, const float* beta,
            float* c, const int* ldc);
void dgemm_(const char* trans_a, const char* trans_b, const int* m,
            const int* n, const int* k, const double* alpha, const double* a,
            const int* lda, const double* b, const int* ldb, const double* beta,
            double* c, const int* ldc);
}

namespace at::native {
// ATen's own call of oneDNN: result = alpha * a * b + beta * result, whatever
// the strides of a and b. Exported, but in no installed header.
void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& result,
                   float beta, float alpha);
}  // namespace at::native

namespace stagecoach::worker::kernels {
namespace {

// Multiply-adds from which oneDNN is worth its price per call: at 110 against
// 240 GFLOP/s.
constexpr int64_t kOneDnnFrom = int64_t{1} << 22;

void CallGemm(const char* trans_a, const char* trans_b, const int* m,
              const int* n, const int* k, const float* alpha, const float* a,
              const int* lda, const float* b, const int* ldb, const float* beta,
              float* c, const int* ldc) {
  sgemm_(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void CallGemm(const char* trans_a, const char* trans_b, const int* m,
              const int* n, const int* k, const double* alpha, const double* a,
              const int* lda, const double* b, const int* ldb,
              const double* beta, double* c, const int* ldc) {
  dgemm_(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// Row-major c = a * b is column-major c^T = b^T * a^T.
template <typename T>
void MklGemm(const Matrix<const T>& a, const Matrix<const T>& b,
             const Matrix<T>& c, double alpha, double beta) {
  const int m = static_cast<int>(c.rows);
  const int n = static_cast<int>(c.columns);
  const int k = static_cast<int>(a.columns);
  const int lda = static_cast<int>(a.stride);
  const int ldb = static_cast<int>(b.stride);
  const int ldc = static_cast<int>(c.stride);
  const T alpha_value = static_cast<T>(alpha);
  const T beta_value = static_cast<T>(beta);
  CallGemm(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &n, &m, &k,
           &alpha_value, b.data, &ldb, a.data, &lda, &beta_value, c.data, &ldc);
}

at::Tensor TensorOf(const Matrix<const float>& matrix) {
  const std::array<int64_t, 2> sizes = {matrix.rows, matrix.columns};
  std::array<int64_t, 2> strides = {matrix.stride, 1};
  if (matrix.transposed) std::swap(strides[0], strides[1]);
  // Only a product's own result is written.
  return at::from_blob(const_cast<float*>(matrix.data), sizes, strides,
                       at::TensorOptions().dtype(at::kFloat));
}

// Scaled products are attention's, which are small.
bool WorthOneDnn(int64_t m, int64_t n, int64_t k, double alpha) {
  return alpha == 1 && m * n * k >= kOneDnnFrom;
}

}  // namespace

bool HasOneDnn() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq");
  return has;
#else
  return false;
#endif
}

template <typename T>
void Gemm(GemmLibrary library, const Matrix<const T>& a,
          const Matrix<const T>& b, const Matrix<T>& c, double alpha,
          double beta) {
  if (c.rows == 0 || c.columns == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    if (library == GemmLibrary::kOneDnn &&
        WorthOneDnn(c.rows, c.columns, a.columns, alpha)) {
      at::native::mkldnn_matmul(TensorOf(a), TensorOf(b), TensorOf(c),
                                static_cast<float>(beta),
                                static_cast<float>(alpha));
      return;
    }
  }
  MklGemm(a, b, c, alpha, beta);
}

template void Gemm(GemmLibrary, const Matrix<const float>&,
                   const Matrix<const float>&, const Matrix<float>&, double,
                   double);
template void Gemm(GemmLibrary, const Matrix<const double>&,
                   const Matrix<const double>&, const Matrix<double>&, double,
                   double);

}  // namespace stagecoach::worker::kernels

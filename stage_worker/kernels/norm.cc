#include "stage_worker/kernels/norm.h"

#include <algorithm>
#include <cmath>

#include "stage_worker/kernels/instruction_set.h"
#include "stage_worker/kernels/parallel.h"
#include "stage_worker/kernels/vector.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace stagecoach::worker::kernels {
namespace {

template <typename T>
SC_ALWAYS_INLINE T SumOf(const T* x, int64_t width) {
  Vector<T> sum{};
  for (int64_t i = 0; i < width; i += kLanes<T>) sum += Load(x + i, width - i);
  return Sum<T>(sum);
}

// Sum of (x - mean)^2.
template <typename T>
SC_ALWAYS_INLINE T SquaresOf(const T* x, T mean, int64_t width) {
  Vector<T> sum{};
  int64_t i = 0;
  for (; i + kLanes<T> <= width; i += kLanes<T>) {
    const Vector<T> centred = Load(x + i, kLanes<T>) - mean;
    sum += centred * centred;
  }
  T rest = Sum<T>(sum);
  for (; i < width; ++i) rest += (x[i] - mean) * (x[i] - mean);
  return rest;
}

template <typename T>
SC_ALWAYS_INLINE void NormaliseRow(const NormShape<T>& shape, const T* x,
                                   T mean, T inverse, T* y) {
  for (int64_t i = 0; i < shape.width; i += kLanes<T>) {
    const int64_t lanes = shape.width - i;
    Vector<T> value = (Load(x + i, lanes) - mean) * inverse;
    value = value * Load(shape.weight + i, lanes);
    if (shape.bias != nullptr) value += Load(shape.bias + i, lanes);
    Store<T>(value, y + i, lanes);
  }
}

struct ForwardKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const NormShape<T>* shape, const T* x,
                                   NormStatistics<T> statistics, T* y,
                                   int64_t begin, int64_t end) {
    const int64_t width = shape->width;
    const T count = static_cast<T>(width);
    for (int64_t row = begin; row < end; ++row) {
      const T* const values = x + row * width;
      const T mean =
          statistics.mean == nullptr ? T(0) : SumOf(values, width) / count;
      const T variance = SquaresOf(values, mean, width) / count;
      const T inverse =
          T(1) / std::sqrt(variance + static_cast<T>(shape->epsilon));
      if (statistics.mean != nullptr) statistics.mean[row] = mean;
      statistics.inverse_deviation[row] = inverse;
      NormaliseRow(*shape, values, mean, inverse, y + row * width);
    }
  }
};

struct ApplyKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const NormShape<T>* shape, const T* x,
                                   NormStatistics<T> statistics, T* y,
                                   int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T mean = statistics.mean == nullptr ? T(0) : statistics.mean[row];
      NormaliseRow(*shape, x + row * shape->width, mean,
                   statistics.inverse_deviation[row], y + row * shape->width);
    }
  }
};

// With z the normalised row and g = dy * weight:
// dx = inverse * (g - mean(g) - z * mean(g * z)); RMS norm has no mean(g).
struct InputGradientKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const NormShape<T>* shape, const T* all_x,
                                   NormStatistics<T> statistics,
                                   const T* all_dy, const T* residual,
                                   T* all_dx, int64_t begin, int64_t end) {
    const int64_t width = shape->width;
    const T count = static_cast<T>(width);
    const T* const weight = shape->weight;
    const bool centred = statistics.mean != nullptr;
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = all_x + row * width;
      const T* const dy = all_dy + row * width;
      T* const dx = all_dx + row * width;
      const T mean = centred ? statistics.mean[row] : T(0);
      const T inverse = statistics.inverse_deviation[row];
      Vector<T> sum{};
      Vector<T> product{};
      for (int64_t i = 0; i < width; i += kLanes<T>) {
        const int64_t lanes = width - i;
        const Vector<T> g = Load(dy + i, lanes) * Load(weight + i, lanes);
        sum += g;
        product += g * ((Load(x + i, lanes) - mean) * inverse);
      }
      const T mean_g = centred ? Sum<T>(sum) / count : T(0);
      const T mean_gz = Sum<T>(product) / count;
      for (int64_t i = 0; i < width; i += kLanes<T>) {
        const int64_t lanes = width - i;
        const Vector<T> g = Load(dy + i, lanes) * Load(weight + i, lanes);
        const Vector<T> z = (Load(x + i, lanes) - mean) * inverse;
        Vector<T> value = (g - mean_g - z * mean_gz) * inverse;
        if (residual != nullptr) {
          value += Load(residual + row * width + i, lanes);
        }
        Store<T>(value, dx + i, lanes);
      }
    }
  }
};

// One strip of columns, all rows: whoever computes a column adds it up whole.
struct WeightGradientKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const NormShape<T>* shape, const T* x,
                                   NormStatistics<T> statistics, const T* dy,
                                   T* weight_gradient, T* bias_gradient,
                                   int64_t begin) {
    const int64_t width = shape->width;
    const int64_t end = std::min(begin + kStripColumns<T>, width);
    Vector<T> scaled[kStripVectors] = {};
    Vector<T> sum[kStripVectors] = {};
    for (int64_t row = 0; row < shape->rows; ++row) {
      const T mean = statistics.mean == nullptr ? T(0) : statistics.mean[row];
      const T inverse = statistics.inverse_deviation[row];
      int64_t vector = 0;
      for (int64_t i = begin; i < end; i += kLanes<T>, ++vector) {
        const Vector<T> gradient = Load(dy + row * width + i, end - i);
        const Vector<T> centred = Load(x + row * width + i, end - i) - mean;
        scaled[vector] += gradient * (centred * inverse);
        sum[vector] += gradient;
      }
    }
    int64_t vector = 0;
    for (int64_t i = begin; i < end; i += kLanes<T>, ++vector) {
      if (weight_gradient != nullptr) {
        Store<T>(Load(weight_gradient + i, end - i) + scaled[vector],
                 weight_gradient + i, end - i);
      }
      if (bias_gradient == nullptr) continue;
      Store<T>(Load(bias_gradient + i, end - i) + sum[vector],
               bias_gradient + i, end - i);
    }
  }
};

}  // namespace

template <typename T>
void NormForward(const NormShape<T>& shape, const T* x,
                 const NormStatistics<T>& statistics, T* y) {
  ForParts(shape.rows, shape.width, [&](int64_t begin, int64_t end) {
    RunKernel<ForwardKernel>(&shape, x, statistics, y, begin, end);
  });
}

template <typename T>
void ApplyNorm(const NormShape<T>& shape, const T* x,
               const NormStatistics<T>& statistics, T* y) {
  ForParts(shape.rows, shape.width, [&](int64_t begin, int64_t end) {
    RunKernel<ApplyKernel>(&shape, x, statistics, y, begin, end);
  });
}

template <typename T>
void NormInputGradient(const NormShape<T>& shape, const T* x,
                       const NormStatistics<T>& statistics, const T* dy,
                       const T* residual, T* dx) {
  ForParts(shape.rows, shape.width, [&](int64_t begin, int64_t end) {
    RunKernel<InputGradientKernel>(&shape, x, statistics, dy, residual, dx,
                                   begin, end);
  });
}

template <typename T>
void NormWeightGradient(const NormShape<T>& shape, const T* x,
                        const NormStatistics<T>& statistics, const T* dy,
                        T* weight_gradient, T* bias_gradient) {
  if (weight_gradient == nullptr && bias_gradient == nullptr) return;
  ForStrips<T>(shape.width, shape.rows, [&](int64_t begin) {
    RunKernel<WeightGradientKernel>(&shape, x, statistics, dy, weight_gradient,
                                    bias_gradient, begin);
  });
}

#define SC_INSTANTIATE(T)                                             \
  template void NormForward(const NormShape<T>&, const T*,            \
                            const NormStatistics<T>&, T*);            \
  template void ApplyNorm(const NormShape<T>&, const T*,              \
                          const NormStatistics<T>&, T*);              \
  template void NormInputGradient(const NormShape<T>&, const T*,      \
                                  const NormStatistics<T>&, const T*, \
                                  const T*, T*);                      \
  template void NormWeightGradient(const NormShape<T>&, const T*,     \
                                   const NormStatistics<T>&, const T*, T*, T*)
SC_INSTANTIATE(float);
SC_INSTANTIATE(double);
#undef SC_INSTANTIATE

}  // namespace stagecoach::worker::kernels

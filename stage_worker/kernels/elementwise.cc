#include "stage_worker/kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "stage_worker/kernels/instruction_set.h"
#include "stage_worker/kernels/parallel.h"
#include "stage_worker/kernels/vector.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace stagecoach::worker::kernels {
namespace {

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;
constexpr double kInverseSqrtTwo = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

template <typename T>
SC_ALWAYS_INLINE Vector<T> Sigmoid(const Vector<T>& x) {
  return T(1) / (T(1) + Exp(-x));
}

// x / 2 * (1 + tanh(s)) is x * sigmoid(2 s).
template <typename T>
SC_ALWAYS_INLINE Vector<T> GeluTanhArgument(const Vector<T>& x) {
  return (x + x * x * x * T(kGeluCubic)) * T(2 * kSqrtTwoOverPi);
}

struct GeluTanh {
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Value(const Vector<T>& x) {
    return x * Sigmoid<T>(GeluTanhArgument<T>(x));
  }
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Slope(const Vector<T>& x) {
    const Vector<T> s = Sigmoid<T>(GeluTanhArgument<T>(x));
    const Vector<T> inner =
        (T(1) + x * x * T(3 * kGeluCubic)) * T(2 * kSqrtTwoOverPi);
    return s + x * s * (T(1) - s) * inner;
  }
};

// The exact one. There is no fast error function here: one lane at a time.
struct Gelu {
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Normal(const Vector<T>& x) {
    Vector<T> result{};
    for (int64_t i = 0; i < kLanes<T>; ++i) {
      result[i] = T(0.5) * (T(1) + std::erf(x[i] * T(kInverseSqrtTwo)));
    }
    return result;
  }
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Value(const Vector<T>& x) {
    return x * Normal<T>(x);
  }
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Slope(const Vector<T>& x) {
    return Normal<T>(x) + x * Exp(x * x * T(-0.5)) * T(kInverseSqrtTwoPi);
  }
};

struct Silu {
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Value(const Vector<T>& x) {
    return x * Sigmoid<T>(x);
  }
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Slope(const Vector<T>& x) {
    const Vector<T> s = Sigmoid<T>(x);
    return s + x * s * (T(1) - s);
  }
};

struct Relu {
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Value(const Vector<T>& x) {
    // A NaN stays one, as with at::relu.
    return x <= T(0) ? Vector<T>{} : x;
  }
  template <typename T>
  static SC_ALWAYS_INLINE Vector<T> Slope(const Vector<T>& x) {
    return x <= T(0) ? Vector<T>{} : Broadcast<T>(1);
  }
};

struct FillKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const T* bias, const T* residual,
                                   Matrix<T> to, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < to.columns; i += kLanes<T>) {
        const int64_t lanes = to.columns - i;
        Vector<T> value{};
        if (residual != nullptr) {
          value = Load(residual + row * to.columns + i, lanes);
        }
        if (bias != nullptr) value += Load(bias + i, lanes);
        Store<T>(value, to.data + row * to.stride + i, lanes);
      }
    }
  }
};

// One strip of columns, all rows.
struct ColumnSumKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(Matrix<const T> from, T* gradient,
                                   int64_t begin) {
    const int64_t end = std::min(begin + kStripColumns<T>, from.columns);
    Vector<T> sum[kStripVectors] = {};
    for (int64_t row = 0; row < from.rows; ++row) {
      const T* const values = from.data + row * from.stride;
      int64_t vector = 0;
      for (int64_t i = begin; i < end; i += kLanes<T>, ++vector) {
        sum[vector] += Load(values + i, end - i);
      }
    }
    int64_t vector = 0;
    for (int64_t i = begin; i < end; i += kLanes<T>, ++vector) {
      Store<T>(Load(gradient + i, end - i) + sum[vector], gradient + i,
               end - i);
    }
  }
};

struct AddKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const T* from, T* to, int64_t begin,
                                   int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes<T>) {
      const int64_t lanes = end - i;
      Store<T>(Load(to + i, lanes) + Load(from + i, lanes), to + i, lanes);
    }
  }
};

template <typename Function>
struct ValueKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const T* x, T* to, int64_t begin,
                                   int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes<T>) {
      const int64_t lanes = end - i;
      Store<T>(Function::template Value<T>(Load(x + i, lanes)), to + i, lanes);
    }
  }
};

template <typename Function>
struct SlopeKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const T* x, T* gradient, int64_t begin,
                                   int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes<T>) {
      const int64_t lanes = end - i;
      const Vector<T> slope = Function::template Slope<T>(Load(x + i, lanes));
      Store<T>(Load(gradient + i, lanes) * slope, gradient + i, lanes);
    }
  }
};

template <typename Function>
struct GateKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const T* gate, const T* up, T* to,
                                   int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes<T>) {
      const int64_t lanes = end - i;
      const Vector<T> value =
          Function::template Value<T>(Load(gate + i, lanes)) *
          Load(up + i, lanes);
      Store<T>(value, to + i, lanes);
    }
  }
};

template <typename Function>
struct GateGradientKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const T* gate, const T* up,
                                   const T* gradient, T* gate_gradient,
                                   T* up_gradient, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes<T>) {
      const int64_t lanes = end - i;
      const Vector<T> x = Load(gate + i, lanes);
      const Vector<T> d = Load(gradient + i, lanes);
      const Vector<T> of_gate =
          d * Load(up + i, lanes) * Function::template Slope<T>(x);
      Store<T>(d * Function::template Value<T>(x), up_gradient + i, lanes);
      Store<T>(of_gate, gate_gradient + i, lanes);
    }
  }
};

// Parts begin at multiples of the vectors, so that they do not change what is
// computed as a vector and what as a rest.
template <typename T, typename Work>
void ForElements(int64_t count, const Work& work) {
  const int64_t vectors = (count + kLanes<T> - 1) / kLanes<T>;
  ForParts(vectors, kLanes<T>, [&](int64_t begin, int64_t end) {
    work(begin * kLanes<T>, std::min(end * kLanes<T>, count));
  });
}

template <template <typename> typename Kernel, typename T,
          typename... Arguments>
void RunActivation(job::Activation activation, int64_t count,
                   Arguments... arguments) {
  ForElements<T>(count, [&](int64_t begin, int64_t end) {
    switch (activation) {
      case job::Activation::kGeluTanh:
        return RunKernel<Kernel<GeluTanh>>(arguments..., begin, end);
      case job::Activation::kGelu:
        return RunKernel<Kernel<Gelu>>(arguments..., begin, end);
      case job::Activation::kSilu:
        return RunKernel<Kernel<Silu>>(arguments..., begin, end);
      case job::Activation::kRelu:
        return RunKernel<Kernel<Relu>>(arguments..., begin, end);
    }
    throw std::invalid_argument("an activation that does not exist");
  });
}

}  // namespace

template <typename T>
void FillRows(const T* bias, const T* residual, const Matrix<T>& to) {
  ForParts(to.rows, to.columns, [&](int64_t begin, int64_t end) {
    RunKernel<FillKernel>(bias, residual, to, begin, end);
  });
}

template <typename T>
void AddColumnSums(const Matrix<const T>& from, T* gradient) {
  ForStrips<T>(from.columns, from.rows, [&](int64_t begin) {
    RunKernel<ColumnSumKernel>(from, gradient, begin);
  });
}

template <typename T>
void AddTo(const T* from, int64_t count, T* to) {
  ForElements<T>(count, [&](int64_t begin, int64_t end) {
    RunKernel<AddKernel>(from, to, begin, end);
  });
}

template <typename T>
void ActivationForward(job::Activation activation, const T* x, int64_t count,
                       T* to) {
  RunActivation<ValueKernel, T>(activation, count, x, to);
}

template <typename T>
void ActivationBackward(job::Activation activation, const T* x, int64_t count,
                        T* gradient) {
  RunActivation<SlopeKernel, T>(activation, count, x, gradient);
}

template <typename T>
void GateForward(job::Activation activation, const T* gate, const T* up,
                 int64_t count, T* to) {
  RunActivation<GateKernel, T>(activation, count, gate, up, to);
}

template <typename T>
void GateBackward(job::Activation activation, const T* gate, const T* up,
                  const T* gradient, int64_t count, T* gate_gradient,
                  T* up_gradient) {
  RunActivation<GateGradientKernel, T>(activation, count, gate, up, gradient,
                                       gate_gradient, up_gradient);
}

#define SC_INSTANTIATE(T)                                                      \
  template void FillRows(const T*, const T*, const Matrix<T>&);                \
  template void AddColumnSums(const Matrix<const T>&, T*);                     \
  template void AddTo(const T*, int64_t, T*);                                  \
  template void ActivationForward(job::Activation, const T*, int64_t, T*);     \
  template void ActivationBackward(job::Activation, const T*, int64_t, T*);    \
  template void GateForward(job::Activation, const T*, const T*, int64_t, T*); \
  template void GateBackward(job::Activation, const T*, const T*, const T*,    \
                             int64_t, T*, T*)
SC_INSTANTIATE(float);
SC_INSTANTIATE(double);
#undef SC_INSTANTIATE

}  // namespace stagecoach::worker::kernels

#include "stage_worker/kernels/rotary.h"

#include "stage_worker/kernels/instruction_set.h"
#include "stage_worker/kernels/parallel.h"
#include "stage_worker/kernels/vector.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace stagecoach::worker::kernels {
namespace {

// (a, b) to (a cos - b sin, b cos + a sin), with the sign of sin turned for a
// gradient.
struct RotateKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(Rotation<T> rotation, int64_t heads, T sign,
                                   T* x, int64_t begin, int64_t end) {
    const int64_t half = rotation.width / 2;
    for (int64_t token = begin; token < end; ++token) {
      const int64_t position = token % rotation.sequence;
      const T* const cosine = rotation.cosine + position * rotation.width;
      const T* const sine = rotation.sine + position * rotation.width;
      for (int64_t head = 0; head < heads; ++head) {
        T* const first = x + (token * heads + head) * rotation.width;
        T* const second = first + half;
        for (int64_t i = 0; i < half; i += kLanes<T>) {
          const int64_t lanes = half - i;
          const Vector<T> a = Load(first + i, lanes);
          const Vector<T> b = Load(second + i, lanes);
          const Vector<T> c = Load(cosine + i, lanes);
          const Vector<T> s = Load(sine + i, lanes) * sign;
          Store<T>(a * c - b * s, first + i, lanes);
          Store<T>(b * c + a * s, second + i, lanes);
        }
      }
    }
  }
};

template <typename T>
void Turn(const Rotation<T>& rotation, int64_t tokens, int64_t heads, T sign,
          T* x) {
  ForParts(tokens, heads * rotation.width, [&](int64_t begin, int64_t end) {
    RunKernel<RotateKernel>(rotation, heads, sign, x, begin, end);
  });
}

}  // namespace

template <typename T>
void Rotate(const Rotation<T>& rotation, int64_t tokens, int64_t heads, T* x) {
  Turn(rotation, tokens, heads, T(1), x);
}

template <typename T>
void RotateGradient(const Rotation<T>& rotation, int64_t tokens, int64_t heads,
                    T* gradient) {
  Turn(rotation, tokens, heads, T(-1), gradient);
}

#define SC_INSTANTIATE(T)                                         \
  template void Rotate(const Rotation<T>&, int64_t, int64_t, T*); \
  template void RotateGradient(const Rotation<T>&, int64_t, int64_t, T*)
SC_INSTANTIATE(float);
SC_INSTANTIATE(double);
#undef SC_INSTANTIATE

}  // namespace stagecoach::worker::kernels

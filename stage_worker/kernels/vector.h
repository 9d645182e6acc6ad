#ifndef STAGECOACH_STAGE_WORKER_KERNELS_VECTOR_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_VECTOR_H_

#include <cmath>
#include <cstdint>
#include <cstring>

// Vectors of 64 bytes for the kernels' inner loops, in the compiler's own
// vector types: one register of AVX-512, two of AVX2, four of SSE. Sums have
// the same order whatever the instruction set.
//
// Everything is always_inline, so that it is compiled for the instruction set
// of the function that uses it (see instruction_set.h). double is there to
// check the formulas against autograd, not to be fast.
namespace stagecoach::worker::kernels {

#define SC_ALWAYS_INLINE inline __attribute__((always_inline))

// No vector is passed to a function that is not inlined.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

template <typename T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Type __attribute__((vector_size(64)));
  typedef int32_t Bits __attribute__((vector_size(64)));
};
template <>
struct VectorOf<double> {
  typedef double Type __attribute__((vector_size(64)));
  typedef int64_t Bits __attribute__((vector_size(64)));
};
template <typename T>
using Vector = typename VectorOf<T>::Type;
template <typename T>
using VectorBits = typename VectorOf<T>::Bits;

template <typename T>
constexpr int64_t kLanes = 64 / sizeof(T);

template <typename T>
SC_ALWAYS_INLINE Vector<T> Broadcast(T value) {
  return Vector<T>{} + value;
}

// The first `count` lanes; the others are 0.
template <typename T>
SC_ALWAYS_INLINE Vector<T> Load(const T* from, int64_t count) {
  Vector<T> result{};
  if (count >= kLanes<T>) {
    std::memcpy(&result, from, sizeof(result));
  } else {
    for (int64_t i = 0; i < count; ++i) result[i] = from[i];
  }
  return result;
}

template <typename T>
SC_ALWAYS_INLINE void Store(const Vector<T>& value, T* to, int64_t count) {
  if (count >= kLanes<T>) {
    std::memcpy(to, &value, sizeof(value));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = value[i];
  }
}

template <typename T>
SC_ALWAYS_INLINE T Sum(const Vector<T>& value) {
  T lanes[kLanes<T>];
  std::memcpy(lanes, &value, sizeof(value));
  for (int64_t width = kLanes<T> / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

template <typename T>
SC_ALWAYS_INLINE T Max(const Vector<T>& value) {
  T largest = value[0];
  for (int64_t i = 1; i < kLanes<T>; ++i) {
    // A NaN stays.
    if (!(value[i] <= largest)) largest = value[i];
  }
  return largest;
}

template <typename T>
SC_ALWAYS_INLINE Vector<T> Larger(const Vector<T>& a, const Vector<T>& b) {
  return a > b ? a : b;
}

// e^x within 1 unit in the last place, clamped to what float can hold. Cody and
// Waite's reduction to |r| <= ln(2) / 2, then Taylor's series.
SC_ALWAYS_INLINE Vector<float> Exp(const Vector<float>& argument) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: rounds to an integer
  constexpr int32_t kBias = 127;
  constexpr int32_t kMantissaBits = 23;
  Vector<float> x = argument < -87.3F ? Broadcast(-87.3F) : argument;
  x = x > 88.3F ? Broadcast(88.3F) : x;
  const Vector<float> shifted = x * kLog2E + kShift;
  const Vector<float> n = shifted - kShift;
  const Vector<float> r = (x - n * kLn2High) - n * kLn2Low;
  Vector<float> p = Broadcast(1.0F / 5040);
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  VectorBits<float> bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + kBias) << kMantissaBits;
  Vector<float> power;
  std::memcpy(&power, &bits, sizeof(bits));
  return p * power;
}

SC_ALWAYS_INLINE Vector<double> Exp(const Vector<double>& x) {
  Vector<double> result{};
  for (int64_t i = 0; i < kLanes<double>; ++i) result[i] = std::exp(x[i]);
  return result;
}

#pragma GCC diagnostic pop

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_VECTOR_H_

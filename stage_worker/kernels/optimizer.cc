#include "stage_worker/kernels/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "stage_worker/kernels/instruction_set.h"
#include "stage_worker/kernels/parallel.h"
#include "stage_worker/kernels/vector.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace stagecoach::worker::kernels {
namespace {

// What one thread takes at a time.
constexpr int64_t kPiece = int64_t{1} << 15;

struct SquaresKernel {
  static SC_ALWAYS_INLINE void Run(const float* x, int64_t count,
                                   double* result) {
    typedef float Half __attribute__((vector_size(32)));
    constexpr int64_t kHalf = kLanes<double>;
    constexpr int64_t kSums = 4;
    Vector<double> sums[kSums] = {};
    int64_t i = 0;
    for (; i + kSums * kHalf <= count; i += kSums * kHalf) {
      for (int64_t k = 0; k < kSums; ++k) {
        Half half;
        std::memcpy(&half, x + i + k * kHalf, sizeof(half));
        const auto wide = __builtin_convertvector(half, Vector<double>);
        sums[k] += wide * wide;
      }
    }
    double sum = Sum<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < count; ++i) {
      sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    *result = sum;
  }
};

struct SgdKernel {
  static SC_ALWAYS_INLINE void Run(float rate, float clip, float* gradients,
                                   float* values, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes<float>) {
      const int64_t lanes = end - i;
      const Vector<float> gradient = Load(gradients + i, lanes) * clip;
      Store<float>(Load(values + i, lanes) - gradient * rate, values + i,
                   lanes);
      Store<float>(Vector<float>{}, gradients + i, lanes);
    }
  }
};

// The scalars of a step.
struct AdamWStep {
  float clip = 1;
  float decay = 0;         // rate * weight decay
  float first_share = 0;   // 1 - beta1
  float second_keep = 0;   // beta2
  float second_share = 0;  // 1 - beta2
  float size = 0;          // rate / (1 - beta1^t)
  float correction = 1;    // sqrt(1 - beta2^t)
  float epsilon = 0;
};

SC_ALWAYS_INLINE Vector<float> SquareRoot(const Vector<float>& x) {
  Vector<float> result{};
  for (int64_t i = 0; i < kLanes<float>; ++i) result[i] = std::sqrt(x[i]);
  return result;
}

struct AdamWKernel {
  static SC_ALWAYS_INLINE void Run(const AdamWStep* step, AdamWBuffers at,
                                   int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kLanes<float>) {
      const int64_t lanes = end - i;
      const Vector<float> gradient = Load(at.gradients + i, lanes) * step->clip;
      Vector<float> value = Load(at.values + i, lanes);
      value -= value * step->decay;
      Vector<float> average = Load(at.averages + i, lanes);
      average += (gradient - average) * step->first_share;
      const Vector<float> squares =
          Load(at.squared_averages + i, lanes) * step->second_keep +
          gradient * gradient * step->second_share;
      const Vector<float> denominator =
          SquareRoot(squares) / step->correction + step->epsilon;
      value -= average / denominator * step->size;
      Store<float>(value, at.values + i, lanes);
      Store<float>(average, at.averages + i, lanes);
      Store<float>(squares, at.squared_averages + i, lanes);
      Store<float>(Vector<float>{}, at.gradients + i, lanes);
    }
  }
};

// Calls work(begin, end) for pieces that do not depend on the threads.
template <typename Work>
void ForPieces(int64_t count, const Work& work) {
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  ForParts(pieces, kPiece, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      work(piece * kPiece, std::min((piece + 1) * kPiece, count));
    }
  });
}

}  // namespace

double SumOfSquares(const float* x, int64_t count) {
  std::vector<double> sums(static_cast<size_t>((count + kPiece - 1) / kPiece));
  ForPieces(count, [&](int64_t begin, int64_t end) {
    RunKernel<SquaresKernel>(x + begin, end - begin,
                             &sums[static_cast<size_t>(begin / kPiece)]);
  });
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

void SgdUpdate(const SgdOptions& options, int64_t count, float* gradients,
               float* values) {
  ForPieces(count, [&](int64_t begin, int64_t end) {
    RunKernel<SgdKernel>(static_cast<float>(options.rate),
                         static_cast<float>(options.clip), gradients, values,
                         begin, end);
  });
}

void AdamWUpdate(const AdamWOptions& options, int64_t count,
                 const AdamWBuffers& buffers) {
  const auto t = static_cast<double>(options.step);
  AdamWStep step;
  step.clip = static_cast<float>(options.clip);
  step.decay = static_cast<float>(options.rate * options.weight_decay);
  step.first_share = static_cast<float>(1 - options.beta1);
  step.second_keep = static_cast<float>(options.beta2);
  step.second_share = static_cast<float>(1 - options.beta2);
  step.size =
      static_cast<float>(options.rate / (1 - std::pow(options.beta1, t)));
  step.correction =
      static_cast<float>(std::sqrt(1 - std::pow(options.beta2, t)));
  step.epsilon = static_cast<float>(options.epsilon);
  const AdamWStep* const scalars = &step;
  ForPieces(count, [&](int64_t begin, int64_t end) {
    RunKernel<AdamWKernel>(scalars, buffers, begin, end);
  });
}

}  // namespace stagecoach::worker::kernels

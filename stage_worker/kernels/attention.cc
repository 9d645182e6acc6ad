#include "stage_worker/kernels/attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "stage_worker/kernels/gemm.h"
#include "stage_worker/kernels/instruction_set.h"
#include "stage_worker/kernels/parallel.h"
#include "stage_worker/kernels/vector.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace stagecoach::worker::kernels {
namespace {

// A block of scores: 64 queries by up to the whole sequence.
constexpr int64_t kQueries = 64;

// Queries [begin, end) and the keys [first_key, end) that one of them sees.
struct Block {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t first_key = 0;

  int64_t queries() const { return end - begin; }
  int64_t keys() const { return end - first_key; }
};

Block BlockAt(const AttentionShape& shape, int64_t begin) {
  Block block;
  block.begin = begin;
  block.end = std::min(begin + kQueries, shape.sequence);
  if (shape.window > 0) {
    block.first_key = std::max<int64_t>(0, begin - shape.window + 1);
  }
  return block;
}

// Columns [first, last) of the block's row that the query sees.
struct Seen {
  int64_t first = 0;
  int64_t last = 0;
};
SC_ALWAYS_INLINE Seen SeenBy(Block block, int64_t window, int64_t row) {
  const int64_t query = block.begin + row;
  Seen seen;
  seen.last = query + 1 - block.first_key;
  if (window > 0 && query + 1 - window > block.first_key) {
    seen.first = query + 1 - window - block.first_key;
  }
  return seen;
}

template <typename T>
SC_ALWAYS_INLINE void Clear(T* row, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) row[i] = T(0);
}

// Scores to exponentials of (score - largest), what is not seen to 0; the
// inverse of their sum, and the logarithm of the sum of all exponentials.
struct SoftmaxKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(T* scores, Block block, int64_t window,
                                   T* inverse_sums, T* log_sums) {
    const int64_t keys = block.keys();
    for (int64_t r = 0; r < block.queries(); ++r) {
      T* const row = scores + r * keys;
      const Seen seen = SeenBy(block, window, r);
      const int64_t count = seen.last - seen.first;
      T* const visible = row + seen.first;
      Vector<T> largest = Broadcast(visible[0]);
      int64_t i = 0;
      for (; i + kLanes<T> <= count; i += kLanes<T>) {
        largest = Larger<T>(Load(visible + i, kLanes<T>), largest);
      }
      T top = Max<T>(largest);
      for (; i < count; ++i) top = visible[i] > top ? visible[i] : top;
      Vector<T> sum{};
      T rest = 0;
      for (i = 0; i < count; i += kLanes<T>) {
        const int64_t lanes = count - i;
        const Vector<T> value = Exp(Load(visible + i, lanes) - top);
        Store<T>(value, visible + i, lanes);
        if (lanes >= kLanes<T>) {
          sum += value;
        } else {
          for (int64_t k = 0; k < lanes; ++k) rest += value[k];
        }
      }
      const T total = Sum<T>(sum) + rest;
      inverse_sums[r] = T(1) / total;
      log_sums[r] = top + std::log(total);
      Clear(row, 0, seen.first);
      Clear(row, seen.last, keys);
    }
  }
};

struct ScaleRowsKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(T* data, int64_t stride, int64_t rows,
                                   int64_t width, const T* factors) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < width; i += kLanes<T>) {
        T* const at = data + r * stride + i;
        Store<T>(Load(at, width - i) * factors[r], at, width - i);
      }
    }
  }
};

// Scores to probabilities.
struct ProbabilityKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(T* scores, Block block, int64_t window,
                                   const T* log_sums) {
    const int64_t keys = block.keys();
    for (int64_t r = 0; r < block.queries(); ++r) {
      T* const row = scores + r * keys;
      const Seen seen = SeenBy(block, window, r);
      for (int64_t i = seen.first; i < seen.last; i += kLanes<T>) {
        const int64_t lanes = seen.last - i;
        Store<T>(Exp(Load(row + i, lanes) - log_sums[r]), row + i, lanes);
      }
      Clear(row, 0, seen.first);
      Clear(row, seen.last, keys);
    }
  }
};

// gradients of probabilities to those of scores:
// ds = p * (dp - sum of output * its gradient) * scale.
struct ScoreGradientKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const T* probabilities, T* gradients,
                                   int64_t rows, int64_t keys, const T* dots,
                                   T scale) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < keys; i += kLanes<T>) {
        const int64_t lanes = keys - i;
        T* const at = gradients + r * keys + i;
        const Vector<T> p = Load(probabilities + r * keys + i, lanes) * scale;
        Store<T>(p * (Load(at, lanes) - dots[r]), at, lanes);
      }
    }
  }
};

struct DotRowsKernel {
  template <typename T>
  static SC_ALWAYS_INLINE void Run(const T* a, int64_t stride_a, const T* b,
                                   int64_t stride_b, int64_t rows,
                                   int64_t width, T* dots) {
    for (int64_t r = 0; r < rows; ++r) {
      Vector<T> sum{};
      for (int64_t i = 0; i < width; i += kLanes<T>) {
        sum += Load(a + r * stride_a + i, width - i) *
               Load(b + r * stride_b + i, width - i);
      }
      dots[r] = Sum<T>(sum);
    }
  }
};

// One head of one row of the microbatch.
template <typename T>
class Head {
 public:
  Head(const AttentionShape& shape, int64_t row) : shape_(shape), row_(row) {}

  template <typename U>
  Matrix<U> Tokens(const Heads<U>& heads, int64_t head, int64_t begin,
                   int64_t end) const {
    U* const data = heads.data +
                    (row_ * shape_.sequence + begin) * heads.stride +
                    head * shape_.width;
    return {data, end - begin, shape_.width, heads.stride, false};
  }
  // Where the query's place in log_sums is.
  int64_t LogSumAt(int64_t head, int64_t query) const {
    return (row_ * shape_.heads + head) * shape_.sequence + query;
  }

 private:
  const AttentionShape& shape_;
  const int64_t row_;
};

template <typename T>
at::Tensor Scratch(int64_t elements) {
  return at::empty({elements}, at::TensorOptions().dtype(
                                   c10::CppTypeToScalarType<T>::value));
}

// All products here are small.
template <typename T>
void Product(const Matrix<const T>& a, const Matrix<const T>& b,
             const Matrix<T>& c, double alpha, double beta) {
  Gemm<T>(GemmLibrary::kMkl, a, b, c, alpha, beta);
}

template <typename T>
Matrix<const T> ReadOnly(const Matrix<T>& matrix) {
  return matrix;
}

// Calls work(row, key and value head) for all of them.
template <typename Work>
void ForHeads(const AttentionShape& shape, const Work& work) {
  const int64_t count = shape.rows * shape.key_value_heads;
  const int64_t cost = shape.sequence * shape.sequence;
  ForParts(count, cost, [&](int64_t begin, int64_t end) { work(begin, end); });
}

template <typename T>
class Forward {
 public:
  Forward(const AttentionShape& shape, const Heads<const T>& query,
          const Heads<const T>& key, const Heads<const T>& value,
          const Heads<T>& output, T* log_sums)
      : shape_(shape),
        query_(query),
        key_(key),
        value_(value),
        output_(output),
        log_sums_(log_sums) {}

  void Run(int64_t begin, int64_t end) {
    const int64_t block = std::min(kQueries, shape_.sequence);
    const at::Tensor scratch = Scratch<T>(block * (shape_.sequence + 1));
    T* const scores = scratch.mutable_data_ptr<T>();
    T* const inverse_sums = scores + block * shape_.sequence;
    const int64_t group = shape_.heads / shape_.key_value_heads;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / shape_.key_value_heads;
      const int64_t shared = item % shape_.key_value_heads;
      for (int64_t head = shared * group; head < (shared + 1) * group; ++head) {
        for (int64_t at = 0; at < shape_.sequence; at += kQueries) {
          RunBlock(Head<T>(shape_, row), head, shared, BlockAt(shape_, at),
                   scores, inverse_sums);
        }
      }
    }
  }

 private:
  void RunBlock(const Head<T>& at, int64_t head, int64_t shared,
                const Block& block, T* scores, T* inverse_sums) {
    const auto query = at.Tokens(query_, head, block.begin, block.end);
    const auto key = at.Tokens(key_, shared, block.first_key, block.end);
    const auto value = at.Tokens(value_, shared, block.first_key, block.end);
    const Matrix<T> output = at.Tokens(output_, head, block.begin, block.end);
    const Matrix<T> s = RowMajor(scores, block.queries(), block.keys());
    Product<T>(query, key.Transposed(), s, shape_.scale, 0);
    RunKernel<SoftmaxKernel>(scores, block, shape_.window, inverse_sums,
                             log_sums_ + at.LogSumAt(head, block.begin));
    Product<T>(s, value, output, 1, 0);
    RunKernel<ScaleRowsKernel>(output.data, output.stride, output.rows,
                               output.columns,
                               static_cast<const T*>(inverse_sums));
  }

  const AttentionShape& shape_;
  const Heads<const T> query_;
  const Heads<const T> key_;
  const Heads<const T> value_;
  const Heads<T> output_;
  T* const log_sums_;
};

template <typename T>
class Backward {
 public:
  Backward(const AttentionShape& shape, const Heads<const T>& query,
           const Heads<const T>& key, const Heads<const T>& value,
           const Heads<const T>& output, const T* log_sums,
           const Heads<const T>& output_gradient,
           const AttentionGradients<T>& gradients)
      : shape_(shape),
        query_(query),
        key_(key),
        value_(value),
        output_(output),
        log_sums_(log_sums),
        output_gradient_(output_gradient),
        gradients_(gradients) {}

  void Run(int64_t begin, int64_t end) {
    const int64_t block = std::min(kQueries, shape_.sequence);
    const at::Tensor scratch = Scratch<T>(block * (2 * shape_.sequence + 1));
    probabilities_ = scratch.mutable_data_ptr<T>();
    score_gradients_ = probabilities_ + block * shape_.sequence;
    dots_ = score_gradients_ + block * shape_.sequence;
    for (int64_t item = begin; item < end; ++item) {
      RunShared(item / shape_.key_value_heads, item % shape_.key_value_heads);
    }
  }

 private:
  // The last block comes first: without a window it sees all keys and sets
  // their gradients, to which the others add.
  void RunShared(int64_t row, int64_t shared) {
    const Head<T> at(shape_, row);
    const int64_t group = shape_.heads / shape_.key_value_heads;
    const int64_t last = (shape_.sequence - 1) / kQueries * kQueries;
    bool set = shape_.window > 0;
    if (set) {
      SetToZero(at.Tokens(gradients_.key, shared, 0, shape_.sequence));
      SetToZero(at.Tokens(gradients_.value, shared, 0, shape_.sequence));
    }
    for (int64_t head = shared * group; head < (shared + 1) * group; ++head) {
      for (int64_t begin = last; begin >= 0; begin -= kQueries) {
        RunBlock(at, head, shared, BlockAt(shape_, begin), set ? 1 : 0);
        set = true;
      }
    }
  }

  static void SetToZero(const Matrix<T>& matrix) {
    for (int64_t row = 0; row < matrix.rows; ++row) {
      std::fill_n(matrix.data + row * matrix.stride, matrix.columns, T(0));
    }
  }

  void RunBlock(const Head<T>& at, int64_t head, int64_t shared,
                const Block& block, double beta) {
    const auto query = at.Tokens(query_, head, block.begin, block.end);
    const auto key = at.Tokens(key_, shared, block.first_key, block.end);
    const auto value = at.Tokens(value_, shared, block.first_key, block.end);
    const auto output = at.Tokens(output_, head, block.begin, block.end);
    const auto d_output =
        at.Tokens(output_gradient_, head, block.begin, block.end);
    const Matrix<T> p = RowMajor(probabilities_, block.queries(), block.keys());
    const Matrix<T> ds =
        RowMajor(score_gradients_, block.queries(), block.keys());
    Product<T>(query, key.Transposed(), p, shape_.scale, 0);
    RunKernel<ProbabilityKernel>(p.data, block, shape_.window,
                                 log_sums_ + at.LogSumAt(head, block.begin));
    RunKernel<DotRowsKernel>(output.data, output.stride, d_output.data,
                             d_output.stride, output.rows, output.columns,
                             dots_);
    Product<T>(ReadOnly(p).Transposed(), d_output,
               at.Tokens(gradients_.value, shared, block.first_key, block.end),
               1, beta);
    Product<T>(d_output, value.Transposed(), ds, 1, 0);
    RunKernel<ScoreGradientKernel>(
        static_cast<const T*>(p.data), ds.data, ds.rows, ds.columns,
        static_cast<const T*>(dots_), static_cast<T>(shape_.scale));
    Product<T>(ds, key,
               at.Tokens(gradients_.query, head, block.begin, block.end), 1, 0);
    Product<T>(ReadOnly(ds).Transposed(), query,
               at.Tokens(gradients_.key, shared, block.first_key, block.end), 1,
               beta);
  }

  const AttentionShape& shape_;
  const Heads<const T> query_;
  const Heads<const T> key_;
  const Heads<const T> value_;
  const Heads<const T> output_;
  const T* const log_sums_;
  const Heads<const T> output_gradient_;
  const AttentionGradients<T> gradients_;
  T* probabilities_ = nullptr;
  T* score_gradients_ = nullptr;
  T* dots_ = nullptr;
};

}  // namespace

template <typename T>
void AttentionForward(const AttentionShape& shape, const Heads<const T>& query,
                      const Heads<const T>& key, const Heads<const T>& value,
                      const Heads<T>& output, T* log_sums) {
  ForHeads(shape, [&](int64_t begin, int64_t end) {
    Forward<T>(shape, query, key, value, output, log_sums).Run(begin, end);
  });
}

template <typename T>
void AttentionBackward(const AttentionShape& shape, const Heads<const T>& query,
                       const Heads<const T>& key, const Heads<const T>& value,
                       const Heads<const T>& output, const T* log_sums,
                       const Heads<const T>& output_gradient,
                       const AttentionGradients<T>& gradients) {
  ForHeads(shape, [&](int64_t begin, int64_t end) {
    Backward<T>(shape, query, key, value, output, log_sums, output_gradient,
                gradients)
        .Run(begin, end);
  });
}

#define SC_INSTANTIATE(T)                                                      \
  template void AttentionForward(const AttentionShape&, const Heads<const T>&, \
                                 const Heads<const T>&, const Heads<const T>&, \
                                 const Heads<T>&, T*);                         \
  template void AttentionBackward(                                             \
      const AttentionShape&, const Heads<const T>&, const Heads<const T>&,     \
      const Heads<const T>&, const Heads<const T>&, const T*,                  \
      const Heads<const T>&, const AttentionGradients<T>&)
SC_INSTANTIATE(float);
SC_INSTANTIATE(double);
#undef SC_INSTANTIATE

}  // namespace stagecoach::worker::kernels

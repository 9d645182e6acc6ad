#ifndef STAGECOACH_STAGE_WORKER_KERNELS_BLOCK_TEST_UTIL_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_BLOCK_TEST_UTIL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "job/model_config.h"
#include "stage_worker/kernels/linear.h"

// How own blocks are compared with autograd over ATen's operators.
namespace stagecoach::worker::kernels {

// Normally distributed times `scale`, drawn in double: the same numbers in
// every type.
at::Tensor Drawn(at::IntArrayRef sizes, at::ScalarType type, double scale = 1);

// Parameters with gradients of their own, by index.
class TestParameters {
 public:
  // Those that have one dimension are norms' weights around 1 if their index is
  // in `around_one`.
  TestParameters(const std::vector<std::vector<int64_t>>& shapes,
                 const std::vector<size_t>& around_one, at::ScalarType type);

  const at::Tensor& value(size_t i) const { return values_[i]; }
  const at::Tensor& gradient(size_t i) const { return gradients_[i]; }
  size_t size() const { return values_.size(); }
  Parameter At(size_t i) const { return {&values_[i], &gradients_[i]}; }
  void ZeroGradients() const;
  // A frozen one has no gradient.
  void SetFrozen(size_t i, bool frozen);

 private:
  std::deque<at::Tensor> values_;
  std::deque<at::Tensor> gradients_;
};

at::Tensor ActivateWithAten(job::Activation activation, const at::Tensor& x);
// softmax(scale q k^T) v of [rows, heads, sequence, width] in plain operators;
// a query sees itself and what is before it, `window` tokens in all (0: all).
at::Tensor AttendWithAten(const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value, double scale,
                          int64_t window = 0);

struct Outcome {
  at::Tensor y;
  at::Tensor dx;
  std::vector<at::Tensor> gradients;
};
using BlockFunction = std::function<at::Tensor(const at::Tensor& x)>;

// Autograd's gradients of what `reference` computes.
Outcome RunReference(const BlockFunction& reference,
                     const TestParameters& parameters, const at::Tensor& x,
                     const at::Tensor& dy);
// Those of an own block, whole or split, `times` microbatches.
Outcome RunOwn(const BlockFunction& block, const TestParameters& parameters,
               const at::Tensor& x, const at::Tensor& dy, bool split = false,
               int times = 1);

// Largest difference, relative to the largest value of b.
double Distance(const at::Tensor& a, const at::Tensor& b);
// Gradients are compared relative to the largest of all.
void ExpectClose(const Outcome& own, const Outcome& reference,
                 double tolerance);
void ExpectSameBits(const Outcome& a, const Outcome& b);
// That freezing any one parameter changes nothing of the rest, and that nothing
// is left of the block once all are frozen and x needs no gradient.
void ExpectAnyCanBeFrozen(const BlockFunction& block,
                          TestParameters* parameters, const at::Tensor& x,
                          const at::Tensor& dy);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_BLOCK_TEST_UTIL_H_

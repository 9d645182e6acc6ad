#include "stage_worker/kernels/gemm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "job/job_spec.h"
#include "stage_worker/kernels/block_test_util.h"
#include "stage_worker/kernels/choice.h"

namespace stagecoach::worker::kernels {
namespace {

Matrix<const float> Viewed(const at::Tensor& stored, bool transposed) {
  const Matrix<const float> view =
      RowMajor(stored.const_data_ptr<float>(), stored.size(0), stored.size(1));
  return transposed ? view.Transposed() : view;
}

// Small products, and those from which on oneDNN is asked where a processor has
// it: whatever this machine's choice is must work on it.
TEST(GemmTest, TheLibrariesOfThisMachineMultiply) {
  at::manual_seed(1);
  for (const GemmLibrary library :
       {GemmLibrary::kMkl, LibraryOf(job::KernelChoice::kOneDnn)}) {
    for (const int64_t size : {5, 200}) {
      const int64_t m = size;
      const int64_t n = size + 3;
      const int64_t k = size + 7;
      for (const bool transposed : {false, true}) {
        const at::Tensor a = Drawn({m, k}, at::kFloat);
        const at::Tensor b =
            transposed ? Drawn({n, k}, at::kFloat) : Drawn({k, n}, at::kFloat);
        at::Tensor c = Drawn({m, n}, at::kFloat);
        const at::Tensor expected =
            at::mm(a.to(at::kDouble),
                   (transposed ? b.t() : b).to(at::kDouble)) +
            c.to(at::kDouble);
        Gemm<float>(library, Viewed(a, false), Viewed(b, transposed),
                    RowMajor(c.mutable_data_ptr<float>(), m, n), /*alpha=*/1,
                    /*beta=*/1);
        EXPECT_LE(Distance(c, expected), 1e-6)
            << size << (transposed ? " transposed" : "");
      }
    }
  }
}

}  // namespace
}  // namespace stagecoach::worker::kernels

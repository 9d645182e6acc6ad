#include "stage_worker/engine/torch/cpu_allocator.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "memory/accounting_allocator.h"
#include "memory/category.h"
#include "stage_worker/engine/torch/torch_status.h"

namespace stagecoach::worker {
namespace {

using absl::StatusCode;
using memory::AccountingAllocator;
using memory::Category;

int64_t Current(Category category) {
  return AccountingAllocator::Process()
      .Stats()
      .categories[static_cast<size_t>(category)]
      .current;
}

class CpuAllocatorTest : public ::testing::Test {
 protected:
  // A tensor of torch's own allocator, from before.
  static void SetUpTestSuite() {
    EXPECT_FALSE(CpuAllocatorInstalled());
    earlier_ = new at::Tensor(at::ones({100}));
    InstallCpuAllocator();
    InstallCpuAllocator();
  }
  static at::Tensor* earlier_;
};
at::Tensor* CpuAllocatorTest::earlier_ = nullptr;

TEST_F(CpuAllocatorTest, TensorsAreAccountedUnderTheThreadsTag) {
  EXPECT_TRUE(CpuAllocatorInstalled());
  memory::Tag tag;
  tag.category = Category::kWorkspace;
  at::Tensor tensor;
  {
    const memory::ScopedTag scope(tag);
    tensor = at::empty({10, 10});
  }
  EXPECT_EQ(Current(Category::kWorkspace), 400);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 64, 0u);
  std::thread([&tensor] { tensor.reset(); }).join();
  EXPECT_EQ(Current(Category::kWorkspace), 0) << "freed by another thread";
}

TEST_F(CpuAllocatorTest, UntaggedTensorsAreOther) {
  const int64_t before = Current(Category::kOther);
  const at::Tensor tensor = at::empty({10});
  EXPECT_EQ(Current(Category::kOther) - before, 40);
}

TEST_F(CpuAllocatorTest, EarlierTensorsKeepTheirOwnDeleter) {
  EXPECT_NE(earlier_->storage().data_ptr().get_deleter(), CpuBlockDeleter());
  delete earlier_;
  earlier_ = nullptr;
}

TEST_F(CpuAllocatorTest, ResizingAccountsTheNewSize) {
  const int64_t before = Current(Category::kOther);
  at::Tensor tensor = at::empty({10});
  tensor.resize_({1000});
  EXPECT_EQ(Current(Category::kOther) - before, 4000);
}

TEST_F(CpuAllocatorTest, NothingCostsNothing) {
  const int64_t before = Current(Category::kOther);
  const at::Tensor tensor = at::empty({0});
  EXPECT_EQ(Current(Category::kOther), before);
}

TEST_F(CpuAllocatorTest, ARefusalIsResourceExhausted) {
  const absl::Status status = CatchTorch("stage 1", []() -> absl::Status {
    at::empty({int64_t{1} << 55});
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message().find("stage 1: out of memory: 144115188075855872"),
            0u)
      << status;
}

template <typename Exception>
absl::Status Thrown(const Exception& exception) {
  return CatchTorch("here",
                    [&exception]() -> absl::Status { throw exception; });
}

TEST(TorchStatusTest, GivesEachExceptionItsCode) {
  EXPECT_EQ(Thrown(std::bad_alloc()).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Thrown(std::invalid_argument("sizes")),
            absl::InvalidArgumentError("here: sizes"));
  EXPECT_EQ(Thrown(std::runtime_error("broken\nand more")),
            absl::InternalError("here: broken"));
  EXPECT_EQ(Thrown(7).code(), StatusCode::kInternal);
}

TEST(TorchStatusTest, KeepsTheFirstLineOfTorchsErrors) {
  const absl::Status status = CatchTorch("here", []() -> absl::Status {
    at::ones({2}).view({3});
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::InternalError(
                        "here: shape '[3]' is invalid for input of size 2"));
}

TEST(TorchStatusTest, LeavesResultsAlone) {
  EXPECT_TRUE(CatchTorch("here", [] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(*CatchTorch("here", [] { return absl::StatusOr<int>(3); }), 3);
}

}  // namespace
}  // namespace stagecoach::worker

#include "stage_worker/engine/torch/mapped_buffer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "stage_worker/engine/torch/torch_test_util.h"

namespace stagecoach::worker {
namespace {

std::string Folder() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return folder == nullptr ? "/tmp" : folder;
}

int64_t MappingsOf(const std::string& text) {
  std::ifstream maps("/proc/self/maps");
  int64_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(text) != std::string::npos) ++count;
  }
  return count;
}

TEST(MappedBufferTest, AreZerosOutsideTheAccountThatLeaveNothingBehind) {
  StartTorchForTests();
  const std::string folder = Folder() + "/mapped";
  std::filesystem::create_directories(folder);
  const auto& allocator = memory::AccountingAllocator::Process();
  const int64_t before = allocator.Stats().allocated_bytes.current;
  {
    at::Tensor zeros = MappedZeros(folder, 1000);
    EXPECT_EQ(zeros.sizes().vec(), (std::vector<int64_t>{1000}));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(zeros.const_data_ptr()) % 64, 0u);
    EXPECT_EQ(zeros.abs().sum().item<float>(), 0);
    zeros.add_(2);
    EXPECT_EQ(zeros.sum().item<float>(), 2000);
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "it has no name";
    EXPECT_GT(MappingsOf(folder), 0);
    EXPECT_EQ(allocator.Stats().allocated_bytes.current, before);
  }
  EXPECT_EQ(MappingsOf(folder), 0);
}

TEST(MappedBufferTest, NamesTheFolderThatCannotBe) {
  try {
    MappedZeros("/nowhere", 10);
    ADD_FAILURE() << "no such folder";
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("/nowhere"), std::string::npos) << text;
    EXPECT_NE(text.find("--mapping-directory"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace stagecoach::worker

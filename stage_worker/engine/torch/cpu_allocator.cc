#include "stage_worker/engine/torch/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <utility>

#include "memory/accounting_allocator.h"

namespace stagecoach::worker {
namespace {

void FreeBlock(void* block) {
  memory::AccountingAllocator::Process().Free(block);
}

thread_local AllocationWatcher* watcher_of_thread = nullptr;

class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    AllocationWatcher* const watcher = watcher_of_thread;
    if (watcher != nullptr) {
      c10::DataPtr served;
      if (watcher->Serve(bytes, &served)) return served;
    }
    const c10::Device cpu(c10::DeviceType::CPU);
    void* const block = memory::AccountingAllocator::Process().Allocate(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr || bytes == 0,
                     "out of memory: ", bytes,
                     " bytes were refused by the memory limit or the system");
    if (watcher != nullptr) watcher->OnAllocated(block);
    return {block, block, &FreeBlock, cpu};
  }
  // One function for all blocks, which also lets torch pass raw pointers.
  c10::DeleterFnPtr raw_deleter() const override { return &FreeBlock; }
  void copy_data(void* destination, const void* source,
                 std::size_t bytes) const override {
    std::memcpy(destination, source, bytes);
  }
};

}  // namespace

AllocationWatcher* WatchAllocations(AllocationWatcher* watcher) {
  return std::exchange(watcher_of_thread, watcher);
}

void InstallCpuAllocator() {
  // Torch never gives an allocator back, and tensors may outlive main.
  static CpuAllocator* const allocator = [] {
    auto* const installed = new CpuAllocator;
    constexpr uint8_t kAboveTorchsOwn = 100;
    c10::SetCPUAllocator(installed, kAboveTorchsOwn);
    return installed;
  }();
  static_cast<void>(allocator);
}

bool CpuAllocatorInstalled() {
  return c10::GetCPUAllocator()->raw_deleter() == &FreeBlock;
}

BlockDeleter CpuBlockDeleter() { return &FreeBlock; }

}  // namespace stagecoach::worker

#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_CPU_ALLOCATOR_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_CPU_ALLOCATOR_H_

#include <cstddef>

namespace c10 {
class DataPtr;
}  // namespace c10

namespace stagecoach::worker {

// Sees the allocations of its thread, in order, and may serve one.
class AllocationWatcher {
 public:
  virtual ~AllocationWatcher() = default;
  // Whether `*block` is what the caller gets.
  virtual bool Serve(size_t bytes, c10::DataPtr* block) = 0;
  // What it got otherwise; null for no bytes.
  virtual void OnAllocated(const void* block) = 0;
};
// Sets the calling thread's watcher, or null; returns the one before.
AllocationWatcher* WatchAllocations(AllocationWatcher* watcher);

// Makes memory::AccountingAllocator::Process() torch's CPU allocator, for the
// life of the process. Every tensor made from then on is accounted under the
// calling thread's tag; a refused allocation raises c10::OutOfMemoryError.
// Tensors made earlier keep their own deleter. Thread-safe, idempotent.
void InstallCpuAllocator();
bool CpuAllocatorInstalled();

// How torch frees a block of that allocator: a storage with another deleter
// lies in memory that is not accounted here.
using BlockDeleter = void (*)(void*);
BlockDeleter CpuBlockDeleter();

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_CPU_ALLOCATOR_H_

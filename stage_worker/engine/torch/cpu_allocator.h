#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_CPU_ALLOCATOR_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_CPU_ALLOCATOR_H_

namespace stagecoach::worker {

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

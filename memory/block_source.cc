#include "memory/block_source.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>

namespace stagecoach::memory {
namespace {

// A process's address space on the 64-bit machines of today. More is refused
// here, because sanitizers end the process over such a request.
constexpr size_t kAddressSpaceBytes = size_t{1} << 47;

class SystemSource final : public BlockSource {
 public:
  void* Take(size_t bytes) override {
    if (bytes > kAddressSpaceBytes) return nullptr;
    void* block = nullptr;
    if (posix_memalign(&block, kBlockAlignment, bytes) != 0) return nullptr;
    return block;
  }
  void Give(void* block, size_t) override { std::free(block); }
  int64_t Trim() override {
    malloc_trim(0);
    return 0;
  }
};

// Hidden from the optimiser, which may leave out writes to memory that is freed
// next.
void Fill(void* block, size_t bytes) {
  std::memset(block, 0xFF, bytes);
  asm volatile("" : : "r"(block) : "memory");
}

}  // namespace

BlockSource* SystemBlockSource() {
  static auto* const source = new SystemSource;
  return source;
}

void PoisoningSource::Give(void* block, size_t bytes) {
  Fill(block, bytes);
  upstream_->Give(block, bytes);
}

}  // namespace stagecoach::memory

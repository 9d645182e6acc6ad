#ifndef STAGECOACH_MEMORY_CATEGORY_H_
#define STAGECOACH_MEMORY_CATEGORY_H_

#include <array>
#include <cstdint>

#include "base/ids.h"

namespace stagecoach::memory {

// What a block of memory is for. Every allocated byte has exactly one.
enum class Category : uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,   // inputs, outputs and what autograd saves of a microbatch
  kWireSend,     // copies that wait in ordinary memory to be sent
  kWireReceive,  // arenas that peers write into, reserved whole
  kWorkspace,
  kOther,  // untagged
};
inline constexpr int kCategories = 8;

// "parameter", "wire_send", ...: the names of the JSON contract.
const char* CategoryName(Category category);

// Attribution of an allocation. Stage and microbatch -1: of none.
struct Tag {
  Category category = Category::kOther;
  StageIndex stage{-1};
  MicrobatchIndex microbatch{-1};
};

// The tag that allocations of this thread get now.
const Tag& CurrentTag();

// Sets the calling thread's tag until the end of the scope. Scopes nest.
class ScopedTag {
 public:
  explicit ScopedTag(const Tag& tag);
  ~ScopedTag();
  ScopedTag(const ScopedTag&) = delete;
  ScopedTag& operator=(const ScopedTag&) = delete;

 private:
  const Tag saved_;
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_CATEGORY_H_

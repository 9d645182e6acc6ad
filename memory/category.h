#ifndef STAGECOACH_MEMORY_CATEGORY_H_
#define STAGECOACH_MEMORY_CATEGORY_H_

#include "base/ids.h"
#include "base/memory_category.h"

namespace stagecoach::memory {

using Category = MemoryCategory;
inline constexpr int kCategories = kMemoryCategories;

// "parameter", "wire_send", ...: the names of the JSON contract.
constexpr const char* CategoryName(Category category) {
  return MemoryCategoryName(category);
}

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

#ifndef STAGECOACH_BASE_MEMORY_CATEGORY_H_
#define STAGECOACH_BASE_MEMORY_CATEGORY_H_

#include <cstdint>

namespace stagecoach {

// What a block of memory is for. Every allocated byte has exactly one.
enum class MemoryCategory : uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,   // inputs, outputs and what autograd saves of a microbatch
  kWireSend,     // copies that wait in ordinary memory to be sent
  kWireReceive,  // arenas that peers write into, reserved whole
  kWorkspace,
  kOther,  // untagged
};
inline constexpr int kMemoryCategories = 8;

// The names of the JSON contract.
constexpr const char* MemoryCategoryName(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kParameter:
      return "parameter";
    case MemoryCategory::kGradient:
      return "gradient";
    case MemoryCategory::kOptimizer:
      return "optimizer";
    case MemoryCategory::kActivation:
      return "activation";
    case MemoryCategory::kWireSend:
      return "wire_send";
    case MemoryCategory::kWireReceive:
      return "wire_receive";
    case MemoryCategory::kWorkspace:
      return "workspace";
    case MemoryCategory::kOther:
      return "other";
  }
  return "other";
}

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_MEMORY_CATEGORY_H_

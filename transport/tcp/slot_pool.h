#ifndef STAGECOACH_TRANSPORT_TCP_SLOT_POOL_H_
#define STAGECOACH_TRANSPORT_TCP_SLOT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace stagecoach::transport::tcp {

// The memory that an edge's transfers arrive in: equal slots, in pages of this
// process's own. Immutable, but for the bytes.
class SlotPool {
 public:
  // kInvalidArgument for a pool without slots or bytes, or an absurd one;
  // kResourceExhausted if there is no room for it.
  static absl::StatusOr<std::unique_ptr<SlotPool>> Create(int slots,
                                                          size_t slot_bytes);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  int slots() const { return slots_; }
  // As asked for: what a transfer may have.
  size_t slot_bytes() const { return slot_bytes_; }
  size_t arena_bytes() const;
  char* slot(uint32_t index) const;

 private:
  SlotPool(char* memory, int slots, size_t slot_bytes)
      : memory_(memory), slots_(slots), slot_bytes_(slot_bytes) {}

  char* const memory_;
  const int slots_;
  const size_t slot_bytes_;
};

}  // namespace stagecoach::transport::tcp

#endif  // STAGECOACH_TRANSPORT_TCP_SLOT_POOL_H_

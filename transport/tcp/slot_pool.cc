#include "transport/tcp/slot_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/ring/edge_memory.h"
#include "transport/ring/wire_format.h"
#include "transport/transport.h"

namespace stagecoach::transport::tcp {

absl::StatusOr<std::unique_ptr<SlotPool>> SlotPool::Create(int slots,
                                                           size_t slot_bytes) {
  if (slots < 1 || slots > ring::kMaxSlots || slot_bytes < 1 ||
      slot_bytes > ring::kMaxTransferBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pool of ", slots, " slots of ", slot_bytes,
                     " bytes; it must have 1 "
                     "to ",
                     ring::kMaxSlots, " of 1 to ", ring::kMaxTransferBytes));
  }
  const size_t bytes = static_cast<size_t>(slots) * AlignedBytes(slot_bytes);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for a receive pool of ", bytes, " bytes (", strerror(errno),
        "); lower pipeline.send_budget or "
        "training.microbatch_size"));
  }
  return std::unique_ptr<SlotPool>(
      new SlotPool(static_cast<char*>(memory), slots, slot_bytes));
}

SlotPool::~SlotPool() { munmap(memory_, arena_bytes()); }

size_t SlotPool::arena_bytes() const {
  return static_cast<size_t>(slots_) * AlignedBytes(slot_bytes_);
}

char* SlotPool::slot(uint32_t index) const {
  return memory_ + static_cast<size_t>(index) * AlignedBytes(slot_bytes_);
}

}  // namespace stagecoach::transport::tcp

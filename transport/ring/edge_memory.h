#ifndef STAGECOACH_TRANSPORT_RING_EDGE_MEMORY_H_
#define STAGECOACH_TRANSPORT_RING_EDGE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/ring/ring.h"
#include "transport/ring/wire_format.h"
#include "transport/shared_memory.h"

namespace stagecoach::transport::ring {

inline constexpr int kMaxSlots = 1 << 16;

// The memory of one edge: made by the receiver, mapped by both ends.
//
//   header | control cursors | notice cursors | control ring | notice ring |
//   (4 KiB boundary) slot 0 | slot 1 | ...
//
// Grants and acknowledgements go through the control ring, payload notices
// through the notice ring, which has room for one per slot. Shared ownership:
// mapped for as long as an end or a received transfer holds it. Immutable, but
// for the mapped bytes.
class EdgeMemory {
 public:
  // Receiver. kInvalidArgument for a pool without slots or bytes, or an absurd
  // one; kResourceExhausted if the host has no room for it.
  static absl::StatusOr<std::shared_ptr<EdgeMemory>> Create(int slots,
                                                            size_t slot_bytes);
  // Sender: the memory behind the peer's descriptor. kDataLoss if that does not
  // hold an edge as this version lays it out.
  static absl::StatusOr<std::shared_ptr<EdgeMemory>> Open(UniqueFd fd);

  int slots() const { return slots_; }
  // As asked for: what a transfer may have.
  size_t slot_bytes() const { return slot_bytes_; }
  size_t arena_bytes() const {
    return static_cast<size_t>(slots_) * AlignedBytes(slot_bytes_);
  }
  int fd() const { return memory_->fd(); }
  char* slot(uint32_t index) const;

  // Each end of each ring may be taken once per process.
  RingProducer<ControlMessage> control_producer() const;
  RingConsumer<ControlMessage> control_consumer() const;
  RingProducer<PayloadNotice> notice_producer() const;
  RingConsumer<PayloadNotice> notice_consumer() const;

 private:
  struct Header;
  EdgeMemory(std::shared_ptr<SharedMemory> memory, int slots,
             size_t slot_bytes);
  template <typename T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(memory_->data() + offset);
  }
  static absl::StatusOr<size_t> TotalBytes(int64_t slots, uint64_t slot_bytes);

  const std::shared_ptr<SharedMemory> memory_;
  // Private copies: the shared ones may change under us.
  const int slots_;
  const size_t slot_bytes_;
};

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_EDGE_MEMORY_H_

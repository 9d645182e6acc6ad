#ifndef STAGECOACH_TRANSPORT_RING_RING_H_
#define STAGECOACH_TRANSPORT_RING_RING_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace stagecoach::transport::ring {

// A ring of entries in memory that two processes share: one producer, one
// consumer. Each end keeps its own cursor in private memory and only publishes
// it, and checks what it reads of the other's; entries are copied out before
// anyone looks at them. So a peer that writes nonsense is found out, not
// followed. Each end is thread-compatible.

enum class RingResult {
  kDone,
  kNothing,  // push: full; pop: empty
  kCorrupt,  // the peer's cursor is impossible
};

// The shared cursors: entries ever written and ever read, mod 2^32. Zero is the
// state of a new ring.
struct RingCursors {
  alignas(64) std::atomic<uint32_t> written;
  alignas(64) std::atomic<uint32_t> read;
  // Set by a producer that found the ring full: it wants to be told of room.
  alignas(64) std::atomic<uint32_t> starved;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free,
              "the cursors are used from two processes");

template <typename Entry>
class RingProducer {
  static_assert(std::is_trivially_copyable_v<Entry>);

 public:
  // `capacity` is a power of two.
  RingProducer(RingCursors* cursors, Entry* entries, uint32_t capacity)
      : cursors_(cursors), entries_(entries), capacity_(capacity) {}

  RingResult TryPush(const Entry& entry) {
    RingResult room = HasRoom();
    if (room == RingResult::kNothing) {
      // The consumer publishes its cursor and then looks at this flag; this
      // end sets it and then looks at the cursor again.
      cursors_->starved.store(1, std::memory_order_seq_cst);
      room = HasRoom();
    }
    if (room != RingResult::kDone) return room;
    std::memcpy(&entries_[written_ % capacity_], &entry, sizeof(Entry));
    cursors_->written.store(++written_, std::memory_order_release);
    return RingResult::kDone;
  }

 private:
  RingResult HasRoom() const {
    const uint32_t used =
        written_ - cursors_->read.load(std::memory_order_seq_cst);
    if (used > capacity_) return RingResult::kCorrupt;
    return used < capacity_ ? RingResult::kDone : RingResult::kNothing;
  }

  RingCursors* const cursors_;
  Entry* const entries_;
  const uint32_t capacity_;
  uint32_t written_ = 0;
};

template <typename Entry>
class RingConsumer {
  static_assert(std::is_trivially_copyable_v<Entry>);

 public:
  RingConsumer(RingCursors* cursors, const Entry* entries, uint32_t capacity)
      : cursors_(cursors), entries_(entries), capacity_(capacity) {}

  bool HasNews() const {
    return cursors_->written.load(std::memory_order_acquire) != read_;
  }

  RingResult TryPop(Entry* entry) {
    const uint32_t waiting =
        cursors_->written.load(std::memory_order_acquire) - read_;
    if (waiting == 0) return RingResult::kNothing;
    if (waiting > capacity_) return RingResult::kCorrupt;
    std::memcpy(entry, &entries_[read_ % capacity_], sizeof(Entry));
    cursors_->read.store(++read_, std::memory_order_seq_cst);
    return RingResult::kDone;
  }

  // Whether the producer wants to be told that there is room again. Ask after
  // popping; asking takes the wish away.
  bool TakeStarved() {
    return cursors_->starved.load(std::memory_order_seq_cst) != 0 &&
           cursors_->starved.exchange(0, std::memory_order_seq_cst) != 0;
  }

 private:
  RingCursors* const cursors_;
  const Entry* const entries_;
  const uint32_t capacity_;
  uint32_t read_ = 0;
};

}  // namespace stagecoach::transport::ring

#endif  // STAGECOACH_TRANSPORT_RING_RING_H_

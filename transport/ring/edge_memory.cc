#include "transport/ring/edge_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::transport::ring {
namespace {

constexpr uint64_t kMagic = 0x31656764456f6353;  // "ScoEdge1"
constexpr uint32_t kVersion = 1;
constexpr size_t kPageBytes = 4096;

constexpr size_t kControlCursors = 64;
constexpr size_t kNoticeCursors = kControlCursors + sizeof(RingCursors);
constexpr size_t kControlRing = kNoticeCursors + sizeof(RingCursors);
static_assert(kControlRing % 64 == 0);

uint32_t PowerOfTwo(uint32_t at_least) {
  uint32_t power = 1;
  while (power < at_least) power *= 2;
  return power;
}

// One notice per granted slot is all there can be.
uint32_t NoticeCapacity(int slots) {
  return PowerOfTwo(static_cast<uint32_t>(slots));
}

// A grant per slot and acknowledgements; what does not fit waits in the
// receiver.
uint32_t ControlCapacity(int slots) {
  return std::max<uint32_t>(64, 2 * NoticeCapacity(slots));
}

size_t NoticeRing(int slots) {
  return AlignedBytes(kControlRing +
                      ControlCapacity(slots) * sizeof(ControlMessage));
}

size_t Arena(int slots) {
  const size_t end =
      NoticeRing(slots) + NoticeCapacity(slots) * sizeof(PayloadNotice);
  return (end + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

struct EdgeMemory::Header {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  uint64_t slot_bytes;
};

absl::StatusOr<size_t> EdgeMemory::TotalBytes(int64_t slots,
                                              uint64_t slot_bytes) {
  if (slots < 1 || slots > kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a pool of ", slots, " slots; it must have 1 to ", kMaxSlots));
  }
  if (slot_bytes < 1 || slot_bytes > kMaxTransferBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a slot of ", slot_bytes,
                                                   " bytes; it must have 1 to ",
                                                   kMaxTransferBytes));
  }
  return Arena(static_cast<int>(slots)) +
         static_cast<size_t>(slots) * AlignedBytes(slot_bytes);
}

EdgeMemory::EdgeMemory(std::shared_ptr<SharedMemory> memory, int slots,
                       size_t slot_bytes)
    : memory_(std::move(memory)), slots_(slots), slot_bytes_(slot_bytes) {}

absl::StatusOr<std::shared_ptr<EdgeMemory>> EdgeMemory::Create(
    int slots, size_t slot_bytes) {
  static_assert(sizeof(Header) <= kControlCursors);
  SC_ASSIGN_OR_RETURN(const size_t bytes, TotalBytes(slots, slot_bytes));
  SC_ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory,
                      SharedMemory::Create("stagecoach-edge", bytes));
  Header header{};
  header.magic = kMagic;
  header.version = kVersion;
  header.slots = static_cast<uint32_t>(slots);
  header.slot_bytes = slot_bytes;
  std::memcpy(memory->data(), &header, sizeof(header));
  return std::shared_ptr<EdgeMemory>(
      new EdgeMemory(std::move(memory), slots, slot_bytes));
}

absl::StatusOr<std::shared_ptr<EdgeMemory>> EdgeMemory::Open(UniqueFd fd) {
  // Nothing is mapped that is not as large as it says.
  SC_ASSIGN_OR_RETURN(const size_t behind, SharedMemory::BytesBehind(fd.get()));
  Header header{};
  SharedMemory::ReadFirst(fd.get(), &header, sizeof(header));
  if (header.magic != kMagic || header.version != kVersion) {
    return absl::DataLossError(
        absl::StrCat("the peer's memory holds no edge of version ", kVersion));
  }
  const absl::StatusOr<size_t> bytes =
      TotalBytes(header.slots, header.slot_bytes);
  // In huge pages there may be more than was asked for.
  if (!bytes.ok() || *bytes > behind) {
    return absl::DataLossError(absl::StrCat(
        "the peer's edge claims ", header.slots, " slots of ",
        header.slot_bytes, " bytes in ", behind, " bytes of memory"));
  }
  SC_ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory,
                      SharedMemory::FromFd(std::move(fd)));
  return std::shared_ptr<EdgeMemory>(
      new EdgeMemory(std::move(memory), static_cast<int>(header.slots),
                     static_cast<size_t>(header.slot_bytes)));
}

char* EdgeMemory::slot(uint32_t index) const {
  return memory_->data() + Arena(slots_) +
         static_cast<size_t>(index) * AlignedBytes(slot_bytes_);
}

RingProducer<ControlMessage> EdgeMemory::control_producer() const {
  return {At<RingCursors>(kControlCursors), At<ControlMessage>(kControlRing),
          ControlCapacity(slots_)};
}

RingConsumer<ControlMessage> EdgeMemory::control_consumer() const {
  return {At<RingCursors>(kControlCursors), At<ControlMessage>(kControlRing),
          ControlCapacity(slots_)};
}

RingProducer<PayloadNotice> EdgeMemory::notice_producer() const {
  return {At<RingCursors>(kNoticeCursors),
          At<PayloadNotice>(NoticeRing(slots_)), NoticeCapacity(slots_)};
}

RingConsumer<PayloadNotice> EdgeMemory::notice_consumer() const {
  return {At<RingCursors>(kNoticeCursors),
          At<PayloadNotice>(NoticeRing(slots_)), NoticeCapacity(slots_)};
}

}  // namespace stagecoach::transport::ring

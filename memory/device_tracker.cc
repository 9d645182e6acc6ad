#include "memory/device_tracker.h"

#include <algorithm>
#include <utility>

namespace stagecoach::memory {
namespace {

using Kind = DeviceEvent::Kind;

constexpr std::pair<absl::string_view, Kind> kWords[] = {
    {"alloc", Kind::kAllocate},
    {"free_requested", Kind::kFreeRequested},
    {"free_completed", Kind::kFreeCompleted},
    {"segment_alloc", Kind::kSegmentAllocate},
    {"segment_free", Kind::kSegmentFree},
    {"segment_map", Kind::kSegmentMap},
    {"segment_unmap", Kind::kSegmentUnmap},
    {"oom", Kind::kOutOfMemory},
    {"snapshot", Kind::kSnapshot},
};

}  // namespace

bool ParseDeviceEventKind(absl::string_view word, Kind* kind) {
  for (const auto& [text, value] : kWords) {
    if (text != word) continue;
    *kind = value;
    return true;
  }
  return false;
}

void DeviceTracker::OnEvent(const DeviceEvent& event, const Tag& tag) {
  MutexLock lock(&mu_);
  switch (event.kind) {
    case Kind::kAllocate:
      return Allocate(event, tag);
    case Kind::kFreeRequested:
      return RequestFree(event);
    case Kind::kFreeCompleted:
      return CompleteFree(event);
    case Kind::kSegmentAllocate:
    case Kind::kSegmentMap:
      return stats_.reserved_bytes.Add(event.bytes);
    case Kind::kSegmentFree:
    case Kind::kSegmentUnmap:
      return stats_.reserved_bytes.Subtract(event.bytes);
    case Kind::kOutOfMemory:
      ++stats_.out_of_memory;
      return;
    case Kind::kSnapshot:
      return;
  }
}

void DeviceTracker::Allocate(const DeviceEvent& event, const Tag& tag) {
  // A trace that began in the middle may have missed the end of the block that
  // was there.
  const auto earlier = blocks_.find(event.address);
  if (earlier != blocks_.end()) Forget(earlier);
  blocks_[event.address] = Block{tag, event.bytes, /*freeing=*/false};
  stats_.requested_bytes.Add(event.bytes);
  stats_.active_bytes.Add(event.bytes);
  AddToCategory(tag, event.bytes);
}

void DeviceTracker::RequestFree(const DeviceEvent& event) {
  const auto found = blocks_.find(event.address);
  if (found == blocks_.end() || found->second.freeing) {
    ++stats_.unknown_frees;
    return;
  }
  Block& block = found->second;
  block.freeing = true;
  stats_.requested_bytes.Subtract(block.bytes);
  SubtractFromCategory(block);
}

void DeviceTracker::CompleteFree(const DeviceEvent& event) {
  const auto found = blocks_.find(event.address);
  // One of which the request was not seen was counted there.
  if (found == blocks_.end() || !found->second.freeing) return;
  Forget(found);
}

void DeviceTracker::Forget(std::map<uint64_t, Block>::iterator found) {
  const Block& block = found->second;
  stats_.active_bytes.Subtract(block.bytes);
  if (!block.freeing) {
    stats_.requested_bytes.Subtract(block.bytes);
    SubtractFromCategory(block);
  }
  blocks_.erase(found);
}

void DeviceTracker::AddToCategory(const Tag& tag, int64_t bytes) {
  stats_.categories[static_cast<size_t>(tag.category)].Add(bytes);
  if (tag.category == Category::kActivation && tag.stage.value() >= 0) {
    stats_.stage_activation_bytes[tag.stage] += bytes;
  }
}

void DeviceTracker::SubtractFromCategory(const Block& block) {
  const Tag& tag = block.tag;
  stats_.categories[static_cast<size_t>(tag.category)].Subtract(block.bytes);
  if (tag.category == Category::kActivation && tag.stage.value() >= 0) {
    stats_.stage_activation_bytes[tag.stage] -= block.bytes;
  }
}

DeviceTrackerStats DeviceTracker::Stats() const {
  MutexLock lock(&mu_);
  return stats_;
}

void DeviceTracker::ResetPeaks() {
  MutexLock lock(&mu_);
  for (Gauge* gauge : {&stats_.requested_bytes, &stats_.active_bytes,
                       &stats_.reserved_bytes}) {
    gauge->peak = gauge->current;
  }
  for (Gauge& gauge : stats_.categories) gauge.peak = gauge.current;
}

void DeviceMemoryMeter::OnContext(int64_t used_before, int64_t used_after) {
  context_ = std::max<int64_t>(0, used_after - used_before);
}

void DeviceMemoryMeter::OnCommunicators(int64_t used_before, int64_t used_after,
                                        int64_t reserved_growth) {
  const int64_t grown = used_after - used_before - reserved_growth;
  communicator_ = std::max<int64_t>(0, communicator_ + grown);
}

DeviceMemory DeviceMemoryMeter::Split(int64_t used, int64_t reserved) const {
  DeviceMemory memory;
  memory.used = used;
  memory.reserved = reserved;
  memory.communicator = communicator_;
  memory.context = context_;
  return memory;
}

}  // namespace stagecoach::memory

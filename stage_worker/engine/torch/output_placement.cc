#include "stage_worker/engine/torch/output_placement.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace stagecoach::worker {
namespace {

using Memory = std::shared_ptr<void>;

void DropMemory(void* context) { delete static_cast<Memory*>(context); }

}  // namespace

OutputPlacement::Call::Call(OutputPlacement* placement,
                            std::optional<OutputSlot> slot)
    : placement_(placement), slot_(std::move(slot)) {
  outer_ = WatchAllocations(this);
  watching_ = true;
}

OutputPlacement::Call::~Call() { Stop(); }

void OutputPlacement::Call::Stop() {
  if (std::exchange(watching_, false)) WatchAllocations(outer_);
}

bool OutputPlacement::Call::ServesNext(size_t bytes) const {
  const Pattern& pattern = placement_->seen_;
  return slot_.has_value() && served_ == nullptr && placement_->confirmed_ &&
         !placement_->never_ && sizes_.size() + 1 == pattern.size() &&
         bytes == pattern.back() && bytes <= slot_->bytes &&
         std::equal(sizes_.begin(), sizes_.end(), pattern.begin());
}

bool OutputPlacement::Call::Serve(size_t bytes, c10::DataPtr* block) {
  const bool serves = ServesNext(bytes);
  sizes_.push_back(bytes);
  if (!serves) return false;
  served_ = slot_->data;
  blocks_.push_back(nullptr);
  *block = c10::DataPtr(slot_->data, new Memory(slot_->memory), &DropMemory,
                        c10::Device(c10::DeviceType::CPU));
  return true;
}

void OutputPlacement::Call::OnAllocated(const void* block) {
  blocks_.push_back(block);
}

bool OutputPlacement::Call::HasInSlot(const at::Tensor& output) const {
  return served_ != nullptr && output.storage().data() == served_ &&
         output.is_contiguous() && output.storage_offset() == 0 &&
         output.nbytes() == output.storage().nbytes() && !output.is_neg();
}

void OutputPlacement::Call::Finish(const at::Tensor& output) {
  const bool alone = output.storage().use_count() == 1;
  if (served_ != nullptr) {
    const bool in_slot = output.storage().data() == served_;
    // The pattern has changed, or what it is for: be content with copies.
    if (!in_slot || !alone) placement_->never_ = true;
    if (in_slot && !alone) MoveOut(output);
  } else if (!alone) {
    placement_->never_ = true;
  } else if (!placement_->confirmed_) {
    Learn(output);
  }
  slot_.reset();
}

void OutputPlacement::Call::Learn(const at::Tensor& output) const {
  // The last one at that place: a block may have been freed and given again.
  const void* const data = output.storage().data();
  const auto found = std::find(blocks_.rbegin(), blocks_.rend(), data);
  if (data == nullptr || found == blocks_.rend()) {
    placement_->never_ = true;
    return;
  }
  const auto count = static_cast<size_t>(blocks_.rend() - found);
  Pattern pattern(sizes_.begin(),
                  sizes_.begin() + static_cast<std::ptrdiff_t>(count));
  placement_->confirmed_ = pattern == placement_->seen_;
  placement_->seen_ = std::move(pattern);
}

void OutputPlacement::Call::MoveOut(const at::Tensor& output) {
  const c10::Storage& storage = output.storage();
  c10::DataPtr block = c10::GetCPUAllocator()->allocate(storage.nbytes());
  std::memcpy(block.get(), storage.data(), storage.nbytes());
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(block));
}

}  // namespace stagecoach::worker

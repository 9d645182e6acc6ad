#include "stage_worker/copies/state_vault.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "base/status.h"
#include "memory/category.h"

namespace stagecoach::worker {
namespace {

absl::Status DoesNotFit(StageIndex stage, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "a piece of the copy of stage ", stage.value(), " does not fit: ", why));
}

}  // namespace

std::shared_ptr<void> AllocateCopy(memory::AccountingAllocator* allocator,
                                   int64_t bytes) {
  memory::Tag tag;
  tag.category = memory::Category::kOther;
  const memory::ScopedTag scope(tag);
  // A stage without parameters has a copy, too.
  void* block = allocator->Allocate(static_cast<size_t>(bytes > 0 ? bytes : 1));
  if (block == nullptr) return nullptr;
  return {block, [allocator](void* freed) { allocator->Free(freed); }};
}

void StateVault::Begin(const std::string& job_id, Epoch epoch, bool keep) {
  States dropped;
  std::map<StageIndex, Partial> partial;
  MutexLock lock(&mu_);
  if (!keep || job_id != job_id_) dropped.swap(states_);
  partial.swap(partial_);
  job_id_ = job_id;
  epoch_ = epoch;
}

void StateVault::Drop(const std::string& job_id) {
  if (this->job_id() == job_id) DropAll();
}

void StateVault::DropAll() {
  States dropped;
  std::map<StageIndex, Partial> partial;
  MutexLock lock(&mu_);
  dropped.swap(states_);
  partial.swap(partial_);
  job_id_.clear();
  epoch_ = Epoch();
}

void StateVault::DropBefore(int64_t step) {
  std::vector<std::shared_ptr<const StageState>> dropped;
  MutexLock lock(&mu_);
  for (auto it = states_.begin(); it != states_.end();) {
    if (it->first.second >= step) {
      ++it;
      continue;
    }
    dropped.push_back(std::move(it->second));
    it = states_.erase(it);
  }
}

void StateVault::Put(int64_t step, StageState state) {
  const Key key(state.stage.stage, step);
  auto kept = std::make_shared<const StageState>(std::move(state));
  MutexLock lock(&mu_);
  // What was there before has the same bits; it goes after the lock.
  states_[key].swap(kept);
}

std::shared_ptr<const StageState> StateVault::Find(const std::string& job_id,
                                                   StageIndex stage,
                                                   int64_t step) const {
  MutexLock lock(&mu_);
  if (job_id != job_id_) return nullptr;
  auto it = states_.find(Key(stage, step));
  return it == states_.end() ? nullptr : it->second;
}

std::vector<StateVault::Name> StateVault::List(
    const std::string& job_id) const {
  std::vector<Name> names;
  MutexLock lock(&mu_);
  if (job_id != job_id_) return names;
  for (const auto& [key, state] : states_) {
    names.push_back({key.first, key.second});
  }
  return names;
}

std::string StateVault::job_id() const {
  MutexLock lock(&mu_);
  return job_id_;
}

int64_t StateVault::bytes() const {
  int64_t sum = 0;
  MutexLock lock(&mu_);
  for (const auto& [key, state] : states_) sum += LayoutOf(*state).bytes();
  return sum;
}

int64_t StateVault::refused() const {
  MutexLock lock(&mu_);
  return refused_;
}

absl::Status StateVault::StartReceiving(Name name, const StateLayout* layout) {
  if (layout == nullptr) return DoesNotFit(name.stage, "no layout came first");
  SC_RETURN_IF_ERROR(layout->Validate());
  Partial partial;
  partial.step = name.step;
  partial.layout = *layout;
  partial.block = AllocateCopy(allocator_, layout->bytes());
  if (partial.block == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for the neighbour's copy of stage ", name.stage.value(), ", ",
        FormatByteSize(layout->bytes()),
        "; set recovery.neighbour_copy = false, or raise memory.limit"));
  }
  partial_[name.stage] = std::move(partial);
  return absl::OkStatus();
}

absl::Status StateVault::Receive(const std::string& job_id, Epoch epoch,
                                 Name name, const StateLayout* layout,
                                 int64_t offset, absl::string_view data) {
  const auto size = static_cast<int64_t>(data.size());
  std::shared_ptr<const StageState> replaced;
  MutexLock lock(&mu_);
  if (job_id != job_id_ || epoch != epoch_) {
    ++refused_;
    return absl::FailedPreconditionError(absl::StrCat(
        "a copy of ", job_id, ", epoch ", epoch.value(), "; here is epoch ",
        epoch_.value(), " of ", job_id_.empty() ? "no job" : job_id_));
  }
  const Key key(name.stage, name.step);
  auto it = partial_.find(name.stage);
  const bool under_way = it != partial_.end() && it->second.step == name.step;
  if (!under_way && layout == nullptr && states_.count(key) > 0) {
    return absl::OkStatus();  // a piece of a copy that is whole
  }
  if (!under_way || (offset == 0 && layout != nullptr)) {
    SC_RETURN_IF_ERROR(StartReceiving(name, layout));
    it = partial_.find(name.stage);
  }
  Partial& partial = it->second;
  const int64_t total = partial.layout.bytes();
  if (offset < 0 || offset > partial.received || size > total - offset) {
    return DoesNotFit(
        name.stage,
        absl::StrCat("bytes ", offset, " to ", offset, " + ", size, ", of ",
                     total, " are ", partial.received, " here"));
  }
  if (size > 0) {
    std::memcpy(static_cast<char*>(partial.block.get()) + offset, data.data(),
                data.size());
  }
  partial.received = std::max(partial.received, offset + size);
  if (partial.received < total) return absl::OkStatus();
  replaced = std::make_shared<const StageState>(
      StateOf(name.stage, partial.layout, partial.block));
  states_[key].swap(replaced);
  partial_.erase(it);
  return absl::OkStatus();
}

}  // namespace stagecoach::worker

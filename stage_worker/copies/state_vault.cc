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
  std::map<StageIndex, Incoming> incoming;
  MutexLock lock(&mu_);
  if (!keep || job_id != job_id_) dropped.swap(states_);
  incoming.swap(incoming_);
  newest_.clear();
  job_id_ = job_id;
  epoch_ = epoch;
}

void StateVault::Drop(const std::string& job_id) {
  if (this->job_id() == job_id) DropAll();
}

void StateVault::DropAll() {
  States dropped;
  std::map<StageIndex, Incoming> incoming;
  MutexLock lock(&mu_);
  dropped.swap(states_);
  incoming.swap(incoming_);
  newest_.clear();
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
  // A peer that copies step s has seen step s - 1 committed: its older versions
  // need not wait until this worker sees that, too. Two are kept, never three.
  newest_[name.stage] = name.step;
  incoming_.erase(name.stage);
  states_.erase(states_.lower_bound(Key(name.stage, 0)),
                states_.lower_bound(Key(name.stage, name.step - 1)));
  Incoming incoming;
  incoming.step = name.step;
  incoming.layout = *layout;
  incoming.block = AllocateCopy(allocator_, layout->bytes());
  if (incoming.block == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for the neighbour's copy of stage ", name.stage.value(), ", ",
        FormatByteSize(layout->bytes()),
        "; set recovery.neighbour_copy = false, or raise memory.limit"));
  }
  incoming_[name.stage] = std::move(incoming);
  return absl::OkStatus();
}

bool StateVault::NeedsPiece(Name name) const {
  if (states_.count(Key(name.stage, name.step)) > 0) return false;
  const auto it = newest_.find(name.stage);
  return it == newest_.end() || it->second <= name.step;
}

absl::Status StateVault::Receive(const std::string& job_id, Epoch epoch,
                                 Name name, const StateLayout* layout,
                                 int64_t offset, absl::string_view data) {
  const auto size = static_cast<int64_t>(data.size());
  MutexLock lock(&mu_);
  if (job_id != job_id_ || epoch != epoch_) {
    ++refused_;
    return absl::FailedPreconditionError(absl::StrCat(
        "a copy of ", job_id, ", epoch ", epoch.value(), "; here is epoch ",
        epoch_.value(), " of ", job_id_.empty() ? "no job" : job_id_));
  }
  if (!NeedsPiece(name)) return absl::OkStatus();
  auto it = incoming_.find(name.stage);
  if (it == incoming_.end() || it->second.step != name.step ||
      (offset == 0 && layout != nullptr)) {
    SC_RETURN_IF_ERROR(StartReceiving(name, layout));
    it = incoming_.find(name.stage);
  }
  Incoming& incoming = it->second;
  const int64_t total = incoming.layout.bytes();
  if (offset < 0 || offset > incoming.received || size > total - offset) {
    return DoesNotFit(
        name.stage,
        absl::StrCat("bytes ", offset, " to ", offset, " + ", size, ", of ",
                     total, " are ", incoming.received, " here"));
  }
  if (size > 0) {
    std::memcpy(static_cast<char*>(incoming.block.get()) + offset, data.data(),
                data.size());
  }
  incoming.received = std::max(incoming.received, offset + size);
  if (incoming.received < total) return absl::OkStatus();
  states_[Key(name.stage, name.step)] = std::make_shared<const StageState>(
      StateOf(name.stage, incoming.layout, incoming.block));
  incoming_.erase(it);
  return absl::OkStatus();
}

}  // namespace stagecoach::worker

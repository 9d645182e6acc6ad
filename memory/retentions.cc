#include "memory/retentions.h"

namespace stagecoach::memory {

void Retentions::Add(const TransferKey& key, const Ledger::Output& output,
                     bool named) {
  Forget(key.step);
  records_.push_back({key, output.bytes, output.storage, output.watch, named,
                      /*taken=*/false});
}

int64_t Retentions::LiveBytes() const {
  int64_t bytes = 0;
  for (const Record& record : records_) {
    if (!record.watch->freed()) bytes += record.bytes;
  }
  return bytes;
}

std::vector<UnnamedRetention> Retentions::TakeUnnamed() {
  std::vector<UnnamedRetention> unnamed;
  for (Record& record : records_) {
    if (record.named || record.taken) continue;
    record.taken = true;
    unnamed.push_back({record.key, record.bytes,
                       record.watch->freed() ? nullptr : record.storage});
  }
  return unnamed;
}

int64_t Retentions::Name(const TransferKey& key, const void* storage) {
  int64_t bytes = 0;
  for (Record& record : records_) {
    if (record.named || !(record.key == key)) continue;
    if (storage != nullptr && record.storage != storage) continue;
    record.named = true;
    bytes += record.bytes;
  }
  return bytes;
}

void Retentions::Forget(StepIndex now) {
  records_.remove_if([now](const Record& record) {
    return record.watch->freed() &&
           (record.named || record.key.step.Next() < now);
  });
}

}  // namespace stagecoach::memory

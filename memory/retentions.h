#ifndef STAGECOACH_MEMORY_RETENTIONS_H_
#define STAGECOACH_MEMORY_RETENTIONS_H_

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "memory/accounting_allocator.h"
#include "memory/ledger.h"
#include "memory/transfer_key.h"

namespace stagecoach::memory {

// The outputs that were dropped and did not go: those that still exist, and
// those whose holder may still get a name. Part of the ledger.
// Thread-compatible.
class Retentions {
 public:
  // `named`: nobody needs to be asked who keeps it.
  void Add(const TransferKey& key, const Ledger::Output& output, bool named);
  // Bytes that are still allocated.
  int64_t LiveBytes() const;
  std::vector<UnnamedRetention> TakeUnnamed();
  // Marks the unnamed retentions of `key` as named and returns their bytes;
  // with `storage` not null only those of that storage.
  int64_t Name(const TransferKey& key, const void* storage);

 private:
  struct Record {
    TransferKey key;
    int64_t bytes;
    const void* storage;
    std::shared_ptr<const BlockWatch> watch;
    bool named;
    bool taken;
  };

  // What is freed is forgotten once named, and unnamed two steps later: by
  // then nobody can find out.
  void Forget(StepIndex now);

  std::list<Record> records_;
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_RETENTIONS_H_

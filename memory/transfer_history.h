#ifndef STAGECOACH_MEMORY_TRANSFER_HISTORY_H_
#define STAGECOACH_MEMORY_TRANSFER_HISTORY_H_

#include <cstdint>
#include <map>

#include "memory/transfer_key.h"

namespace stagecoach::memory {

// A set of transfers of one epoch that never forgets: it tells a duplicate from
// an unknown key however late it comes. It stays small over a long job because
// every step repeats the same transfers: for each of them it keeps intervals of
// steps, usually one. Thread-compatible.
class TransferHistory {
 public:
  // Inserting twice is the same as once. The key's epoch is not looked at.
  void Insert(const TransferKey& key);
  bool Contains(const TransferKey& key) const;

  // What the memory it takes is proportional to.
  int64_t intervals() const;

 private:
  // First step of an interval -> one past its last.
  using Intervals = std::map<int64_t, int64_t>;

  // By the transfer without epoch and step.
  std::map<TransferKey, Intervals> steps_;
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_TRANSFER_HISTORY_H_

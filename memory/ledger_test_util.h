#ifndef STAGECOACH_MEMORY_LEDGER_TEST_UTIL_H_
#define STAGECOACH_MEMORY_LEDGER_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/direction.h"
#include "base/ids.h"
#include "gtest/gtest.h"
#include "memory/accounting_allocator.h"
#include "memory/ledger.h"
#include "memory/transfer_key.h"

namespace stagecoach::memory {

inline constexpr Epoch kTestEpoch{3};
inline constexpr ReleaseRule kAllRules[] = {
    ReleaseRule::kAcknowledged, ReleaseRule::kSent, ReleaseRule::kNever};

// Names the instances of a suite that runs under every rule.
std::string RuleTestName(const ::testing::TestParamInfo<ReleaseRule>& test);

TransferKey ActivationKey(int stage, int microbatch, int64_t step = 0);
TransferKey GradientKey(int stage, int microbatch, int64_t step = 0);

// An output whose payload is a block of `allocator`, which must outlive it.
// `before_free` runs when the payload dies, while its bytes are still there.
Ledger::Output MakeOutput(AccountingAllocator* allocator, int64_t bytes,
                          std::function<void()> before_free = nullptr);

// sent = released + retained + discarded + pending, retained is the sum of its
// ops, and the stages' held bytes are those of the ledger.
::testing::AssertionResult IdentityHolds(const LedgerStats& stats);

// A ledger of kTestEpoch with its own allocator and a clock that stands still.
class LedgerBed {
 public:
  explicit LedgerBed(ReleaseRule rule = ReleaseRule::kAcknowledged);

  // Produced with one output of `bytes`, for peer "w1".
  void Produce(const TransferKey& key, int64_t bytes = 100,
               std::function<void()> before_free = nullptr);
  // Produced and started.
  void Send(const TransferKey& key, int64_t bytes = 100,
            std::function<void()> before_free = nullptr);
  // As Send, with a second owner of the payload: the one that autograd would
  // be.
  std::shared_ptr<void> SendAndKeep(const TransferKey& key,
                                    int64_t bytes = 100);

  // Of the ledger's epoch; zeros for a stage that it does not know.
  StageLedgerStats Stage(int stage) const;
  int64_t allocated_bytes() const {
    return allocator.Stats().allocated_bytes.current;
  }

  SimulatedClock clock;
  AccountingAllocator allocator;  // outlives the payloads
  Ledger ledger;
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_LEDGER_TEST_UTIL_H_

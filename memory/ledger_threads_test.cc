#include <algorithm>
#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "memory/ledger.h"
#include "memory/ledger_test_util.h"

namespace stagecoach::memory {
namespace {

constexpr int kTransfers = 400;
constexpr int64_t kBytes = 100;

std::vector<TransferKey> Shuffled(int seed) {
  std::vector<TransferKey> keys;
  for (int i = 0; i < kTransfers; ++i) {
    keys.push_back(ActivationKey(i % 3, i / 3));
  }
  std::shuffle(keys.begin(), keys.end(), std::mt19937(seed));
  return keys;
}

void RunAll(const std::vector<std::function<void()>>& work) {
  std::vector<std::thread> threads;
  for (const auto& one : work) threads.emplace_back(one);
  for (std::thread& thread : threads) thread.join();
}

class LedgerThreadsTest : public ::testing::TestWithParam<ReleaseRule> {
 protected:
  void SendAll() {
    for (const TransferKey& key : Shuffled(0)) {
      bed_.Send(key, kBytes, [this] { ++dropped_; });
    }
  }
  std::function<void()> AcknowledgeAll(int seed) {
    return [this, seed] {
      for (const TransferKey& key : Shuffled(seed)) {
        bed_.ledger.Acknowledge(key);
      }
    };
  }
  std::function<void()> CompleteAll(int seed) {
    return [this, seed] {
      for (const TransferKey& key : Shuffled(seed)) {
        bed_.ledger.CompleteLocally(key);
      }
    };
  }
  std::function<void()> BackwardAll(int seed) {
    return [this, seed] {
      for (const TransferKey& key : Shuffled(seed)) {
        bed_.ledger.BackwardDone(key.step, key.stage, key.microbatch);
      }
    };
  }
  std::function<void()> Watch() {
    return [this] {
      for (int i = 0; i < kTransfers; ++i) {
        if (!IdentityHolds(bed_.ledger.Stats())) ++broken_;
      }
    };
  }

  struct Totals {
    int64_t sent = 0, ended = 0, discarded = 0, pending = 0, held = 0;
  };
  Totals Sum() const {
    Totals totals;
    for (const auto& [index, stage] : bed_.ledger.Stats().stages) {
      totals.sent += stage.sent_bytes;
      totals.ended += stage.released_bytes + stage.retained_bytes;
      totals.discarded += stage.discarded_bytes;
      totals.pending += stage.pending_bytes;
      totals.held += stage.held_bytes;
    }
    return totals;
  }

  std::atomic<int> dropped_{0};
  std::atomic<int> broken_{0};
  LedgerBed bed_{GetParam()};
};

TEST_P(LedgerThreadsTest, RacingCompletionsAndAcknowledgementsReleaseOnce) {
  SendAll();
  RunAll({AcknowledgeAll(1), AcknowledgeAll(2), CompleteAll(3), CompleteAll(4),
          BackwardAll(5), Watch()});
  EXPECT_EQ(broken_, 0);
  EXPECT_EQ(dropped_, kTransfers);
  EXPECT_EQ(bed_.allocated_bytes(), 0);
  EXPECT_TRUE(bed_.ledger.Empty());
  EXPECT_EQ(Sum().sent, kTransfers * kBytes);
  EXPECT_EQ(Sum().ended, kTransfers * kBytes);
  EXPECT_EQ(Sum().pending, 0);
  EXPECT_EQ(Sum().held, 0);
  const AckCounters counters = bed_.ledger.Stats().acknowledgements;
  EXPECT_EQ(counters.accepted, kTransfers);
  EXPECT_EQ(counters.duplicate, kTransfers);
}

TEST_P(LedgerThreadsTest, DiscardRacingReleasesLosesNothing) {
  SendAll();
  RunAll({AcknowledgeAll(1), CompleteAll(2), BackwardAll(3),
          [this] { bed_.ledger.DiscardAll(); }, Watch()});
  EXPECT_EQ(broken_, 0);
  EXPECT_EQ(dropped_, kTransfers);
  EXPECT_EQ(bed_.allocated_bytes(), 0);
  EXPECT_TRUE(bed_.ledger.Empty());
  EXPECT_EQ(Sum().ended + Sum().discarded, kTransfers * kBytes);
  EXPECT_EQ(Sum().pending, 0);
  EXPECT_EQ(bed_.ledger.Stats().pending_transfers, 0);
}

INSTANTIATE_TEST_SUITE_P(Rules, LedgerThreadsTest,
                         ::testing::ValuesIn(kAllRules), RuleTestName);

}  // namespace
}  // namespace stagecoach::memory

// Random calls against a model that remembers every transfer and derives each
// figure anew.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/property_cases.h"
#include "gtest/gtest.h"
#include "memory/ledger.h"
#include "memory/ledger_test_util.h"

namespace stagecoach::memory {
namespace {

constexpr int kCalls = 120;

enum class End { kNone, kReleased, kRetained, kPolicy, kDiscarded };

struct Transfer {
  int64_t bytes = 0;
  absl::Time sent_at;
  bool started = false, complete = false, acknowledged = false;
  bool backward = false, discarded = false;
  End end = End::kNone;
  bool kept = false;  // somebody else has the payload
  bool freed() const { return end != End::kNone && !kept; }
};

class Model {
 public:
  explicit Model(ReleaseRule rule) : rule_(rule) {}

  bool Produce(const TransferKey& key, int64_t bytes, bool kept) {
    if (key.epoch != kTestEpoch || transfers_.count(key) > 0) return false;
    transfers_[key].bytes = bytes;
    transfers_[key].kept = kept;
    int64_t all = 0;
    std::map<StageIndex, int64_t> stages;
    for (const auto& [k, t] : transfers_) {
      if (!Holds(k, t)) continue;
      all += t.bytes;
      stages[k.stage] += t.bytes;
    }
    peak_ = std::max(peak_, all);
    for (const auto& [stage, held] : stages) {
      stage_peaks_[stage] = std::max(stage_peaks_[stage], held);
    }
    return true;
  }

  bool Start(const TransferKey& key, absl::Time now) {
    const auto it = transfers_.find(key);
    if (it == transfers_.end()) return false;
    Transfer& transfer = it->second;
    if (transfer.started || transfer.discarded) return false;
    transfer.started = true;
    transfer.sent_at = now;
    return true;
  }

  void Complete(const TransferKey& key) {
    const auto it = transfers_.find(key);
    if (it == transfers_.end() || !it->second.started) return;
    it->second.complete = true;
    EndWhatMayEnd();
  }

  AckOutcome Acknowledge(const TransferKey& key) {
    if (key.epoch < kTestEpoch) {
      ++counters_.stale_epoch;
      return AckOutcome::kStaleEpoch;
    }
    const auto it = transfers_.find(key);
    if (it != transfers_.end() && it->second.acknowledged) {
      ++counters_.duplicate;
      return AckOutcome::kDuplicate;
    }
    if (it != transfers_.end() && it->second.discarded) {
      ++counters_.stale_epoch;
      return AckOutcome::kStaleEpoch;
    }
    if (it == transfers_.end() || !it->second.started) {
      ++counters_.unknown;
      return AckOutcome::kUnknown;
    }
    ++counters_.accepted;
    it->second.acknowledged = true;
    EndWhatMayEnd();
    return AckOutcome::kAccepted;
  }

  void Backward(const TransferKey& like) {
    for (auto& [key, transfer] : transfers_) {
      if (key.step == like.step && key.stage == like.stage &&
          key.microbatch == like.microbatch) {
        transfer.backward = true;
      }
    }
    EndWhatMayEnd();
  }

  void DiscardAll() {
    for (auto& [key, transfer] : transfers_) {
      if (transfer.end == End::kNone) transfer.end = End::kDiscarded;
      transfer.discarded = true;
    }
  }

  void LetGo(const TransferKey& key) { transfers_.at(key).kept = false; }

  void ExpectEqual(const Ledger& ledger, int64_t allocated_bytes,
                   absl::Time now) const {
    const LedgerStats stats = ledger.Stats();
    ASSERT_TRUE(IdentityHolds(stats));
    ExpectStages(stats);
    ExpectTotals(stats, now);
    ExpectWaiting(ledger, allocated_bytes);
  }

  std::vector<TransferKey> Keys() const {
    std::vector<TransferKey> keys;
    for (const auto& [key, transfer] : transfers_) keys.push_back(key);
    return keys;
  }

 private:
  static bool IsActivation(const TransferKey& key) {
    return key.direction == Direction::kActivation;
  }
  static bool Holds(const TransferKey& key, const Transfer& transfer) {
    return IsActivation(key) && transfer.end == End::kNone;
  }
  static bool Awaits(const Transfer& transfer) {
    return transfer.started && !transfer.acknowledged && !transfer.discarded;
  }

  void EndWhatMayEnd() {
    for (auto& [key, t] : transfers_) {
      if (t.end != End::kNone || !t.started || !t.complete) continue;
      const bool sent = IsActivation(key) && rule_ == ReleaseRule::kSent;
      const bool never = IsActivation(key) && rule_ == ReleaseRule::kNever;
      if (!sent && !t.acknowledged) continue;
      if (never && !t.backward) continue;
      t.end = never ? End::kPolicy : t.kept ? End::kRetained : End::kReleased;
    }
  }

  void ExpectStages(const LedgerStats& stats) const {
    std::map<StageIndex, StageLedgerStats> expected;
    for (const auto& [key, t] : transfers_) {
      if (!IsActivation(key)) continue;
      StageLedgerStats& stage = expected[key.stage];
      if (t.end == End::kNone) stage.held_bytes += t.bytes;
      if (!t.started) continue;
      stage.sent_bytes += t.bytes;
      if (t.end == End::kReleased) stage.released_bytes += t.bytes;
      if (t.end == End::kRetained) stage.retained_bytes += t.bytes;
      if (t.end == End::kPolicy) stage.retained_bytes += t.bytes;
      if (t.end == End::kDiscarded) stage.discarded_bytes += t.bytes;
      if (t.end == End::kNone) stage.pending_bytes += t.bytes;
    }
    ASSERT_EQ(stats.stages.size(), expected.size());
    for (const auto& [index, stage] : expected) {
      const StageLedgerStats& actual = stats.stages.at(index);
      EXPECT_EQ(actual.sent_bytes, stage.sent_bytes);
      EXPECT_EQ(actual.released_bytes, stage.released_bytes);
      EXPECT_EQ(actual.retained_bytes, stage.retained_bytes);
      EXPECT_EQ(actual.discarded_bytes, stage.discarded_bytes);
      EXPECT_EQ(actual.pending_bytes, stage.pending_bytes);
      EXPECT_EQ(actual.held_bytes, stage.held_bytes);
      EXPECT_EQ(actual.held_peak_bytes, stage_peaks_.at(index));
    }
  }

  void ExpectTotals(const LedgerStats& stats, absl::Time now) const {
    int64_t transfers = 0, bytes = 0, retained = 0;
    absl::Duration oldest;
    for (const auto& [key, t] : transfers_) {
      const bool dropped = t.end != End::kNone && t.end != End::kDiscarded;
      if (dropped && t.kept) retained += t.bytes;
      if (!Awaits(t)) continue;
      ++transfers;
      bytes += t.bytes;
      oldest = std::max(oldest, now - t.sent_at);
    }
    EXPECT_EQ(stats.pending_transfers, transfers);
    EXPECT_EQ(stats.pending_bytes, bytes);
    EXPECT_EQ(stats.oldest_pending, oldest);
    EXPECT_EQ(stats.retained_now_bytes, retained);
    EXPECT_EQ(stats.held_peak_bytes, peak_);
    EXPECT_EQ(stats.acknowledgements.accepted, counters_.accepted);
    EXPECT_EQ(stats.acknowledgements.duplicate, counters_.duplicate);
    EXPECT_EQ(stats.acknowledgements.stale_epoch, counters_.stale_epoch);
    EXPECT_EQ(stats.acknowledgements.unknown, counters_.unknown);
  }

  void ExpectWaiting(const Ledger& ledger, int64_t allocated_bytes) const {
    int64_t bytes = 0;
    bool empty = true;
    size_t held = 0;
    int activations = 0;
    for (const auto& [key, t] : transfers_) {
      if (!t.freed()) bytes += t.bytes;
      if (t.discarded) continue;
      if (!t.acknowledged) ++held;
      if (!t.acknowledged || !t.complete) empty = false;
      const bool over = t.acknowledged && t.complete;
      if (t.started && !over && IsActivation(key)) ++activations;
    }
    EXPECT_EQ(allocated_bytes, bytes);
    EXPECT_EQ(ledger.Empty(), empty);
    EXPECT_EQ(ledger.Held().size(), held);
    EXPECT_EQ(ledger.InBudget("w1", Direction::kActivation), activations);
  }

  const ReleaseRule rule_;
  std::map<TransferKey, Transfer> transfers_;
  std::map<StageIndex, int64_t> stage_peaks_;
  int64_t peak_ = 0;
  AckCounters counters_;
};

class RandomCalls {
 public:
  RandomCalls(int seed, ReleaseRule rule)
      : random_(seed), bed_(rule), model_(rule) {}

  void Run() {
    for (int i = 0; i < kCalls; ++i) {
      One();
      model_.ExpectEqual(bed_.ledger, bed_.allocated_bytes(), bed_.clock.Now());
      if (::testing::Test::HasFailure()) {
        FAIL() << "after call " << i << ": " << last_;
      }
    }
    EXPECT_EQ(broken_while_dropping_, 0);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % n); }

  // Mostly one that was produced, so that calls meet.
  TransferKey AnyKey() {
    const std::vector<TransferKey> keys = model_.Keys();
    TransferKey key;
    if (!keys.empty() && Below(10) < 8) {
      key = keys[Below(static_cast<int>(keys.size()))];
    } else {
      key = ActivationKey(Below(2), Below(4), Below(4));
      key.replica = Below(2);
      key.direction = static_cast<Direction>(Below(2));
    }
    const int lot = Below(30);
    if (lot == 0) key.epoch = Epoch(kTestEpoch.value() - 1);
    if (lot == 1) key.epoch = Epoch(kTestEpoch.value() + 1);
    return key;
  }

  TransferKey NewKey() {
    TransferKey key = ActivationKey(Below(3), Below(6), Below(6));
    key.replica = Below(2);
    key.direction =
        Below(3) == 0 ? Direction::kGradient : Direction::kActivation;
    return key;
  }

  void Produce(const TransferKey& key) {
    Ledger::Output output =
        MakeOutput(&bed_.allocator, 1 + Below(1000), [this] {
          if (!IdentityHolds(bed_.ledger.Stats())) ++broken_while_dropping_;
        });
    const int64_t bytes = output.bytes;
    std::shared_ptr<void> keeper;
    if (Below(6) == 0) keeper = output.payload;
    const bool ok = bed_.ledger.Produce(key, {std::move(output)}, "w1").ok();
    EXPECT_EQ(ok, model_.Produce(key, bytes, keeper != nullptr));
    if (ok && keeper != nullptr) keepers_[key] = std::move(keeper);
  }

  void LetGo() {
    if (keepers_.empty()) return;
    model_.LetGo(keepers_.begin()->first);
    keepers_.erase(keepers_.begin());
  }

  void One() {
    const int lot = Below(100);
    const TransferKey key = lot < 25 && Below(8) > 0 ? NewKey() : AnyKey();
    last_ = absl::StrCat("lot ", lot, ", ", ToString(key));
    if (lot < 25) {
      Produce(key);
    } else if (lot < 45) {
      const bool ok = bed_.ledger.StartSending(key).ok();
      EXPECT_EQ(ok, model_.Start(key, bed_.clock.Now()));
    } else if (lot < 62) {
      bed_.ledger.CompleteLocally(key);
      model_.Complete(key);
    } else if (lot < 82) {
      EXPECT_EQ(bed_.ledger.Acknowledge(key), model_.Acknowledge(key));
    } else if (lot < 92) {
      bed_.ledger.BackwardDone(key.step, key.stage, key.microbatch);
      model_.Backward(key);
    } else if (lot < 96) {
      LetGo();
    } else if (lot < 99) {
      bed_.clock.Advance(absl::Milliseconds(1 + Below(1000)));
    } else {
      bed_.ledger.DiscardAll();
      model_.DiscardAll();
    }
  }

  std::mt19937 random_;
  int broken_while_dropping_ = 0;
  LedgerBed bed_;
  std::map<TransferKey, std::shared_ptr<void>> keepers_;
  Model model_;
  std::string last_;
};

class LedgerPropertyTest : public ::testing::TestWithParam<ReleaseRule> {};

TEST_P(LedgerPropertyTest, AgreesWithTheModelAfterEveryCall) {
  const int cases = PropertyCases(500);
  for (int seed = 0; seed < cases && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomCalls(seed, GetParam()).Run();
  }
  PrintCases(absl::StrCat("sequences of ", kCalls, " calls"), cases, 0);
}

INSTANTIATE_TEST_SUITE_P(Rules, LedgerPropertyTest,
                         ::testing::ValuesIn(kAllRules), RuleTestName);

}  // namespace
}  // namespace stagecoach::memory

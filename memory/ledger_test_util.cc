#include "memory/ledger_test_util.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"

namespace stagecoach::memory {
namespace {

class BlockPayload {
 public:
  BlockPayload(AccountingAllocator* allocator, int64_t bytes,
               std::function<void()> before_free)
      : allocator_(allocator),
        block_(allocator->Allocate(static_cast<size_t>(bytes))),
        before_free_(std::move(before_free)) {}
  ~BlockPayload() {
    if (before_free_) before_free_();
    allocator_->Free(block_);
  }
  void* block() const { return block_; }

 private:
  AccountingAllocator* const allocator_;
  void* const block_;
  const std::function<void()> before_free_;
};

TransferKey Key(Direction direction, int stage, int microbatch, int64_t step) {
  TransferKey key;
  key.epoch = kTestEpoch;
  key.step = StepIndex(step);
  key.microbatch = MicrobatchIndex(microbatch);
  key.stage = StageIndex(stage);
  key.direction = direction;
  return key;
}

}  // namespace

std::string RuleTestName(const ::testing::TestParamInfo<ReleaseRule>& test) {
  switch (test.param) {
    case ReleaseRule::kAcknowledged:
      return "Acknowledged";
    case ReleaseRule::kSent:
      return "Sent";
    case ReleaseRule::kNever:
      return "Never";
  }
  return "Unknown";
}

TransferKey ActivationKey(int stage, int microbatch, int64_t step) {
  return Key(Direction::kActivation, stage, microbatch, step);
}

TransferKey GradientKey(int stage, int microbatch, int64_t step) {
  return Key(Direction::kGradient, stage, microbatch, step);
}

Ledger::Output MakeOutput(AccountingAllocator* allocator, int64_t bytes,
                          std::function<void()> before_free) {
  auto payload =
      std::make_shared<BlockPayload>(allocator, bytes, std::move(before_free));
  Ledger::Output output;
  output.watch = allocator->Watch(payload->block());
  output.storage = payload->block();
  output.bytes = bytes;
  output.payload = std::move(payload);
  return output;
}

::testing::AssertionResult IdentityHolds(const LedgerStats& stats) {
  int64_t held = 0;
  for (const auto& [index, stage] : stats.stages) {
    const int64_t accounted = stage.released_bytes + stage.retained_bytes +
                              stage.discarded_bytes + stage.pending_bytes;
    if (stage.sent_bytes != accounted) {
      return ::testing::AssertionFailure()
             << "stage " << index << ": sent " << stage.sent_bytes
             << ", released " << stage.released_bytes << ", retained "
             << stage.retained_bytes << ", discarded " << stage.discarded_bytes
             << ", pending " << stage.pending_bytes;
    }
    int64_t by_op = 0;
    for (const RetainedBy& retained : stage.retained_by) {
      by_op += retained.bytes;
    }
    if (by_op != stage.retained_bytes) {
      return ::testing::AssertionFailure()
             << "stage " << index << ": ops retain " << by_op << " of "
             << stage.retained_bytes;
    }
    held += stage.held_bytes;
  }
  if (held != stats.held_bytes) {
    return ::testing::AssertionFailure()
           << "stages hold " << held << " of " << stats.held_bytes;
  }
  return ::testing::AssertionSuccess();
}

LedgerBed::LedgerBed(ReleaseRule rule)
    : ledger([this, rule] {
        Ledger::Options options;
        options.rule = rule;
        options.epoch = kTestEpoch;
        options.clock = &clock;
        return options;
      }()) {}

void LedgerBed::Produce(const TransferKey& key, int64_t bytes,
                        std::function<void()> before_free) {
  const absl::Status status = ledger.Produce(
      key, {MakeOutput(&allocator, bytes, std::move(before_free))}, "w1");
  ASSERT_TRUE(status.ok()) << status;
}

void LedgerBed::Send(const TransferKey& key, int64_t bytes,
                     std::function<void()> before_free) {
  Produce(key, bytes, std::move(before_free));
  const absl::Status status = ledger.StartSending(key);
  ASSERT_TRUE(status.ok()) << status;
}

std::shared_ptr<void> LedgerBed::SendAndKeep(const TransferKey& key,
                                             int64_t bytes) {
  Ledger::Output output = MakeOutput(&allocator, bytes);
  std::shared_ptr<void> keeper = output.payload;
  EXPECT_TRUE(ledger.Produce(key, {std::move(output)}, "w1").ok());
  EXPECT_TRUE(ledger.StartSending(key).ok());
  return keeper;
}

StageLedgerStats LedgerBed::Stage(int stage) const {
  const LedgerStats stats = ledger.Stats();
  EXPECT_TRUE(IdentityHolds(stats));
  const auto it = stats.stages.find(StageIndex(stage));
  return it != stats.stages.end() ? it->second : StageLedgerStats();
}

}  // namespace stagecoach::memory

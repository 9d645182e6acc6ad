#ifndef STAGECOACH_MEMORY_LEDGER_H_
#define STAGECOACH_MEMORY_LEDGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/direction.h"
#include "base/ids.h"
#include "memory/accounting_allocator.h"
#include "memory/transfer_key.h"

namespace stagecoach::memory {

// Life of an entry:
//
//   PRODUCED --> SENDING --+- local completion --+--> both --> RELEASED
//                          +- acknowledgement ---+        \--> RETAINED
//   PRODUCED, SENDING --> DISCARDED with the epoch
//
// Under kSent local completion alone decides, and the entry then awaits its
// acknowledgement without bytes. Under kNever the backward must have run too,
// and the end is always RETAINED.
enum class EntryState { kProduced, kSending, kReleased, kRetained, kDiscarded };

// When an activation is given back; gradients always by acknowledgement.
enum class ReleaseRule {
  kAcknowledged,  // max(local completion, acknowledgement)
  kSent,          // local completion
  kNever,         // the microbatch's backward, but not before both of the above
                  // (counted as retained by "policy")
};

// kDuplicate: acknowledged before, however long ago. kStaleEpoch: of a lower
// epoch, or of a transfer that DiscardAll() ended. kUnknown: anything else,
// also a transfer that has not started.
enum class AckOutcome { kAccepted, kDuplicate, kStaleEpoch, kUnknown };

struct AckCounters {
  int64_t accepted = 0;
  int64_t duplicate = 0;
  int64_t stale_epoch = 0;
  int64_t unknown = 0;
};

struct RetainedBy {
  std::string op;
  int64_t bytes = 0;
};

// Activations of one stage, sums over the ledger's life but for `pending` and
// `held`. At any moment sent = released + retained + discarded + pending.
struct StageLedgerStats {
  int64_t sent_bytes = 0;  // counted when the sending starts
  int64_t released_bytes = 0;
  int64_t retained_bytes = 0;
  int64_t discarded_bytes = 0;
  // Sent and not at one of the three ends: under kSent less than what awaits
  // acknowledgement, under kNever more.
  int64_t pending_bytes = 0;
  std::vector<RetainedBy> retained_by;  // adds up to retained_bytes; by name
  int64_t held_bytes = 0;  // now: produced, not yet released or retained
  int64_t held_peak_bytes = 0;
};

struct LedgerStats {
  std::map<StageIndex, StageLedgerStats> stages;
  // Activations that cross the wire, over all stages at one moment. Under
  // kNever an output counts until its backward (or its acknowledgement, if
  // that is later).
  int64_t held_bytes = 0;
  int64_t held_peak_bytes = 0;
  // Retained bytes that are still allocated now, both directions: a gradient
  // that somebody keeps is a leak as well.
  int64_t retained_now_bytes = 0;
  // Transfers that are sent and not acknowledged, both directions, with all
  // their bytes (released ones too under kSent); age since their sending.
  int64_t pending_transfers = 0;
  int64_t pending_bytes = 0;
  absl::Duration oldest_pending;
  AckCounters acknowledgements;
};

// One unacknowledged output, for `memory held`.
struct HeldOutput {
  TransferKey key;
  EntryState state = EntryState::kProduced;
  int64_t bytes = 0;
  absl::Duration age;  // since it was produced
  std::string peer;
};

// A retained activation whose holder nobody has named yet.
struct UnnamedRetention {
  TransferKey key;
  int64_t bytes = 0;
  // Identifies the storage to the engine that is asked who keeps it; null if
  // it is gone already.
  const void* storage = nullptr;
};

// Owns every output from the moment it is produced until its receiver has it.
// The bytes are an opaque `payload`; dropping it is all the ledger can do, and
// afterwards the block's watch tells whether they are really gone.
//
// Thread-safe. Payloads are dropped on the calling thread after the lock is
// released: a payload's destructor may take other locks, and may call the
// ledger. Nothing blocks, and nothing happens by time: only a call moves an
// entry.
class Ledger {
 public:
  struct Options {
    ReleaseRule rule = ReleaseRule::kAcknowledged;
    Epoch epoch;             // acknowledgements of lower ones are stale
    Clock* clock = nullptr;  // must outlive the ledger; null: the real one
  };
  struct Output {
    std::shared_ptr<void> payload;
    // Null: memory not accounted, taken for freed once dropped.
    std::shared_ptr<const BlockWatch> watch;
    const void* storage = nullptr;
    int64_t bytes = 0;
  };

  explicit Ledger(const Options& options);
  // Discards what is left.
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // PRODUCED. `peer` names the receiver for people. kAlreadyExists for a key
  // that is or was in the ledger: a second life could be ended by a late
  // acknowledgement of the first. kFailedPrecondition for another epoch's key.
  absl::Status Produce(const TransferKey& key, std::vector<Output> outputs,
                       const std::string& peer);
  // SENDING. kNotFound, or kFailedPrecondition in any other state.
  absl::Status StartSending(const TransferKey& key);
  // The transport needs the bytes no longer. Unknown keys are ignored (the
  // epoch was discarded meanwhile).
  void CompleteLocally(const TransferKey& key);
  // Idempotent; everything but kAccepted changes nothing and is counted.
  AckOutcome Acknowledge(const TransferKey& key);
  // The backward of (stage, microbatch) ran: what kNever kept, goes. No effect
  // under the other rules.
  void BackwardDone(StepIndex step, StageIndex stage,
                    MicrobatchIndex microbatch);
  // Every entry becomes DISCARDED. Only once no peer may still read the bytes.
  // An entry that another thread is dropping right now ends as released.
  void DiscardAll();

  // What `send_budget` limits: transfers to one peer in one direction that were
  // started and are not acknowledged, or are acknowledged and still held
  // because they are not locally complete.
  int InBudget(const std::string& peer, Direction direction) const;
  // Nothing is produced, in the transport's hands or unacknowledged: what
  // PREPARED promises. What kNever keeps for a backward does not count.
  bool Empty() const;

  // Retentions since the last call, to be named by NameRetention, at the latest
  // in the step after theirs. `storage` is null for one that was freed
  // meanwhile: its address may belong to another by now.
  std::vector<UnnamedRetention> TakeUnnamed();
  // Moves the bytes of a key's unnamed retentions from "unknown" to `op`; the
  // second form those of one output only. Unknown ones are ignored.
  void NameRetention(const TransferKey& key, const std::string& op);
  void NameRetention(const UnnamedRetention& retention, const std::string& op);

  LedgerStats Stats() const;
  std::vector<HeldOutput> Held() const;

 private:
  struct Entry;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecoach::memory

#endif  // STAGECOACH_MEMORY_LEDGER_H_

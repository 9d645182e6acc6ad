#include "memory/ledger.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "memory/retentions.h"
#include "memory/transfer_history.h"

namespace stagecoach::memory {
namespace {

constexpr char kUnknownOp[] = "unknown";
constexpr char kPolicyOp[] = "policy";

const char* StateName(EntryState state) {
  switch (state) {
    case EntryState::kProduced:
      return "PRODUCED";
    case EntryState::kSending:
      return "SENDING";
    case EntryState::kReleased:
      return "RELEASED";
    case EntryState::kRetained:
      return "RETAINED";
    case EntryState::kDiscarded:
      return "DISCARDED";
  }
  return "?";
}

// The diagram in the header.
bool IsEdge(EntryState from, EntryState to) {
  switch (from) {
    case EntryState::kProduced:
      return to == EntryState::kSending || to == EntryState::kDiscarded;
    case EntryState::kSending:
      return to == EntryState::kReleased || to == EntryState::kRetained ||
             to == EntryState::kDiscarded;
    default:
      return false;
  }
}

int64_t TotalBytes(const std::vector<Ledger::Output>& outputs) {
  int64_t bytes = 0;
  for (const Ledger::Output& output : outputs) bytes += output.bytes;
  return bytes;
}

// What has left its entry and goes once the lock is released.
struct Drop {
  TransferKey key;
  std::vector<Ledger::Output> outputs;
};

struct StageAccount {
  StageLedgerStats stats;  // but for retained_by
  std::map<std::string, int64_t> retained_by;
};

}  // namespace

struct Ledger::Entry {
  EntryState state = EntryState::kProduced;
  std::vector<Output> outputs;
  std::string peer;
  int64_t bytes = 0;
  absl::Time produced_at;
  absl::Time sent_at;
  bool locally_complete = false;
  bool acknowledged = false;
  bool backward_done = false;
  bool dropping = false;   // some thread is between BeginDrop and FinishDrop
  bool discarded = false;  // DiscardAll() came meanwhile
  int64_t retained_bytes = 0;  // the part of `bytes` that did not go

  bool Started() const { return state != EntryState::kProduced; }
  bool AtAnEnd() const { return Started() && state != EntryState::kSending; }
  bool AwaitsAcknowledgement() const { return Started() && !acknowledged; }
};

// Everything behind the lock. An entry stays in `entries` until it is at an end
// of the diagram and its acknowledgement has come.
struct Ledger::State {
  using EntryMap = std::map<TransferKey, Entry>;

  explicit State(const Options& o)
      : options(o), clock(o.clock != nullptr ? o.clock : Clock::Real()) {}

  ReleaseRule RuleFor(const TransferKey& key) const;
  bool MayRelease(const TransferKey& key, const Entry& entry) const;
  bool WasHere(const TransferKey& key) const SC_REQUIRES(mu);
  bool Blocks(const Entry& entry) const;

  void AddHeld(const TransferKey& key, int64_t bytes) SC_REQUIRES(mu);
  void Transition(const TransferKey& key, Entry* entry, EntryState to)
      SC_REQUIRES(mu);

  AckOutcome Classify(const TransferKey& key) const SC_REQUIRES(mu);
  void Count(AckOutcome outcome) SC_REQUIRES(mu);
  void Accept(const TransferKey& key, std::vector<Drop>* drops) SC_REQUIRES(mu);
  void EraseIfOver(EntryMap::iterator it) SC_REQUIRES(mu);

  // Releasing: begin under the lock, drop the payloads without it, look what
  // became of them under it again.
  void BeginDropIfDue(const TransferKey& key, Entry* entry,
                      std::vector<Drop>* drops) SC_REQUIRES(mu);
  void FinishDrops(std::vector<Drop> drops) SC_EXCLUDES(mu);
  void FinishDrop(const Drop& drop) SC_REQUIRES(mu);
  void KeepRecord(const Drop& drop, Entry* entry) SC_REQUIRES(mu);
  EntryMap::iterator Discard(EntryMap::iterator it,
                             std::vector<Output>* garbage) SC_REQUIRES(mu);

  void Name(const TransferKey& key, const void* storage, const std::string& op)
      SC_EXCLUDES(mu);

  const Options options;
  Clock* const clock;
  Mutex mu;
  EntryMap entries SC_GUARDED_BY(mu);
  TransferHistory acknowledged SC_GUARDED_BY(mu);
  TransferHistory discarded SC_GUARDED_BY(mu);
  Retentions retentions SC_GUARDED_BY(mu);
  std::map<StageIndex, StageAccount> stages SC_GUARDED_BY(mu);
  int64_t held_bytes SC_GUARDED_BY(mu) = 0;
  int64_t held_peak_bytes SC_GUARDED_BY(mu) = 0;
  AckCounters counters SC_GUARDED_BY(mu);
};

ReleaseRule Ledger::State::RuleFor(const TransferKey& key) const {
  return key.direction == Direction::kActivation ? options.rule
                                                 : ReleaseRule::kAcknowledged;
}

bool Ledger::State::MayRelease(const TransferKey& key,
                               const Entry& entry) const {
  if (entry.state != EntryState::kSending || entry.dropping) return false;
  if (!entry.locally_complete) return false;
  switch (RuleFor(key)) {
    case ReleaseRule::kSent:
      return true;
    case ReleaseRule::kAcknowledged:
      return entry.acknowledged;
    case ReleaseRule::kNever:
      return entry.acknowledged && entry.backward_done;
  }
  return false;
}

bool Ledger::State::WasHere(const TransferKey& key) const {
  return entries.count(key) > 0 || acknowledged.Contains(key) ||
         discarded.Contains(key);
}

// All but what waits for nothing else than its backward.
bool Ledger::State::Blocks(const Entry& entry) const {
  return !entry.acknowledged || !entry.locally_complete || entry.dropping;
}

void Ledger::State::AddHeld(const TransferKey& key, int64_t bytes) {
  if (key.direction != Direction::kActivation) return;
  StageLedgerStats& stage = stages[key.stage].stats;
  stage.held_bytes += bytes;
  stage.held_peak_bytes = std::max(stage.held_peak_bytes, stage.held_bytes);
  held_bytes += bytes;
  held_peak_bytes = std::max(held_peak_bytes, held_bytes);
}

// The only place where a state changes and sent bytes move between accounts:
// each edge moves all bytes of an entry at once, so that the identity holds.
void Ledger::State::Transition(const TransferKey& key, Entry* entry,
                               EntryState to) {
  const EntryState from = entry->state;
  if (!IsEdge(from, to)) {
    std::fprintf(stderr, "Ledger: %s cannot go from %s to %s\n",
                 ToString(key).c_str(), StateName(from), StateName(to));
    std::abort();
  }
  entry->state = to;
  if (key.direction != Direction::kActivation) return;
  StageLedgerStats& stage = stages[key.stage].stats;
  if (to == EntryState::kSending) {
    stage.sent_bytes += entry->bytes;
    stage.pending_bytes += entry->bytes;
    return;
  }
  AddHeld(key, -entry->bytes);
  if (from == EntryState::kProduced) return;  // never sent
  stage.pending_bytes -= entry->bytes;
  if (to == EntryState::kDiscarded) {
    stage.discarded_bytes += entry->bytes;
    return;
  }
  stage.retained_bytes += entry->retained_bytes;
  stage.released_bytes += entry->bytes - entry->retained_bytes;
}

AckOutcome Ledger::State::Classify(const TransferKey& key) const {
  if (key.epoch < options.epoch) return AckOutcome::kStaleEpoch;
  if (key.epoch != options.epoch) return AckOutcome::kUnknown;
  if (acknowledged.Contains(key)) return AckOutcome::kDuplicate;
  if (discarded.Contains(key)) return AckOutcome::kStaleEpoch;
  const auto it = entries.find(key);
  return it != entries.end() && it->second.Started() ? AckOutcome::kAccepted
                                                     : AckOutcome::kUnknown;
}

void Ledger::State::Count(AckOutcome outcome) {
  switch (outcome) {
    case AckOutcome::kAccepted:
      ++counters.accepted;
      break;
    case AckOutcome::kDuplicate:
      ++counters.duplicate;
      break;
    case AckOutcome::kStaleEpoch:
      ++counters.stale_epoch;
      break;
    case AckOutcome::kUnknown:
      ++counters.unknown;
      break;
  }
}

void Ledger::State::Accept(const TransferKey& key, std::vector<Drop>* drops) {
  acknowledged.Insert(key);
  const auto it = entries.find(key);
  Entry& entry = it->second;
  entry.acknowledged = true;
  BeginDropIfDue(key, &entry, drops);
  EraseIfOver(it);
}

void Ledger::State::EraseIfOver(EntryMap::iterator it) {
  const Entry& entry = it->second;
  if (entry.AtAnEnd() && (entry.acknowledged || entry.discarded)) {
    entries.erase(it);
  }
}

void Ledger::State::BeginDropIfDue(const TransferKey& key, Entry* entry,
                                   std::vector<Drop>* drops) {
  if (!MayRelease(key, *entry)) return;
  entry->dropping = true;
  drops->push_back({key, std::move(entry->outputs)});
}

void Ledger::State::FinishDrops(std::vector<Drop> drops) {
  for (Drop& drop : drops) {
    for (Output& output : drop.outputs) output.payload.reset();
    MutexLock lock(&mu);
    FinishDrop(drop);
  }
}

void Ledger::State::FinishDrop(const Drop& drop) {
  // Still there: an entry being dropped is erased nowhere else.
  const auto it = entries.find(drop.key);
  Entry& entry = it->second;
  entry.dropping = false;
  KeepRecord(drop, &entry);
  Transition(
      drop.key, &entry,
      entry.retained_bytes > 0 ? EntryState::kRetained : EntryState::kReleased);
  EraseIfOver(it);
}

// Asks the allocator what did not go.
void Ledger::State::KeepRecord(const Drop& drop, Entry* entry) {
  const bool activation = drop.key.direction == Direction::kActivation;
  const bool policy = RuleFor(drop.key) == ReleaseRule::kNever;
  for (const Output& output : drop.outputs) {
    const bool alive = output.watch != nullptr && !output.watch->freed();
    if (alive) retentions.Add(drop.key, output, policy || !activation);
    if (alive || policy) entry->retained_bytes += output.bytes;
  }
  if (!activation || entry->retained_bytes == 0) return;
  stages[drop.key.stage].retained_by[policy ? kPolicyOp : kUnknownOp] +=
      entry->retained_bytes;
}

Ledger::State::EntryMap::iterator Ledger::State::Discard(
    EntryMap::iterator it, std::vector<Output>* garbage) {
  Entry& entry = it->second;
  if (!entry.acknowledged) discarded.Insert(it->first);
  if (entry.dropping) {
    entry.discarded = true;
    return std::next(it);
  }
  if (!entry.AtAnEnd()) {
    Transition(it->first, &entry, EntryState::kDiscarded);
  }
  std::move(entry.outputs.begin(), entry.outputs.end(),
            std::back_inserter(*garbage));
  return entries.erase(it);
}

void Ledger::State::Name(const TransferKey& key, const void* storage,
                         const std::string& op) {
  MutexLock lock(&mu);
  const int64_t bytes = retentions.Name(key, storage);
  if (bytes == 0) return;
  std::map<std::string, int64_t>& retained_by = stages[key.stage].retained_by;
  retained_by[op] += bytes;
  const auto unknown = retained_by.find(kUnknownOp);
  unknown->second -= bytes;
  if (unknown->second == 0) retained_by.erase(unknown);
}

Ledger::Ledger(const Options& options)
    : state_(std::make_unique<State>(options)) {}

Ledger::~Ledger() { DiscardAll(); }

absl::Status Ledger::Produce(const TransferKey& key,
                             std::vector<Output> outputs,
                             const std::string& peer) {
  State& s = *state_;
  if (key.epoch != s.options.epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(key),
                     ": output of another epoch than the "
                     "ledger's, which is ",
                     s.options.epoch.value(), "; rejoin the job"));
  }
  const absl::Time now = s.clock->Now();
  MutexLock lock(&s.mu);
  if (s.WasHere(key)) {
    return absl::AlreadyExistsError(
        absl::StrCat(ToString(key),
                     ": output was produced before in this epoch; "
                     "repeat a step under a new epoch"));
  }
  Entry& entry = s.entries[key];
  entry.bytes = TotalBytes(outputs);
  entry.outputs = std::move(outputs);
  entry.peer = peer;
  entry.produced_at = now;
  s.AddHeld(key, entry.bytes);
  return absl::OkStatus();
}

absl::Status Ledger::StartSending(const TransferKey& key) {
  State& s = *state_;
  const absl::Time now = s.clock->Now();
  MutexLock lock(&s.mu);
  const auto it = s.entries.find(key);
  if (it == s.entries.end()) {
    return absl::NotFoundError(
        absl::StrCat(ToString(key),
                     ": nothing to send; it was not produced, or its epoch "
                     "was discarded"));
  }
  if (it->second.Started()) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(key), ": sent twice; it is ",
                     StateName(it->second.state), " already"));
  }
  it->second.sent_at = now;
  s.Transition(key, &it->second, EntryState::kSending);
  return absl::OkStatus();
}

void Ledger::CompleteLocally(const TransferKey& key) {
  State& s = *state_;
  std::vector<Drop> drops;
  {
    MutexLock lock(&s.mu);
    const auto it = s.entries.find(key);
    if (it == s.entries.end() || !it->second.Started()) return;
    it->second.locally_complete = true;
    s.BeginDropIfDue(key, &it->second, &drops);
  }
  s.FinishDrops(std::move(drops));
}

AckOutcome Ledger::Acknowledge(const TransferKey& key) {
  State& s = *state_;
  std::vector<Drop> drops;
  AckOutcome outcome;
  {
    MutexLock lock(&s.mu);
    outcome = s.Classify(key);
    s.Count(outcome);
    if (outcome == AckOutcome::kAccepted) s.Accept(key, &drops);
  }
  s.FinishDrops(std::move(drops));
  return outcome;
}

void Ledger::BackwardDone(StepIndex step, StageIndex stage,
                          MicrobatchIndex microbatch) {
  State& s = *state_;
  std::vector<Drop> drops;
  {
    MutexLock lock(&s.mu);
    for (auto& [key, entry] : s.entries) {
      if (key.step != step || key.stage != stage ||
          key.microbatch != microbatch) {
        continue;
      }
      entry.backward_done = true;
      s.BeginDropIfDue(key, &entry, &drops);
    }
  }
  s.FinishDrops(std::move(drops));
}

void Ledger::DiscardAll() {
  State& s = *state_;
  std::vector<Output> garbage;  // outlives the lock
  MutexLock lock(&s.mu);
  for (auto it = s.entries.begin(); it != s.entries.end();) {
    it = s.Discard(it, &garbage);
  }
}

int Ledger::InBudget(const std::string& peer, Direction direction) const {
  State& s = *state_;
  MutexLock lock(&s.mu);
  int count = 0;
  for (const auto& [key, entry] : s.entries) {
    if (key.direction == direction && entry.Started() && s.Blocks(entry) &&
        entry.peer == peer) {
      ++count;
    }
  }
  return count;
}

bool Ledger::Empty() const {
  State& s = *state_;
  MutexLock lock(&s.mu);
  for (const auto& [key, entry] : s.entries) {
    if (s.Blocks(entry)) return false;
  }
  return true;
}

std::vector<UnnamedRetention> Ledger::TakeUnnamed() {
  MutexLock lock(&state_->mu);
  return state_->retentions.TakeUnnamed();
}

void Ledger::NameRetention(const TransferKey& key, const std::string& op) {
  state_->Name(key, /*storage=*/nullptr, op);
}

void Ledger::NameRetention(const UnnamedRetention& retention,
                           const std::string& op) {
  state_->Name(retention.key, retention.storage, op);
}

LedgerStats Ledger::Stats() const {
  State& s = *state_;
  const absl::Time now = s.clock->Now();
  LedgerStats stats;
  MutexLock lock(&s.mu);
  for (const auto& [index, account] : s.stages) {
    StageLedgerStats& stage = stats.stages[index] = account.stats;
    for (const auto& [op, bytes] : account.retained_by) {
      stage.retained_by.push_back({op, bytes});
    }
  }
  for (const auto& [key, entry] : s.entries) {
    if (!entry.AwaitsAcknowledgement()) continue;
    ++stats.pending_transfers;
    stats.pending_bytes += entry.bytes;
    stats.oldest_pending = std::max(stats.oldest_pending, now - entry.sent_at);
  }
  stats.held_bytes = s.held_bytes;
  stats.held_peak_bytes = s.held_peak_bytes;
  stats.retained_now_bytes = s.retentions.LiveBytes();
  stats.acknowledgements = s.counters;
  return stats;
}

std::vector<HeldOutput> Ledger::Held() const {
  State& s = *state_;
  const absl::Time now = s.clock->Now();
  std::vector<HeldOutput> held;
  MutexLock lock(&s.mu);
  for (const auto& [key, entry] : s.entries) {
    if (entry.acknowledged) continue;
    held.push_back(
        {key, entry.state, entry.bytes, now - entry.produced_at, entry.peer});
  }
  return held;
}

}  // namespace stagecoach::memory

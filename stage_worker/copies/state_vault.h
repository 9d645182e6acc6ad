#ifndef STAGECOACH_STAGE_WORKER_COPIES_STATE_VAULT_H_
#define STAGECOACH_STAGE_WORKER_COPIES_STATE_VAULT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/copies/state_layout.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// A block for a copy, accounted as `other`; null where there is no room.
std::shared_ptr<void> AllocateCopy(memory::AccountingAllocator* allocator,
                                   int64_t bytes);

// The copies that a worker keeps so that a lost worker costs no disk and one
// step at most: of its own stages, and of those of the worker whose neighbour
// it is. They belong to the process, not to a placement: they are what the next
// placement begins with. What stage s of a job is after t updates does not
// depend on where or how often it was computed, so (job, stage, step) names a
// copy; the copies of one job at a time are kept. Thread-safe.
class StateVault {
 public:
  struct Name {
    StageIndex stage;
    int64_t step = 0;  // updates that it holds
  };

  // Must outlive the vault's copies.
  explicit StateVault(memory::AccountingAllocator* allocator)
      : allocator_(allocator) {}

  // A placement begins: from now on copies of it are taken in. Whatever is not
  // of this job goes, and with `keep` false all goes.
  void Begin(const std::string& job_id, Epoch epoch, bool keep);
  // The job needs its copies no more.
  void Drop(const std::string& job_id);
  void DropAll();
  // Every stage's later state is copied everywhere.
  void DropBefore(int64_t step);

  void Put(int64_t step, StageState state);
  // Null if it is not here.
  std::shared_ptr<const StageState> Find(const std::string& job_id,
                                         StageIndex stage, int64_t step) const;
  // All that are whole.
  std::vector<Name> List(const std::string& job_id) const;
  std::string job_id() const;
  int64_t bytes() const;

  // A peer's copy comes in pieces, in order. The first has the layout. With it
  // go versions of the stage that a peer which sends this one cannot need any
  // more. A piece that is here already, or of a version before the newest,
  // changes nothing. kFailedPrecondition: of another
  // placement; kResourceExhausted: no room for it; kInvalidArgument: a piece
  // that does not fit.
  absl::Status Receive(const std::string& job_id, Epoch epoch, Name name,
                       const StateLayout* layout, int64_t offset,
                       absl::string_view data);
  // Pieces that were refused because their placement is not the one here.
  int64_t refused() const;

 private:
  using Key = std::pair<StageIndex, int64_t>;
  struct Incoming {
    int64_t step = 0;
    StateLayout layout;
    std::shared_ptr<void> block;
    int64_t received = 0;
  };
  using States = std::map<Key, std::shared_ptr<const StageState>>;

  absl::Status StartReceiving(Name name, const StateLayout* layout)
      SC_REQUIRES(mu_);
  bool NeedsPiece(Name name) const SC_REQUIRES(mu_);

  memory::AccountingAllocator* const allocator_;
  mutable Mutex mu_;
  std::string job_id_ SC_GUARDED_BY(mu_);
  Epoch epoch_ SC_GUARDED_BY(mu_);
  States states_ SC_GUARDED_BY(mu_);
  std::map<StageIndex, Incoming> incoming_ SC_GUARDED_BY(mu_);
  // The newest version of each that this placement's peers have begun to send.
  std::map<StageIndex, int64_t> newest_ SC_GUARDED_BY(mu_);
  int64_t refused_ SC_GUARDED_BY(mu_) = 0;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_COPIES_STATE_VAULT_H_

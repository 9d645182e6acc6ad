#ifndef STAGECOACH_STAGE_WORKER_COPIES_NEIGHBOUR_COPIES_H_
#define STAGECOACH_STAGE_WORKER_COPIES_NEIGHBOUR_COPIES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/serial_executor.h"
#include "stage_worker/copies/state_vault.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/peer_address.h"

namespace stagecoach::worker {

// One copy on its way between workers. Both block, and end soon after
// `*cancelled` was set. Tests have others than the real ones of peer_state.h.
struct StateRequest {
  PeerAddress peer;
  std::string job_id;
  Epoch epoch;  // of the placement that sends
  StateVault::Name name;
};
struct StateCarrier {
  // kUnavailable, kDeadlineExceeded: the peer may be there later.
  std::function<absl::Status(const StateRequest& request,
                             const StageState& state,
                             const std::atomic<bool>& cancelled)>
      send;
  std::function<absl::StatusOr<StageState>(const StateRequest& request)> fetch;
};

// Copies the state of one placement's stages, version by version: into this
// worker's vault and, behind the steps, to its neighbour. Owned by shared_ptr:
// work under way keeps it alive. Thread-safe.
class NeighbourCopies : public std::enable_shared_from_this<NeighbourCopies> {
 public:
  struct Options {
    std::string job_id;
    Epoch epoch;
    PeerAddress neighbour;
    StateVault* vault = nullptr;  // must outlive this
    StateCarrier carrier;
    Executor* executor = nullptr;  // may block; must outlive this
  };
  explicit NeighbourCopies(Options options) : options_(std::move(options)) {}

  // `done` runs on the executor once the neighbour has all of it; with an error
  // if it never will. A neighbour that cannot be reached is tried again until
  // Cancel: whether it lives is the coordinator's question.
  void Copy(int64_t step, std::vector<StageState> states,
            std::function<void(absl::Status)> done);
  void Cancel() { cancelled_ = true; }

 private:
  absl::Status SendAll(int64_t step, const std::vector<StageIndex>& stages);

  const Options options_;
  std::atomic<bool> cancelled_{false};
};

// Where a placement finds the state that it begins with.
struct StateSource {
  StageIndex stage;
  PeerAddress peer;
};
struct RestoreOptions {
  std::string job_id;
  Epoch epoch;
  int64_t step = 0;
  std::vector<StateSource> sources;  // of all stages
  // Those whose tensors the engine asks for: its own, and the owner of what is
  // tied.
  std::vector<StageIndex> wanted;
  StateVault* vault = nullptr;
  StateCarrier carrier;
};

// Gives the engine the state: what is in the vault from there, the rest from
// peers. Blocks. kUnavailable: a copy cannot be had any more.
absl::Status RestoreState(const RestoreOptions& options, StageEngine* engine);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_COPIES_NEIGHBOUR_COPIES_H_

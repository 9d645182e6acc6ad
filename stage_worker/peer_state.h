#ifndef STAGECOACH_STAGE_WORKER_PEER_STATE_H_
#define STAGECOACH_STAGE_WORKER_PEER_STATE_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/copies/neighbour_copies.h"
#include "stage_worker/copies/state_vault.h"
#include "stagecoach/v1/peer.pb.h"

// Copies of stages' state between workers, by PeerService.
namespace stagecoach::worker {

// ---- the keeper ----
// kFailedPrecondition: another process was meant, or another placement; other
// errors as StateVault::Receive.
absl::Status TakeState(const v1::KeepStateRequest& request,
                       Incarnation incarnation, StateVault* vault);
// kNotFound: it is not in the vault.
absl::Status GiveState(const v1::FetchStateRequest& request,
                       Incarnation incarnation, const StateVault& vault,
                       v1::FetchStateResponse* response);

// ---- who has a state kept, and wants it back ----
// Block; errors name the peer.
absl::Status SendState(const StateRequest& request, const StageState& state,
                       const std::atomic<bool>& cancelled);
absl::StatusOr<StageState> FetchState(const StateRequest& request,
                                      memory::AccountingAllocator* allocator);

// The two, as placements use them.
StateCarrier PeerCarrier(memory::AccountingAllocator* allocator);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PEER_STATE_H_

#ifndef STAGECOACH_STAGE_WORKER_PLACEMENT_MEMORY_H_
#define STAGECOACH_STAGE_WORKER_PLACEMENT_MEMORY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "memory/accounting_allocator.h"
#include "memory/device_account.h"
#include "memory/ledger.h"
#include "stage_worker/peer_link.h"

namespace stagecoach::worker {

// Memory figures of a worker at one moment.
struct PlacementMemory {
  memory::AllocatorStats allocator;
  std::optional<memory::DeviceFigures> device;  // where it is not the host
  memory::LedgerStats ledger;
  std::vector<StageIndex> stages;
  int64_t receive_pool_bytes = 0;
  LinkTraffic traffic;
  int64_t step = -1;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_PLACEMENT_MEMORY_H_

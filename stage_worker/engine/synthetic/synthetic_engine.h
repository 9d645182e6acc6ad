#ifndef STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_ENGINE_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_ENGINE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "schedule/action.h"
#include "stage_worker/engine/stage_engine.h"

namespace stagecoach::worker {

// Scripted costs, sizes and failures for an engine without torch.
struct SyntheticOptions {
  // Bytes of one boundary tensor; 0: as the spec's sizes say.
  int64_t boundary_bytes = 0;
  // Called before each F, B, I and W; an error is returned from the action.
  std::function<absl::Status(const schedule::Action&)> before_action;
  // Stages whose outputs autograd would keep (as tanh does).
  std::vector<StageIndex> retaining_stages;
  // Keep one extra reference to the n-th output (from 1); 0: none.
  int leak_output_at = 0;
};

// Computes a checksum instead of a model: each stage mixes its index and the
// microbatch into integers that stand for activations, and the backward undoes
// it in reverse, so a wrong, missing, repeated or reordered transfer changes
// the "loss" or is reported as an error. Needs no torch; memory comes from
// `allocator`, which must outlive the engine.
absl::StatusOr<std::unique_ptr<StageEngine>> NewSyntheticEngine(
    const SyntheticOptions& synthetic, memory::AccountingAllocator* allocator,
    const EngineOptions& options);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_ENGINE_H_

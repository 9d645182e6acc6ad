#ifndef STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_PARAMETERS_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"
#include "memory/accounting_allocator.h"
#include "stage_worker/engine/stage_engine.h"
#include "stage_worker/engine/synthetic/synthetic_tensor.h"

namespace stagecoach::worker {

// Parameters of one number each, with gradient and optimizer state: one for
// each stage, and, where embeddings are tied, the first stage's one and the
// last stage's copy of it. Single-executor.
class SyntheticParameters {
 public:
  SyntheticParameters(memory::AccountingAllocator* allocator,
                      const EngineOptions& options)
      : allocator_(allocator), options_(options) {}
  // Once, before anything else.
  absl::Status Build();

  void ZeroGradients();
  // `key`, stirred with the values that the stage computes with.
  uint64_t MixedInto(uint64_t key, const StageAssignment& stage) const;
  // The stage's own weight feels the order of the microbatches, as
  // floating-point sums do; the tied parameter, whose parts meet in another
  // way, does not.
  void AddGradient(const StageAssignment& stage, uint64_t part);
  std::vector<ParameterNorm> Norms() const;
  void Update(const UpdateOptions& options);

  // As StageEngine has them; kFailedPrecondition where the leaf is elsewhere.
  absl::Status ReduceTiedLocally();
  absl::StatusOr<TensorRef> CopyTiedGradient();
  absl::Status AddTiedGradient(const TensorRef& other);
  absl::Status SetTiedGradient(const TensorRef& sum);

  std::vector<ParameterDigest> Digests() const;
  std::vector<StageState> ExportState() const;
  absl::Status ImportParameters(const StateReader& read);
  absl::Status ImportOptimizer(const StateReader& read);

 private:
  using TensorPtr = std::shared_ptr<SyntheticTensor>;
  struct Leaf {
    std::string name;
    int64_t global_index = 0;
    TensorPtr value;
    TensorPtr gradient;
    TensorPtr optimizer;  // a hash of all gradients so far
  };

  absl::StatusOr<Leaf> NewLeaf(const std::string& name,
                               int64_t global_index) const;
  absl::StatusOr<Leaf*> Tied(bool owner, absl::string_view call);
  std::vector<Leaf*> Leaves();
  // One of each parameter: the tied one's copy is left out.
  std::vector<const Leaf*> Parameters() const;

  memory::AccountingAllocator* const allocator_;
  const EngineOptions& options_;
  std::map<StageIndex, Leaf> weights_;
  std::unique_ptr<Leaf> tied_owner_;
  std::unique_ptr<Leaf> tied_copy_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_SYNTHETIC_SYNTHETIC_PARAMETERS_H_

#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_SAVED_TENSORS_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_SAVED_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace torch::autograd {
struct Edge;
}  // namespace torch::autograd

namespace stagecoach::worker {

// A storage that an op in a graph saved for its backward.
struct SavedTensor {
  std::string op;
  // See StorageIdentity.
  const void* storage = nullptr;
  int64_t bytes = 0;  // of the whole storage, not only of what was saved of it
  // The storage lies in memory of torch's own allocator.
  bool own = false;
};

// Every storage that the graph behind `roots` saved, each once: under the op
// nearest to the roots. Parameters are among them. Costs what OpThatSaved does.
std::vector<SavedTensor> SavedTensors(
    const std::vector<torch::autograd::Edge>& roots);

// The tensors themselves, some maybe twice.
std::vector<at::Tensor> TensorsSavedBehind(
    const std::vector<torch::autograd::Edge>& roots);

// The name of the op ("TanhBackward0") in the graph behind `roots` that saved a
// tensor with this storage (see StorageIdentity) for its backward; "" if none
// did. Where several did, the one nearest to the roots.
//
// Walks the graph when asked and costs nothing otherwise: every generated node
// lists its saved tensors to the visitor of compiled autograd
// (Node::compiled_args). A hand-written node must implement it to be seen.
std::string OpThatSaved(const std::vector<torch::autograd::Edge>& roots,
                        const void* storage);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_SAVED_TENSORS_H_

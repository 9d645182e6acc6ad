#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_AUTOGRAD_EDGES_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_AUTOGRAD_EDGES_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "stage_worker/engine/torch/saved_tensors.h"

namespace stagecoach::worker {

// What a stage keeps of one microbatch between its forward and its backward:
// the gradient edges of its outputs, and behind them autograd's graph with the
// tensors that the ops saved. The outputs themselves are not held: a dropped
// output is freed at once unless an op saved it.
//
// Outputs and inputs of floating-point type carry gradients, in order; others
// (token ids) do not. Throws what torch throws, and std::invalid_argument for
// gradients that do not fit. Single-executor.
class MicrobatchGraph {
 public:
  MicrobatchGraph();
  ~MicrobatchGraph();
  MicrobatchGraph(MicrobatchGraph&&) noexcept;
  MicrobatchGraph& operator=(MicrobatchGraph&&) noexcept;

  // What the model gets to see of a received input: the same bytes, behind a
  // node that catches the gradient. A plain leaf that requires grad would be
  // pinned by its AccumulateGrad until the graph goes.
  at::Tensor MarkInput(const at::Tensor& received);

  // Keeps the edge of `output`; the caller drops the tensor.
  void KeepOutput(const at::Tensor& output);

  // Runs the backward, adds to the parameters' gradients, releases the graph,
  // and returns the gradients of the inputs (zeros where an input was not
  // used). `output_gradients` are not written to. Call once.
  std::vector<at::Tensor> Backward(std::vector<at::Tensor> output_gradients);

  // The same in two halves: the gradients of the inputs now, and, once, those
  // of the parameters later. Until then the graph keeps what they need.
  std::vector<at::Tensor> BackwardInput(
      std::vector<at::Tensor> output_gradients);
  void BackwardWeight();

  // Every storage that is held for what is left of the backward, each once.
  std::vector<SavedTensor> Saved() const;
  // The tensors behind that, some maybe twice: for a node that stands for a
  // graph of its own.
  std::vector<at::Tensor> HeldTensors() const;
  // See OpThatSaved.
  std::string OpThatSaved(const void* storage) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_AUTOGRAD_EDGES_H_

#ifndef STAGECOACH_STAGE_WORKER_ENGINE_TORCH_SPLIT_BACKWARD_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_TORCH_SPLIT_BACKWARD_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <memory>
#include <vector>

namespace stagecoach::worker {

namespace kernels {
class BlockNode;
}  // namespace kernels

// The backward of one stage and microbatch in two halves, as zero-bubble
// schedules want it (Qi et al., Zero Bubble Pipeline Parallelism, 2023).
//
// A node of autograd's graph is on the path if it leads to an input of the
// stage. RunInput walks the path alone and keeps, for each node on it that also
// feeds a parameter, the gradient that reached it; RunWeight turns those into
// parameter gradients later. Nodes that feed nothing but vectors (norm weights)
// are finished in RunInput: to defer them would keep their input and gradient
// for next to nothing. The kernels and their order per parameter are those of a
// full backward, so the results are bit-equal to it. Own blocks have no edges
// to their parameters; they defer their weight gradients themselves.
//
// Where the stage has no inputs (the first one) there is no path: everything is
// weight gradient. Throws what torch throws. Single-executor.
class SplitBackward {
 public:
  // `roots` are the gradient edges of the outputs, `gradients` theirs, `inputs`
  // the gradient edges of the stage's inputs. Consumes the graph behind
  // `roots`; returns one gradient per input, undefined where the input was not
  // used. Call once, first.
  std::vector<at::Tensor> RunInput(
      std::vector<torch::autograd::Edge> roots,
      std::vector<at::Tensor> gradients,
      const std::vector<torch::autograd::Edge>& inputs);
  // Adds to the parameters' gradients and lets go of everything. Call once.
  void RunWeight();

  // Between the two: where RunWeight starts, and the gradients that it starts
  // with.
  const std::vector<torch::autograd::Edge>& edges() const { return edges_; }
  const std::vector<at::Tensor>& gradients() const { return gradients_; }
  // Own blocks whose weight gradients are deferred.
  const std::vector<std::shared_ptr<kernels::BlockNode>>& blocks() const {
    return blocks_;
  }

 private:
  // What RunWeight starts from.
  std::vector<torch::autograd::Edge> edges_;
  std::vector<at::Tensor> gradients_;
  std::vector<std::shared_ptr<kernels::BlockNode>> blocks_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_TORCH_SPLIT_BACKWARD_H_

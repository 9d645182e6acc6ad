#ifndef STAGECOACH_STAGE_WORKER_KERNELS_BLOCK_NODE_H_
#define STAGECOACH_STAGE_WORKER_KERNELS_BLOCK_NODE_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace stagecoach::worker::kernels {

// One node of autograd's graph that is a whole block of a model, or its
// embedding: one tensor in (or none), one out. Parameters have no edges: the
// gradients of those that train are added where they lie. Single-executor.
//
// A full backward computes each weight gradient as soon as it can. A split one
// (see SplitBackward) calls DeferWeights before it, which leaves the same work,
// in the same order, to RunWeights.
class BlockNode : public torch::autograd::Node {
 public:
  void DeferWeights() { deferred_ = Trains(); }
  // Adds what a deferred backward left to the parameters' gradients, if there
  // is anything, and lets go of everything.
  void RunWeights();

  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) final;
  // What OpThatSaved walks over.
  void compiled_args(
      torch::dynamo::autograd::CompiledNodeArgs& arguments) const final;

 protected:
  friend void AttachIfNeeded(const std::shared_ptr<BlockNode>& node,
                             const at::Tensor& input, at::Tensor* output);

  // Tensors that what is left of the backward needs, or RunWeights; released
  // ones are undefined.
  virtual std::vector<at::Tensor> Saved() const = 0;
  // Contiguous gradient of the output to that of the input; an undefined one
  // where there is no input.
  virtual at::Tensor Backward(at::Tensor output_gradient) = 0;

  // Whether there is any gradient to add to.
  virtual bool Trains() const = 0;
  // The work of RunWeights, after a deferred Backward. Once.
  virtual void AddWeightGradients() = 0;

  bool deferred() const { return deferred_; }

 private:
  bool deferred_ = false;
  bool pending_ = false;
};

// Makes `node` the one that computed `output` from `input` (undefined: from no
// tensor that has a gradient), if gradients are on and a backward would have
// anything to do.
void AttachIfNeeded(const std::shared_ptr<BlockNode>& node,
                    const at::Tensor& input, at::Tensor* output);

// The output of a Node<float> or Node<double> made of `arguments`, as `type`
// says; `input` as AttachIfNeeded takes it. Throws std::invalid_argument for
// other types.
template <template <typename> class Node, typename... Arguments>
at::Tensor RunNode(at::ScalarType type, const at::Tensor& input,
                   const Arguments&... arguments) {
  const auto run = [&input](const auto& node) {
    at::Tensor y = node->Forward();
    AttachIfNeeded(node, input, &y);
    return y;
  };
  switch (type) {
    case at::kFloat:
      return run(std::make_shared<Node<float>>(arguments...));
    case at::kDouble:
      return run(std::make_shared<Node<double>>(arguments...));
    default:
      throw std::invalid_argument(
          std::string("an own kernel takes float or double, not ") +
          c10::toString(type));
  }
}

// A tensor that nothing was written to, on the CPU.
at::Tensor Uninitialised(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace stagecoach::worker::kernels

#endif  // STAGECOACH_STAGE_WORKER_KERNELS_BLOCK_NODE_H_

#include "stage_worker/kernels/gpt2_block.h"

#include <string>
#include <utility>
#include <vector>

#include "stage_worker/kernels/attention.h"
#include "stage_worker/kernels/block_node.h"
#include "stage_worker/kernels/norm.h"
#include "stage_worker/kernels/token_matrices.h"

namespace stagecoach::worker::kernels {
namespace {

template <typename T>
class Gpt2BlockNode final : public BlockNode {
 public:
  Gpt2BlockNode(const Gpt2Block& block, const at::Tensor& x)
      : block_(block),
        x_(x.detach()),
        rows_(x.size(0)),
        sequence_(x.size(1)),
        hidden_(x.size(2)),
        m_(rows_ * sequence_),
        inner_(block.c_fc.outputs()) {}

  at::Tensor Forward();
  std::string name() const override { return "Gpt2Block"; }
  // A deferred node keeps what RunWeights needs.
  void release_variables() override {
    if (!deferred()) Release();
  }

 protected:
  std::vector<at::Tensor> Saved() const override {
    return {x_,        x1_,       norm_1_, norm_2_,  qkv_, attended_,
            log_sums_, inner_of_, dy_,     d_inner_, dx1_, dqkv_};
  }
  at::Tensor Backward(at::Tensor dy) override;
  bool Trains() const override { return block_.Trains(); }
  void AddWeightGradients() override;

 private:
  NormShape<T> Norm(const Parameter& weight, const Parameter& bias) const {
    return {m_.tokens(), hidden_, block_.epsilon, weight.Value<T>(),
            bias.Value<T>()};
  }
  NormShape<T> Norm1() const {
    return Norm(block_.ln_1_weight, block_.ln_1_bias);
  }
  NormShape<T> Norm2() const {
    return Norm(block_.ln_2_weight, block_.ln_2_bias);
  }
  // Means, then inverse deviations.
  NormStatistics<T> Statistics(const at::Tensor& of) const {
    return {Data<T>(of), Data<T>(of) + m_.tokens()};
  }
  AttentionShape Attention() const;
  void Release();
  void BackwardOfMlp();
  at::Tensor BackwardOfAttention();

  // The weight gradients of the four layers; they leave all tensors alone.
  void OutputWeights();
  void InnerWeights();
  void ProjectionWeights();
  void AttentionWeights();

  const Gpt2Block& block_;
  at::Tensor x_;
  const int64_t rows_;
  const int64_t sequence_;
  const int64_t hidden_;
  const TokenMatrices<T> m_;
  const int64_t inner_;

  at::Tensor norm_1_;
  at::Tensor norm_2_;
  at::Tensor qkv_;
  at::Tensor log_sums_;
  at::Tensor attended_;
  at::Tensor x1_;
  at::Tensor inner_of_;  // before the activation

  at::Tensor dy_;
  at::Tensor d_inner_;
  at::Tensor dx1_;
  at::Tensor dqkv_;
};

template <typename T>
AttentionShape Gpt2BlockNode<T>::Attention() const {
  AttentionShape shape;
  shape.rows = rows_;
  shape.sequence = sequence_;
  shape.heads = shape.key_value_heads = block_.heads;
  shape.width = hidden_ / block_.heads;
  shape.scale = block_.score_scale;
  return shape;
}

template <typename T>
at::Tensor Gpt2BlockNode<T>::Forward() {
  const GemmLibrary library = block_.library;
  norm_1_ = m_.NewOf({2, m_.tokens()});
  at::Tensor normed = m_.New(hidden_);
  NormForward(Norm1(), Read<T>(x_), Statistics(norm_1_), Data<T>(normed));
  qkv_ = m_.New(3 * hidden_);
  block_.c_attn.Forward<T>(library, m_.ReadRows(normed), nullptr,
                           m_.Rows(qkv_));
  attended_ = m_.New(hidden_);
  log_sums_ = m_.NewOf({rows_, block_.heads, sequence_});
  AttentionForward<T>(Attention(), m_.ReadPart(qkv_, 0, 3),
                      m_.ReadPart(qkv_, 1, 3), m_.ReadPart(qkv_, 2, 3),
                      m_.Part(attended_), Data<T>(log_sums_));
  x1_ = m_.New(hidden_);
  block_.attn_c_proj.Forward<T>(library, m_.ReadRows(attended_), Read<T>(x_),
                                m_.Rows(x1_));
  norm_2_ = m_.NewOf({2, m_.tokens()});
  NormForward(Norm2(), Read<T>(x1_), Statistics(norm_2_), Data<T>(normed));
  inner_of_ = m_.New(inner_);
  block_.c_fc.Forward<T>(library, m_.ReadRows(normed), nullptr,
                         m_.Rows(inner_of_));
  normed.reset();
  const at::Tensor activated = m_.New(inner_);
  ActivationForward(block_.activation, Read<T>(inner_of_), m_.tokens() * inner_,
                    Data<T>(activated));
  at::Tensor y = m_.NewOf(x_.sizes());
  block_.mlp_c_proj.Forward<T>(library, m_.ReadRows(activated), Read<T>(x1_),
                               m_.Rows(y));
  return y;
}

template <typename T>
at::Tensor Gpt2BlockNode<T>::Backward(at::Tensor dy) {
  dy_ = std::move(dy);
  BackwardOfMlp();
  return BackwardOfAttention();
}

// From dy_ to dx1_.
template <typename T>
void Gpt2BlockNode<T>::BackwardOfMlp() {
  const GemmLibrary library = block_.library;
  d_inner_ = m_.New(inner_);
  block_.mlp_c_proj.InputGradient<T>(library, m_.ReadRows(dy_),
                                     m_.Rows(d_inner_));
  ActivationBackward(block_.activation, Read<T>(inner_of_),
                     m_.tokens() * inner_, Data<T>(d_inner_));
  if (!deferred()) {
    OutputWeights();
    inner_of_.reset();
  }
  // First the gradient of the norm's output.
  dx1_ = m_.New(hidden_);
  block_.c_fc.InputGradient<T>(library, m_.ReadRows(d_inner_), m_.Rows(dx1_));
  if (!deferred()) {
    InnerWeights();
    d_inner_.reset();
  }
  NormWeightGradient(Norm2(), Read<T>(x1_), Statistics(norm_2_), Read<T>(dx1_),
                     block_.ln_2_weight.Gradient<T>(),
                     block_.ln_2_bias.Gradient<T>());
  NormInputGradient(Norm2(), Read<T>(x1_), Statistics(norm_2_), Read<T>(dx1_),
                    Read<T>(dy_), Data<T>(dx1_));
  if (deferred()) return;
  dy_.reset();
  x1_.reset();
  norm_2_.reset();
}

// From dx1_ to the gradient of x.
template <typename T>
at::Tensor Gpt2BlockNode<T>::BackwardOfAttention() {
  const GemmLibrary library = block_.library;
  // In turn the gradient of attention's output, of the norm's, and of x.
  at::Tensor dx = m_.NewOf(x_.sizes());
  block_.attn_c_proj.InputGradient<T>(library, m_.ReadRows(dx1_), m_.Rows(dx));
  if (!deferred()) ProjectionWeights();
  dqkv_ = m_.New(3 * hidden_);
  AttentionBackward<T>(
      Attention(), m_.ReadPart(qkv_, 0, 3), m_.ReadPart(qkv_, 1, 3),
      m_.ReadPart(qkv_, 2, 3), m_.ReadPart(attended_), Read<T>(log_sums_),
      m_.ReadPart(dx),
      {m_.Part(dqkv_, 0, 3), m_.Part(dqkv_, 1, 3), m_.Part(dqkv_, 2, 3)});
  qkv_.reset();
  log_sums_.reset();
  if (!deferred()) attended_.reset();
  block_.c_attn.InputGradient<T>(library, m_.ReadRows(dqkv_), m_.Rows(dx));
  if (!deferred()) {
    AttentionWeights();
    dqkv_.reset();
  }
  NormWeightGradient(Norm1(), Read<T>(x_), Statistics(norm_1_), Read<T>(dx),
                     block_.ln_1_weight.Gradient<T>(),
                     block_.ln_1_bias.Gradient<T>());
  NormInputGradient(Norm1(), Read<T>(x_), Statistics(norm_1_), Read<T>(dx),
                    Read<T>(dx1_), Data<T>(dx));
  if (!deferred()) Release();
  return dx;
}

template <typename T>
void Gpt2BlockNode<T>::OutputWeights() {
  if (!block_.mlp_c_proj.Trains()) return;
  const at::Tensor activated = m_.New(inner_);
  ActivationForward(block_.activation, Read<T>(inner_of_), m_.tokens() * inner_,
                    Data<T>(activated));
  block_.mlp_c_proj.AddWeightGradient<T>(block_.library, m_.ReadRows(activated),
                                         m_.ReadRows(dy_));
}

template <typename T>
void Gpt2BlockNode<T>::InnerWeights() {
  if (!block_.c_fc.Trains()) return;
  const at::Tensor normed = m_.New(hidden_);
  ApplyNorm(Norm2(), Read<T>(x1_), Statistics(norm_2_), Data<T>(normed));
  block_.c_fc.AddWeightGradient<T>(block_.library, m_.ReadRows(normed),
                                   m_.ReadRows(d_inner_));
}

template <typename T>
void Gpt2BlockNode<T>::ProjectionWeights() {
  block_.attn_c_proj.AddWeightGradient<T>(
      block_.library, m_.ReadRows(attended_), m_.ReadRows(dx1_));
}

template <typename T>
void Gpt2BlockNode<T>::AttentionWeights() {
  if (!block_.c_attn.Trains()) return;
  const at::Tensor normed = m_.New(hidden_);
  ApplyNorm(Norm1(), Read<T>(x_), Statistics(norm_1_), Data<T>(normed));
  block_.c_attn.AddWeightGradient<T>(block_.library, m_.ReadRows(normed),
                                     m_.ReadRows(dqkv_));
}

template <typename T>
void Gpt2BlockNode<T>::AddWeightGradients() {
  OutputWeights();
  inner_of_.reset();
  dy_.reset();
  InnerWeights();
  d_inner_.reset();
  x1_.reset();
  ProjectionWeights();
  attended_.reset();
  dx1_.reset();
  AttentionWeights();
  Release();
}

template <typename T>
void Gpt2BlockNode<T>::Release() {
  for (at::Tensor* tensor :
       {&x_, &norm_1_, &norm_2_, &qkv_, &log_sums_, &attended_, &x1_,
        &inner_of_, &dy_, &d_inner_, &dx1_, &dqkv_}) {
    tensor->reset();
  }
}

}  // namespace

at::Tensor RunGpt2Block(const Gpt2Block& block, const at::Tensor& x) {
  const at::Tensor input = x.contiguous();
  return RunNode<Gpt2BlockNode>(input.scalar_type(), input, block, input);
}

}  // namespace stagecoach::worker::kernels

#include "stage_worker/kernels/llama_block.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "stage_worker/kernels/attention.h"
#include "stage_worker/kernels/block_node.h"
#include "stage_worker/kernels/norm.h"
#include "stage_worker/kernels/rotary.h"
#include "stage_worker/kernels/token_matrices.h"

namespace stagecoach::worker::kernels {
namespace {

// Queries or keys, from the linear layer to attention.
struct Turned {
  at::Tensor before_norm;  // undefined where there is no norm
  at::Tensor statistics;
  at::Tensor turned;
};

template <typename T>
class LlamaBlockNode final : public BlockNode {
 public:
  LlamaBlockNode(const LlamaBlock& block, const at::Tensor& x)
      : block_(block),
        x_(x.detach()),
        rows_(x.size(0)),
        sequence_(x.size(1)),
        hidden_(x.size(2)),
        m_(rows_ * sequence_),
        inner_(block.gate_proj.outputs()) {}

  at::Tensor Forward();
  std::string name() const override { return "LlamaBlock"; }
  // A deferred node keeps what RunWeights needs.
  void release_variables() override {
    if (!deferred()) Release();
  }

 protected:
  std::vector<at::Tensor> Saved() const override {
    return {x_,
            x1_,
            norm_1_,
            norm_2_,
            query_.turned,
            query_.before_norm,
            query_.statistics,
            key_.turned,
            key_.before_norm,
            key_.statistics,
            value_,
            attended_,
            log_sums_,
            gate_,
            up_,
            dy_,
            d_gate_,
            d_up_,
            dx1_,
            d_query_,
            d_key_,
            d_value_};
  }
  at::Tensor Backward(at::Tensor dy) override;
  bool Trains() const override { return block_.Trains(); }
  void AddWeightGradients() override;

 private:
  NormShape<T> Norm(const Parameter& weight) const {
    return {m_.tokens(), hidden_, block_.epsilon, weight.Value<T>(), nullptr};
  }
  NormShape<T> HeadNorm(const Parameter& weight, int64_t heads) const {
    return {m_.tokens() * heads, block_.head_width, block_.epsilon,
            weight.Value<T>(), nullptr};
  }
  static NormStatistics<T> Statistics(const at::Tensor& of) {
    return {nullptr, Data<T>(of)};
  }
  Rotation<T> Positions() const {
    return {Read<T>(*block_.cosine), Read<T>(*block_.sine), sequence_,
            block_.head_width};
  }
  AttentionShape Attention() const;

  at::Tensor Project(const Linear& layer, const at::Tensor& x) const;
  Turned Turn(const Linear& layer, const Parameter& norm, int64_t heads,
              const at::Tensor& x) const;
  // From the gradient of what attention took to that of the layer's output, in
  // place.
  void TurnBack(const Parameter& norm, int64_t heads, const Turned& forward,
                const at::Tensor& gradient) const;
  at::Tensor Normed(const Parameter& weight, const at::Tensor& x,
                    const at::Tensor& statistics) const;

  void BackwardOfMlp();
  at::Tensor BackwardOfAttention();
  // The weight gradients; they leave all tensors alone.
  void OutputWeights();
  void InnerWeights();
  void ProjectionWeights();
  void AttentionWeights();
  void Release();

  const LlamaBlock& block_;
  at::Tensor x_;
  const int64_t rows_;
  const int64_t sequence_;
  const int64_t hidden_;
  const TokenMatrices<T> m_;
  const int64_t inner_;

  at::Tensor norm_1_;
  at::Tensor norm_2_;
  Turned query_;
  Turned key_;
  at::Tensor value_;
  at::Tensor log_sums_;
  at::Tensor attended_;
  at::Tensor x1_;
  at::Tensor gate_;
  at::Tensor up_;

  at::Tensor dy_;
  at::Tensor d_gate_;
  at::Tensor d_up_;
  at::Tensor dx1_;
  at::Tensor d_query_;
  at::Tensor d_key_;
  at::Tensor d_value_;
};

template <typename T>
AttentionShape LlamaBlockNode<T>::Attention() const {
  AttentionShape shape;
  shape.rows = rows_;
  shape.sequence = sequence_;
  shape.heads = block_.heads;
  shape.key_value_heads = block_.key_value_heads;
  shape.width = block_.head_width;
  shape.scale = 1 / std::sqrt(static_cast<double>(block_.head_width));
  shape.window = block_.window < sequence_ ? block_.window : 0;
  return shape;
}

template <typename T>
at::Tensor LlamaBlockNode<T>::Project(const Linear& layer,
                                      const at::Tensor& x) const {
  at::Tensor y = m_.New(layer.outputs());
  layer.Forward<T>(block_.library, m_.ReadRows(x), nullptr, m_.Rows(y));
  return y;
}

template <typename T>
Turned LlamaBlockNode<T>::Turn(const Linear& layer, const Parameter& norm,
                               int64_t heads, const at::Tensor& x) const {
  Turned result;
  result.turned = Project(layer, x);
  if (norm) {
    result.before_norm = result.turned;
    result.turned = m_.New(layer.outputs());
    result.statistics = m_.New(heads);
    NormForward(HeadNorm(norm, heads), Read<T>(result.before_norm),
                Statistics(result.statistics), Data<T>(result.turned));
  }
  Rotate(Positions(), m_.tokens(), heads, Data<T>(result.turned));
  return result;
}

template <typename T>
void LlamaBlockNode<T>::TurnBack(const Parameter& norm, int64_t heads,
                                 const Turned& forward,
                                 const at::Tensor& gradient) const {
  RotateGradient(Positions(), m_.tokens(), heads, Data<T>(gradient));
  if (!norm) return;
  const NormShape<T> shape = HeadNorm(norm, heads);
  const NormStatistics<T> statistics = Statistics(forward.statistics);
  const T* const x = Read<T>(forward.before_norm);
  NormWeightGradient<T>(shape, x, statistics, Read<T>(gradient),
                        norm.Gradient<T>(), nullptr);
  NormInputGradient<T>(shape, x, statistics, Read<T>(gradient), nullptr,
                       Data<T>(gradient));
}

template <typename T>
at::Tensor LlamaBlockNode<T>::Normed(const Parameter& weight,
                                     const at::Tensor& x,
                                     const at::Tensor& statistics) const {
  at::Tensor normed = m_.New(hidden_);
  ApplyNorm(Norm(weight), Read<T>(x), Statistics(statistics), Data<T>(normed));
  return normed;
}

template <typename T>
at::Tensor LlamaBlockNode<T>::Forward() {
  at::Tensor normed = m_.New(hidden_);
  norm_1_ = m_.New(1);
  NormForward(Norm(block_.input_norm), Read<T>(x_), Statistics(norm_1_),
              Data<T>(normed));
  query_ = Turn(block_.q_proj, block_.q_norm, block_.heads, normed);
  key_ = Turn(block_.k_proj, block_.k_norm, block_.key_value_heads, normed);
  value_ = Project(block_.v_proj, normed);
  attended_ = m_.New(block_.q_proj.outputs());
  log_sums_ = m_.New(block_.heads);
  AttentionForward<T>(Attention(), m_.ReadPart(query_.turned),
                      m_.ReadPart(key_.turned), m_.ReadPart(value_),
                      m_.Part(attended_), Data<T>(log_sums_));
  x1_ = m_.New(hidden_);
  block_.o_proj.Forward<T>(block_.library, m_.ReadRows(attended_), Read<T>(x_),
                           m_.Rows(x1_));
  norm_2_ = m_.New(1);
  NormForward(Norm(block_.post_attention_norm), Read<T>(x1_),
              Statistics(norm_2_), Data<T>(normed));
  gate_ = Project(block_.gate_proj, normed);
  up_ = Project(block_.up_proj, normed);
  normed.reset();
  const at::Tensor product = m_.New(inner_);
  GateForward(block_.activation, Read<T>(gate_), Read<T>(up_), gate_.numel(),
              Data<T>(product));
  at::Tensor y = m_.NewOf(x_.sizes());
  block_.down_proj.Forward<T>(block_.library, m_.ReadRows(product),
                              Read<T>(x1_), m_.Rows(y));
  return y;
}

template <typename T>
at::Tensor LlamaBlockNode<T>::Backward(at::Tensor dy) {
  dy_ = std::move(dy);
  BackwardOfMlp();
  return BackwardOfAttention();
}

// From dy_ to dx1_.
template <typename T>
void LlamaBlockNode<T>::BackwardOfMlp() {
  const GemmLibrary library = block_.library;
  d_gate_ = m_.New(inner_);
  d_up_ = m_.New(inner_);
  block_.down_proj.InputGradient<T>(library, m_.ReadRows(dy_),
                                    m_.Rows(d_gate_));
  GateBackward(block_.activation, Read<T>(gate_), Read<T>(up_),
               Read<T>(d_gate_), gate_.numel(), Data<T>(d_gate_),
               Data<T>(d_up_));
  if (!deferred()) {
    OutputWeights();
    gate_.reset();
    up_.reset();
  }
  // First the gradient of the norm's output.
  dx1_ = m_.New(hidden_);
  block_.gate_proj.InputGradient<T>(library, m_.ReadRows(d_gate_),
                                    m_.Rows(dx1_));
  block_.up_proj.InputGradient<T>(library, m_.ReadRows(d_up_), m_.Rows(dx1_),
                                  /*beta=*/1);
  if (!deferred()) {
    InnerWeights();
    d_gate_.reset();
    d_up_.reset();
  }
  const NormShape<T> norm = Norm(block_.post_attention_norm);
  NormWeightGradient<T>(norm, Read<T>(x1_), Statistics(norm_2_), Read<T>(dx1_),
                        block_.post_attention_norm.Gradient<T>(), nullptr);
  NormInputGradient(norm, Read<T>(x1_), Statistics(norm_2_), Read<T>(dx1_),
                    Read<T>(dy_), Data<T>(dx1_));
  if (deferred()) return;
  dy_.reset();
  x1_.reset();
  norm_2_.reset();
}

// From dx1_ to the gradient of x.
template <typename T>
at::Tensor LlamaBlockNode<T>::BackwardOfAttention() {
  const GemmLibrary library = block_.library;
  at::Tensor d_attended = m_.New(block_.q_proj.outputs());
  block_.o_proj.InputGradient<T>(library, m_.ReadRows(dx1_),
                                 m_.Rows(d_attended));
  if (!deferred()) ProjectionWeights();
  d_query_ = m_.New(block_.q_proj.outputs());
  d_key_ = m_.New(block_.k_proj.outputs());
  d_value_ = m_.New(block_.v_proj.outputs());
  AttentionBackward<T>(Attention(), m_.ReadPart(query_.turned),
                       m_.ReadPart(key_.turned), m_.ReadPart(value_),
                       m_.ReadPart(attended_), Read<T>(log_sums_),
                       m_.ReadPart(d_attended),
                       {m_.Part(d_query_), m_.Part(d_key_), m_.Part(d_value_)});
  d_attended.reset();
  TurnBack(block_.q_norm, block_.heads, query_, d_query_);
  TurnBack(block_.k_norm, block_.key_value_heads, key_, d_key_);
  query_ = key_ = Turned();
  value_.reset();
  log_sums_.reset();
  if (!deferred()) attended_.reset();
  // First the gradient of the norm's output.
  at::Tensor dx = m_.NewOf(x_.sizes());
  block_.q_proj.InputGradient<T>(library, m_.ReadRows(d_query_), m_.Rows(dx));
  block_.k_proj.InputGradient<T>(library, m_.ReadRows(d_key_), m_.Rows(dx),
                                 /*beta=*/1);
  block_.v_proj.InputGradient<T>(library, m_.ReadRows(d_value_), m_.Rows(dx),
                                 /*beta=*/1);
  if (!deferred()) AttentionWeights();
  const NormShape<T> norm = Norm(block_.input_norm);
  NormWeightGradient<T>(norm, Read<T>(x_), Statistics(norm_1_), Read<T>(dx),
                        block_.input_norm.Gradient<T>(), nullptr);
  NormInputGradient(norm, Read<T>(x_), Statistics(norm_1_), Read<T>(dx),
                    Read<T>(dx1_), Data<T>(dx));
  if (!deferred()) Release();
  return dx;
}

template <typename T>
void LlamaBlockNode<T>::OutputWeights() {
  if (!block_.down_proj.Trains()) return;
  const at::Tensor product = m_.New(inner_);
  GateForward(block_.activation, Read<T>(gate_), Read<T>(up_), gate_.numel(),
              Data<T>(product));
  block_.down_proj.AddWeightGradient<T>(block_.library, m_.ReadRows(product),
                                        m_.ReadRows(dy_));
}

template <typename T>
void LlamaBlockNode<T>::InnerWeights() {
  if (!block_.gate_proj.Trains() && !block_.up_proj.Trains()) return;
  const at::Tensor normed = Normed(block_.post_attention_norm, x1_, norm_2_);
  block_.gate_proj.AddWeightGradient<T>(block_.library, m_.ReadRows(normed),
                                        m_.ReadRows(d_gate_));
  block_.up_proj.AddWeightGradient<T>(block_.library, m_.ReadRows(normed),
                                      m_.ReadRows(d_up_));
}

template <typename T>
void LlamaBlockNode<T>::ProjectionWeights() {
  block_.o_proj.AddWeightGradient<T>(block_.library, m_.ReadRows(attended_),
                                     m_.ReadRows(dx1_));
}

template <typename T>
void LlamaBlockNode<T>::AttentionWeights() {
  if (!block_.q_proj.Trains() && !block_.k_proj.Trains() &&
      !block_.v_proj.Trains()) {
    return;
  }
  const at::Tensor normed = Normed(block_.input_norm, x_, norm_1_);
  block_.q_proj.AddWeightGradient<T>(block_.library, m_.ReadRows(normed),
                                     m_.ReadRows(d_query_));
  block_.k_proj.AddWeightGradient<T>(block_.library, m_.ReadRows(normed),
                                     m_.ReadRows(d_key_));
  block_.v_proj.AddWeightGradient<T>(block_.library, m_.ReadRows(normed),
                                     m_.ReadRows(d_value_));
}

template <typename T>
void LlamaBlockNode<T>::AddWeightGradients() {
  OutputWeights();
  gate_.reset();
  up_.reset();
  dy_.reset();
  InnerWeights();
  d_gate_.reset();
  d_up_.reset();
  x1_.reset();
  ProjectionWeights();
  attended_.reset();
  dx1_.reset();
  AttentionWeights();
  Release();
}

template <typename T>
void LlamaBlockNode<T>::Release() {
  query_ = key_ = Turned();
  for (at::Tensor* tensor :
       {&x_, &norm_1_, &norm_2_, &value_, &log_sums_, &attended_, &x1_, &gate_,
        &up_, &dy_, &d_gate_, &d_up_, &dx1_, &d_query_, &d_key_, &d_value_}) {
    tensor->reset();
  }
}

}  // namespace

at::Tensor RunLlamaBlock(const LlamaBlock& block, const at::Tensor& x) {
  const at::Tensor input = x.contiguous();
  return RunNode<LlamaBlockNode>(input.scalar_type(), input, block, input);
}

}  // namespace stagecoach::worker::kernels

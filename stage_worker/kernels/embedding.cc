#include "stage_worker/kernels/embedding.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stage_worker/kernels/block_node.h"
#include "stage_worker/kernels/elementwise.h"

namespace stagecoach::worker::kernels {
namespace {

template <typename T>
class EmbeddingNode final : public BlockNode {
 public:
  EmbeddingNode(const Parameter& table, const Parameter& positions,
                const at::Tensor& tokens)
      : table_(table), positions_(positions), tokens_(tokens.contiguous()) {}

  at::Tensor Forward();
  std::string name() const override { return "Embedding"; }
  void release_variables() override {
    if (!deferred()) tokens_.reset();
  }

 protected:
  std::vector<at::Tensor> Saved() const override { return {tokens_, dy_}; }
  at::Tensor Backward(at::Tensor dy) override {
    dy_ = std::move(dy);
    if (!deferred()) AddWeightGradients();
    return {};
  }
  bool Trains() const override {
    return table_.Trains() || positions_.Trains();
  }
  void AddWeightGradients() override;

 private:
  int64_t hidden() const { return table_.value->size(1); }
  const int64_t* Tokens() const { return tokens_.const_data_ptr<int64_t>(); }
  // Of each token in turn: its position's row, or null.
  template <typename U>
  U* PositionRow(U* positions, int64_t at) const {
    return positions == nullptr ? nullptr
                                : positions + at % tokens_.size(1) * hidden();
  }

  const Parameter table_;
  const Parameter positions_;
  at::Tensor tokens_;
  at::Tensor dy_;
};

template <typename T>
at::Tensor EmbeddingNode<T>::Forward() {
  at::Tensor y = Uninitialised({tokens_.size(0), tokens_.size(1), hidden()},
                               c10::CppTypeToScalarType<T>::value);
  const int64_t entries = table_.value->size(0);
  T* const rows = y.mutable_data_ptr<T>();
  for (int64_t i = 0; i < tokens_.numel(); ++i) {
    const int64_t token = Tokens()[i];
    if (token < 0 || token >= entries) {
      throw std::out_of_range(absl::StrCat(
          "token ", token, " of a vocabulary of ", entries,
          " entries; try a larger model.vocabulary, or other data"));
    }
    FillRows(PositionRow(positions_.Value<T>(), i),
             table_.Value<T>() + token * hidden(),
             RowMajor(rows + i * hidden(), 1, hidden()));
  }
  return y;
}

// Token by token: the order of the sums does not depend on threads.
template <typename T>
void EmbeddingNode<T>::AddWeightGradients() {
  const T* const rows = dy_.const_data_ptr<T>();
  T* const table = table_.Gradient<T>();
  for (int64_t i = 0; i < tokens_.numel(); ++i) {
    const T* const row = rows + i * hidden();
    if (table != nullptr) AddTo(row, hidden(), table + Tokens()[i] * hidden());
    T* const position = PositionRow(positions_.Gradient<T>(), i);
    if (position != nullptr) AddTo(row, hidden(), position);
  }
  dy_.reset();
  tokens_.reset();
}

}  // namespace

at::Tensor RunEmbedding(const Parameter& table, const Parameter& positions,
                        const at::Tensor& tokens) {
  return RunNode<EmbeddingNode>(table.value->scalar_type(), at::Tensor(), table,
                                positions, tokens);
}

}  // namespace stagecoach::worker::kernels

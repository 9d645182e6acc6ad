#include "stage_worker/model/chunked_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace stagecoach::worker {
namespace {

namespace autograd = torch::autograd;

// Of a target that does not count; there is none in our data.
constexpr int64_t kIgnoreIndex = -100;

// Calls `visit` with each piece of the rows and its targets, in order.
template <typename Visit>
void ForEachChunk(const at::Tensor& rows, const at::Tensor& targets,
                  int64_t chunk, Visit visit) {
  for (int64_t begin = 0; begin < rows.size(0); begin += chunk) {
    const int64_t count = std::min(chunk, rows.size(0) - begin);
    visit(begin, rows.narrow(0, begin, count), targets.narrow(0, begin, count));
  }
}

// Keeps what came in and computes the logits again, piece by piece. The kernels
// are those that autograd would run for mm and cross_entropy_loss.
class ChunkedHeadLossBackward final : public autograd::Node {
 public:
  ChunkedHeadLossBackward(const at::Tensor& rows, const at::Tensor& head,
                          const at::Tensor& targets, int64_t chunk)
      : rows_(rows.detach()),
        head_(head.detach()),
        targets_(targets),
        chunk_(chunk) {}

  autograd::variable_list apply(autograd::variable_list&& gradients) override;
  void release_variables() override {
    rows_.reset();
    head_.reset();
    targets_.reset();
  }
  std::string name() const override { return "ChunkedHeadLossBackward"; }
  // The head is a parameter and listed as others list theirs.
  void compiled_args(
      torch::dynamo::autograd::CompiledNodeArgs& args) const override {
    args.collect(rows_);
    args.collect(head_);
    args.collect(targets_);
  }

 private:
  at::Tensor LogitsGradient(const at::Tensor& rows, const at::Tensor& targets,
                            const at::Tensor& gradient) const;

  at::Tensor rows_;
  at::Tensor head_;
  at::Tensor targets_;
  const int64_t chunk_;
};

at::Tensor ChunkedHeadLossBackward::LogitsGradient(
    const at::Tensor& rows, const at::Tensor& targets,
    const at::Tensor& gradient) const {
  const at::Tensor logs =
      at::log_softmax(at::mm(rows, head_.t()).to(at::kFloat), /*dim=*/1);
  const at::Tensor total_weight =
      at::full({}, static_cast<double>(rows.size(0)), logs.options());
  const at::Tensor of_logs =
      at::nll_loss_backward(gradient, logs, targets, /*weight=*/{},
                            at::Reduction::Sum, kIgnoreIndex, total_weight);
  return at::_log_softmax_backward_data(of_logs, logs, /*dim=*/1,
                                        logs.scalar_type())
      .to(rows.scalar_type());
}

autograd::variable_list ChunkedHeadLossBackward::apply(
    autograd::variable_list&& gradients) {
  const at::Tensor gradient = std::move(gradients[0]);
  autograd::variable_list results(2);
  if (!gradient.defined()) return results;
  const bool of_rows = task_should_compute_output(0);
  const bool of_head = task_should_compute_output(1);
  if (of_rows) results[0] = at::empty_like(rows_);
  ForEachChunk(
      rows_, targets_, chunk_,
      [&](int64_t begin, const at::Tensor& rows, const at::Tensor& targets) {
        const at::Tensor logits = LogitsGradient(rows, targets, gradient);
        if (of_rows) {
          at::Tensor part = results[0].narrow(0, begin, rows.size(0));
          at::mm_out(part, logits, head_);
        }
        if (!of_head) return;
        // Pieces are added up in float32.
        if (!results[1].defined()) {
          results[1] = at::mm(logits.t(), rows).to(at::kFloat);
        } else if (rows.scalar_type() == at::kFloat) {
          results[1].addmm_(logits.t(), rows);
        } else {
          results[1].add_(at::mm(logits.t(), rows));
        }
      });
  if (of_head) results[1] = results[1].to(head_.scalar_type());
  return results;
}

}  // namespace

at::Tensor ChunkedHeadLoss(const at::Tensor& rows, const at::Tensor& head,
                           const at::Tensor& targets, int64_t chunk) {
  at::Tensor loss;
  {
    const at::NoGradGuard no_grad;
    ForEachChunk(rows, targets, chunk,
                 [&](int64_t /*begin*/, const at::Tensor& part,
                     const at::Tensor& part_targets) {
                   const at::Tensor sum = at::cross_entropy_loss(
                       at::mm(part, head.t()).to(at::kFloat), part_targets,
                       /*weight=*/{}, at::Reduction::Sum);
                   loss = loss.defined() ? loss.add_(sum) : sum;
                 });
  }
  if (!at::GradMode::is_enabled() ||
      (!rows.requires_grad() && !head.requires_grad())) {
    return loss;
  }
  auto node =
      std::make_shared<ChunkedHeadLossBackward>(rows, head, targets, chunk);
  node->set_next_edges(autograd::collect_next_edges(rows, head));
  autograd::create_gradient_edge(loss, std::move(node));
  return loss;
}

}  // namespace stagecoach::worker

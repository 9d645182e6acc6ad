// A small vision transformer as a plugin of Stagecoach: classifies square
// images of bytes. docs/plugins.md says how to build and run it.
//
// A sample is an image and behind it its class: with data.kind = "text",
// sequence_length = image * image, stride = sequence_length + 1 and targets =
// "last" the file is just such records. model.options: "image patch classes".
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stagecoach/plugin.h"

namespace {

using stagecoach::plugin::Parameter;
using stagecoach::plugin::Position;
using stagecoach::plugin::Stage;
using stagecoach::plugin::StageInfo;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// relu(x)^2 (So et al., Primer, 2021), with a backward of its own.
class SquaredRelu : public torch::autograd::Function<SquaredRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor positive = x.clamp_min(0);
    context->save_for_backward({positive});
    return positive * positive;
  }
  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {gradients[0] * saved[0] * 2};
  }
};

struct Sizes {
  int64_t image = 0;
  int64_t patch = 0;
  int64_t classes = 0;

  int64_t side() const { return image / patch; }
  int64_t patches() const { return side() * side(); }
};

Sizes SizesOf(const StageInfo& info) {
  Sizes sizes;
  std::istringstream text(info.options);
  text >> sizes.image >> sizes.patch >> sizes.classes;
  if (!text || sizes.patch < 1 || sizes.image % sizes.patch != 0 ||
      sizes.image * sizes.image != info.sequence_length || info.hidden < 1 ||
      info.heads < 1 || info.hidden % info.heads != 0) {
    throw std::invalid_argument(
        "model.options must be \"image patch classes\", patch a divisor of "
        "image, and data.sequence_length image x image; model.heads must "
        "divide model.hidden");
  }
  return sizes;
}

// FNV-1a: what is drawn depends on seed and name alone.
uint64_t KeyOf(int64_t seed, const std::string& name) {
  uint64_t hash = 0xCBF29CE484222325U ^ static_cast<uint64_t>(seed);
  for (const char byte : name) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  }
  return hash ^ (hash >> 32);
}

struct Linear {
  at::Tensor weight;  // [in, out]
  at::Tensor bias;

  at::Tensor operator()(const at::Tensor& x) const {
    return at::matmul(x, weight) + bias;
  }
};

struct Norm {
  at::Tensor weight;
  at::Tensor bias;

  at::Tensor operator()(const at::Tensor& x) const {
    return at::layer_norm(x, weight.sizes(), weight, bias, 1e-5);
  }
};

struct Block {
  Norm attention_norm;
  Linear query_key_value;
  Linear projection;
  Norm mlp_norm;
  Linear up;
  Linear down;
};

class VisionTransformer final : public Stage {
 public:
  explicit VisionTransformer(const StageInfo& info);

  std::vector<Parameter> parameters() override { return parameters_; }
  std::vector<at::Tensor> Forward(std::vector<at::Tensor> inputs,
                                  const at::Tensor& targets,
                                  const Position& position) override;

 private:
  at::Tensor Add(const std::string& name, at::IntArrayRef shape, double value,
                 double deviation);
  Linear NewLinear(const std::string& name, int64_t in, int64_t out);
  Norm NewNorm(const std::string& name);
  at::Tensor Embed(const at::Tensor& bytes) const;
  at::Tensor Attend(const Block& block, const at::Tensor& x) const;

  const StageInfo info_;
  const Sizes sizes_;
  std::vector<Parameter> parameters_;
  Linear patch_;
  at::Tensor positions_;
  std::vector<Block> blocks_;
  Norm norm_;
  Linear head_;
};

VisionTransformer::VisionTransformer(const StageInfo& info)
    : info_(info), sizes_(SizesOf(info)) {
  const int64_t hidden = info.hidden;
  if (info.first) {
    patch_ = NewLinear("patch", sizes_.patch * sizes_.patch, hidden);
    positions_ = Add("positions", {sizes_.patches(), hidden}, 0, 0.02);
  }
  for (int64_t layer = info.layer_begin; layer < info.layer_end; ++layer) {
    const std::string name = "blocks." + std::to_string(layer) + ".";
    Block block;
    block.attention_norm = NewNorm(name + "attention_norm");
    block.query_key_value = NewLinear(name + "qkv", hidden, 3 * hidden);
    block.projection = NewLinear(name + "projection", hidden, hidden);
    block.mlp_norm = NewNorm(name + "mlp_norm");
    block.up = NewLinear(name + "up", hidden, 2 * hidden);
    block.down = NewLinear(name + "down", 2 * hidden, hidden);
    blocks_.push_back(std::move(block));
  }
  if (info.last) {
    norm_ = NewNorm("norm");
    head_ = NewLinear("head", hidden, sizes_.classes);
  }
}

at::Tensor VisionTransformer::Add(const std::string& name,
                                  at::IntArrayRef shape, double value,
                                  double deviation) {
  at::Tensor tensor = at::full(shape, value);
  if (deviation > 0) {
    tensor.normal_(
        0, deviation,
        at::make_generator<at::CPUGeneratorImpl>(KeyOf(info_.seed, name)));
  }
  tensor.requires_grad_(true);
  parameters_.push_back({name, tensor});
  return tensor;
}

Linear VisionTransformer::NewLinear(const std::string& name, int64_t in,
                                    int64_t out) {
  Linear linear;
  linear.weight = Add(name + ".weight", {in, out}, 0,
                      1 / std::sqrt(static_cast<double>(in)));
  linear.bias = Add(name + ".bias", {out}, 0, 0);
  return linear;
}

Norm VisionTransformer::NewNorm(const std::string& name) {
  Norm norm;
  norm.weight = Add(name + ".weight", {info_.hidden}, 1, 0);
  norm.bias = Add(name + ".bias", {info_.hidden}, 0, 0);
  return norm;
}

at::Tensor VisionTransformer::Embed(const at::Tensor& bytes) const {
  const int64_t side = sizes_.side();
  const int64_t patch = sizes_.patch;
  const at::Tensor image = bytes.to(at::kFloat) / 127.5 - 1;
  const at::Tensor patches =
      image.view({-1, side, patch, side, patch})
          .transpose(2, 3)
          .reshape({-1, sizes_.patches(), patch * patch});
  return patch_(patches) + positions_;
}

at::Tensor VisionTransformer::Attend(const Block& block,
                                     const at::Tensor& x) const {
  const std::vector<at::Tensor> parts =
      block.query_key_value(x).split(info_.hidden, /*dim=*/2);
  const auto heads = [&](const at::Tensor& part) {
    return part
        .view({x.size(0), x.size(1), info_.heads, info_.hidden / info_.heads})
        .transpose(1, 2);
  };
  return block.projection(at::scaled_dot_product_attention(
                              heads(parts[0]), heads(parts[1]), heads(parts[2]))
                              .transpose(1, 2)
                              .reshape(x.sizes()));
}

std::vector<at::Tensor> VisionTransformer::Forward(
    std::vector<at::Tensor> inputs, const at::Tensor& targets,
    const Position& /*position*/) {
  at::Tensor x = std::move(inputs[0]);
  if (info_.first) x = Embed(x);
  for (const Block& block : blocks_) {
    x = x + Attend(block, block.attention_norm(x));
    x = x + block.down(SquaredRelu::apply(block.up(block.mlp_norm(x))));
  }
  if (!info_.last) return {x};
  const at::Tensor logits = head_(norm_(x).mean(/*dim=*/1));
  return {at::cross_entropy_loss(logits, targets, /*weight=*/{},
                                 at::Reduction::Sum)};
}

std::unique_ptr<Stage> NewStage(const StageInfo& info) {
  return std::make_unique<VisionTransformer>(info);
}

}  // namespace

STAGECOACH_PLUGIN(NewStage)

#ifndef STAGECOACH_JOB_MODEL_CONFIG_H_
#define STAGECOACH_JOB_MODEL_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagecoach::job {

enum class Activation { kGeluTanh, kGelu, kSilu, kRelu };

// How a Llama turns positions into angles; docs/models.md has the formulas.
enum class RopeType { kDefault, kLinear, kDynamic, kLlama3, kYarn };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  double factor = 1;                 // not for kDefault
  int64_t original_positions = 0;    // kLlama3, kYarn: what it was trained with
  double low_frequency_factor = 1;   // kLlama3
  double high_frequency_factor = 4;  // kLlama3
  double beta_fast = 32;             // kYarn
  double beta_slow = 1;              // kYarn
  bool truncate = true;              // kYarn: whole bounds of the ramp
  // kYarn: what cosine and sine are multiplied by.
  double attention_factor = 1;
};

// What describes a model beyond the sizes of a job spec. Plain data.
struct ModelConfig {
  int64_t inner = 0;      // width between the two halves of the MLP
  int64_t positions = 0;  // the longest sequence that it is meant for
  double norm_epsilon = 1e-5;
  double initializer_range = 0.02;  // deviation of weights that are drawn
  Activation activation = Activation::kGeluTanh;

  // Of attention's weights; GPT-2: of the embeddings' sum, and of what
  // attention and MLP add to the residual stream.
  double attention_dropout = 0;
  double embedding_dropout = 0;
  double residual_dropout = 0;

  bool has_dropout() const {
    return attention_dropout > 0 || embedding_dropout > 0 ||
           residual_dropout > 0;
  }

  // GPT-2: scores are divided by sqrt(head width), and by layer + 1.
  bool scale_scores = true;
  bool scale_scores_by_layer = false;

  // Llama.
  int64_t key_value_heads = 0;
  int64_t head_width = 0;
  bool query_key_value_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool query_key_norm = false;
  RopeConfig rope;
  // Tokens that a token sees, itself included, in the layers marked here;
  // 0: all before it, in every layer.
  int64_t sliding_window = 0;
  std::vector<bool> sliding_layers;

  int64_t WindowOfLayer(int64_t layer) const {
    return sliding_window > 0 && sliding_layers[static_cast<size_t>(layer)]
               ? sliding_window
               : 0;
  }
};

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_MODEL_CONFIG_H_

#include "stage_worker/model/weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "job/hf_config.h"
#include "job/model_shape.h"
#include "stage_worker/checkpoint/safetensors_writer.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {
namespace {

using absl::StatusCode;
using Tensors = std::map<std::string, at::Tensor>;

constexpr char kLlama[] = R"({
  "model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
  "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 40,
  "tie_word_embeddings": TIED})";
constexpr char kGpt2[] = R"({
  "model_type": "gpt2", "n_layer": 3, "n_embd": 16, "n_head": 4,
  "vocab_size": 40, "n_positions": 12, "tie_word_embeddings": TIED,
  "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0})";

class WeightsTest : public testing::Test {
 protected:
  // The spec of a checkpoint whose tensors are to be written.
  void Use(std::string config, bool tied) {
    config.replace(config.find("TIED"), 4, tied ? "true" : "false");
    auto model = job::ParseHfConfig(config, "config.json");
    ASSERT_TRUE(model.ok()) << model.status();
    spec_.model = *std::move(model);
    spec_.data.sequence_length = 8;
    const auto* const test =
        testing::UnitTest::GetInstance()->current_test_info();
    spec_.model.checkpoint =
        absl::StrCat(testing::TempDir(), "weights_", test->name());
    std::filesystem::remove_all(spec_.model.checkpoint);
    std::filesystem::create_directory(spec_.model.checkpoint);
    tensors_.clear();
    for (const job::ParameterShape& shape :
         job::StageParameters(spec_, Stage(0, 3).layers)) {
      if (!shape.tied_copy) tensors_[shape.name] = at::randn(shape.shape);
    }
  }

  StageAssignment Stage(int64_t begin, int64_t end) const {
    StageAssignment stage;
    stage.layers.begin = begin;
    stage.layers.end = end;
    stage.first = begin == 0;
    stage.last = end == spec_.model.layers;
    return stage;
  }

  void WriteTo(const std::string& file, const Tensors& tensors) {
    std::vector<checkpoint::TensorToWrite> list;
    for (const auto& [name, value] : tensors) {
      checkpoint::TensorToWrite tensor;
      tensor.name = name;
      tensor.descriptor.shape = value.sizes().vec();
      tensor.descriptor.dtype =
          value.scalar_type() == at::kBFloat16 ? DType::kBFloat16
          : value.scalar_type() == at::kHalf   ? DType::kFloat16
          : value.scalar_type() == at::kLong   ? DType::kInt64
                                               : DType::kFloat32;
      tensor.data = value.const_data_ptr();
      list.push_back(tensor);
    }
    const auto written = checkpoint::WriteSafetensors(
        absl::StrCat(spec_.model.checkpoint, "/", file), list, {});
    ASSERT_TRUE(written.ok()) << written.status();
  }
  void Write() { WriteTo("model.safetensors", tensors_); }

  absl::Status Load(int64_t begin, int64_t end) {
    auto model = NewStageModel(spec_, Stage(begin, end));
    if (!model.ok()) return model.status();
    model_ = *std::move(model);
    for (StageParameter* parameter : model_->parameters()) {
      parameter->value = at::zeros(parameter->shape);
      parameter->initialise(parameter->value);
    }
    return absl::OkStatus();
  }
  // Every stage of every cut holds the written values.
  void ExpectLoads() {
    for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 3}, {0, 1}, {1, 2}, {2, 3}}) {
      const absl::Status status = Load(begin, end);
      ASSERT_TRUE(status.ok()) << status;
      for (const StageParameter* parameter : model_->parameters()) {
        EXPECT_TRUE(
            at::equal(parameter->value,
                      tensors_.at(parameter->stored_name()).to(at::kFloat)))
            << parameter->name;
      }
    }
  }
  void ExpectRefused(StatusCode code, const std::string& part) {
    const absl::Status status = Load(0, 3);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), spec_.model.checkpoint))
        << status;
  }

  job::JobSpec spec_;
  Tensors tensors_;
  std::unique_ptr<StageModel> model_;
};

TEST_F(WeightsTest, EachStageBeginsWithItsTensors) {
  for (const char* config : {kLlama, kGpt2}) {
    for (const bool tied : {true, false}) {
      Use(config, tied);
      Write();
      ExpectLoads();
    }
  }
}

TEST_F(WeightsTest, HalfPrecisionIsWidenedExactly) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    Use(kLlama, false);
    for (auto& [name, value] : tensors_) value = value.to(type);
    Write();
    ExpectLoads();
  }
}

TEST_F(WeightsTest, FilesOfTheModelWithoutItsHead) {
  for (const char* config : {kLlama, kGpt2}) {
    Use(config, true);
    Tensors bare;
    for (const auto& [name, value] : tensors_) {
      bare[name.substr(name.find('.') + 1)] = value;
    }
    // Masks that old versions of transformers wrote.
    if (config == kGpt2) bare["h.0.attn.bias"] = at::ones({1, 1, 12, 12});
    WriteTo("model.safetensors", bare);
    ExpectLoads();
  }
}

TEST_F(WeightsTest, ATiedHeadMayBeStoredToo) {
  Use(kLlama, true);
  Tensors more = tensors_;
  more["lm_head.weight"] = tensors_["model.embed_tokens.weight"];
  more["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({2});
  WriteTo("model.safetensors", more);
  ExpectLoads();
}

TEST_F(WeightsTest, SeveralFilesAndTheirIndex) {
  Use(kLlama, false);
  Tensors parts[2];
  std::string map;
  size_t i = 0;
  for (const auto& [name, value] : tensors_) {
    parts[i % 2][name] = value;
    absl::StrAppend(&map, map.empty() ? "" : ", ", "\"", name, "\": \"part",
                    i++ % 2, ".safetensors\"");
  }
  WriteTo("part0.safetensors", parts[0]);
  WriteTo("part1.safetensors", parts[1]);
  std::ofstream(spec_.model.checkpoint + "/model.safetensors.index.json")
      << "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {" << map << "}}";
  ExpectLoads();
}

TEST_F(WeightsTest, RefusesAFolderWithoutWeights) {
  Use(kLlama, false);
  ExpectRefused(StatusCode::kNotFound, "model.safetensors");
}

TEST_F(WeightsTest, RefusesAMissingTensor) {
  Use(kLlama, false);
  tensors_.erase("model.layers.1.mlp.up_proj.weight");
  Write();
  ExpectRefused(StatusCode::kNotFound, "model.layers.1.mlp.up_proj.weight");
  // Whoever does not need it does not miss it.
  EXPECT_TRUE(Load(2, 3).ok());
}

TEST_F(WeightsTest, RefusesAMissingHead) {
  Use(kLlama, false);
  tensors_.erase("lm_head.weight");
  Write();
  ExpectRefused(StatusCode::kNotFound, "lm_head.weight");
}

// A worker refuses what none of its own stages would look at.
TEST_F(WeightsTest, RefusesASurplusTensor) {
  Use(kLlama, false);
  tensors_["model.layers.3.mlp.up_proj.weight"] = at::zeros({24, 16});
  Write();
  ExpectRefused(StatusCode::kInvalidArgument,
                "model.layers.3.mlp.up_proj.weight");
  EXPECT_EQ(Load(0, 1).code(), StatusCode::kInvalidArgument);
}

TEST_F(WeightsTest, RefusesABiasThatTheConfigDoesNotHave) {
  Use(kLlama, false);
  tensors_["model.layers.0.self_attn.q_proj.bias"] = at::zeros({16});
  Write();
  ExpectRefused(StatusCode::kInvalidArgument,
                "model.layers.0.self_attn.q_proj.bias");
}

TEST_F(WeightsTest, RefusesAnotherShape) {
  Use(kLlama, false);
  at::Tensor& value = tensors_["model.layers.1.mlp.up_proj.weight"];
  value = value.t().contiguous();
  Write();
  ExpectRefused(StatusCode::kInvalidArgument,
                "model.layers.1.mlp.up_proj.weight");
}

TEST_F(WeightsTest, RefusesIntegers) {
  Use(kLlama, false);
  at::Tensor& value = tensors_["model.norm.weight"];
  value = value.to(at::kLong);
  Write();
  ExpectRefused(StatusCode::kInvalidArgument, "model.norm.weight");
}

TEST_F(WeightsTest, RefusesADamagedFile) {
  Use(kLlama, false);
  Write();
  std::filesystem::resize_file(spec_.model.checkpoint + "/model.safetensors",
                               1000);
  ExpectRefused(StatusCode::kInvalidArgument, "model.safetensors");
}

}  // namespace
}  // namespace stagecoach::worker

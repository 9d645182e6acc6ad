#include "job/model_shape.h"

#include <set>

#include "gtest/gtest.h"

namespace stagecoach::job {
namespace {

JobSpec Spec(int64_t layers, int64_t hidden, int64_t vocabulary,
             int64_t sequence_length, bool tied) {
  JobSpec spec;
  spec.model.layers = layers;
  spec.model.hidden = hidden;
  spec.model.vocabulary = vocabulary;
  spec.model.tie_embeddings = tied;
  spec.data.sequence_length = sequence_length;
  return spec;
}

StageLayers Layers(int64_t begin, int64_t end) {
  StageLayers layers;
  layers.begin = begin;
  layers.end = end;
  return layers;
}

// The numbers that transformers gives for "gpt2" and "gpt2-medium".
TEST(ModelShapeTest, CountsThePublishedModels) {
  EXPECT_EQ(ModelParameterCount(Spec(12, 768, 50257, 1024, true)), 124439808);
  EXPECT_EQ(ModelParameterCount(Spec(24, 1024, 50257, 1024, true)), 354823168);
}

TEST(ModelShapeTest, AnUntiedHeadIsAParameterOfItsOwn) {
  const JobSpec tied = Spec(2, 32, 160, 64, true);
  const JobSpec untied = Spec(2, 32, 160, 64, false);
  EXPECT_EQ(ModelParameterCount(untied) - ModelParameterCount(tied), 160 * 32);
  // Either way the last stage holds a weight of that size.
  EXPECT_EQ(StageParameterCount(tied, Layers(1, 2)),
            StageParameterCount(untied, Layers(1, 2)));
}

TEST(ModelShapeTest, NamesAndShapesAreHuggingFaces) {
  const std::vector<ParameterShape> parameters =
      StageParameters(Spec(4, 32, 160, 64, false), Layers(3, 4));
  std::vector<std::string> texts;
  texts.reserve(parameters.size());
  for (const ParameterShape& parameter : parameters) {
    texts.push_back(parameter.name + " " +
                    testing::PrintToString(parameter.shape));
  }
  EXPECT_EQ(texts,
            (std::vector<std::string>{
                "transformer.h.3.ln_1.weight { 32 }",
                "transformer.h.3.ln_1.bias { 32 }",
                "transformer.h.3.attn.c_attn.weight { 32, 96 }",
                "transformer.h.3.attn.c_attn.bias { 96 }",
                "transformer.h.3.attn.c_proj.weight { 32, 32 }",
                "transformer.h.3.attn.c_proj.bias { 32 }",
                "transformer.h.3.ln_2.weight { 32 }",
                "transformer.h.3.ln_2.bias { 32 }",
                "transformer.h.3.mlp.c_fc.weight { 32, 128 }",
                "transformer.h.3.mlp.c_fc.bias { 128 }",
                "transformer.h.3.mlp.c_proj.weight { 128, 32 }",
                "transformer.h.3.mlp.c_proj.bias { 32 }",
                "transformer.ln_f.weight { 32 }",
                "transformer.ln_f.bias { 32 }", "lm_head.weight { 160, 32 }"}));
}

JobSpec LlamaSpec(int64_t layers, int64_t hidden, int64_t vocabulary,
                  bool tied) {
  JobSpec spec = Spec(layers, hidden, vocabulary, 64, tied);
  spec.model.architecture = Architecture::kLlama;
  return spec;
}

ModelConfig LlamaConfig(int64_t inner, int64_t key_value_heads,
                        int64_t head_width) {
  ModelConfig config;
  config.inner = inner;
  config.key_value_heads = key_value_heads;
  config.head_width = head_width;
  return config;
}

// The numbers that transformers gives for Llama 2 7B, Llama 3.2 1B and
// Qwen3 0.6B.
TEST(ModelShapeTest, CountsThePublishedLlamas) {
  JobSpec llama2 = LlamaSpec(32, 4096, 32000, false);
  llama2.model.heads = 32;
  EXPECT_EQ(ModelParameterCount(llama2), 6738415616) << "sizes alone";
  JobSpec llama3 = LlamaSpec(16, 2048, 128256, true);
  llama3.model.heads = 32;
  llama3.model.config = LlamaConfig(8192, 8, 64);
  EXPECT_EQ(ModelParameterCount(llama3), 1235814400);
  JobSpec qwen3 = LlamaSpec(28, 1024, 151936, true);
  qwen3.model.heads = 16;
  qwen3.model.config = LlamaConfig(3072, 8, 128);
  qwen3.model.config->query_key_norm = true;
  EXPECT_EQ(ModelParameterCount(qwen3), 596049920);
}

TEST(ModelShapeTest, NamesAndShapesOfALlamaAreHuggingFaces) {
  JobSpec spec = LlamaSpec(4, 32, 160, false);
  spec.model.heads = 4;
  spec.model.config = LlamaConfig(88, 2, 16);
  spec.model.config->query_key_value_bias = true;
  spec.model.config->query_key_norm = true;
  std::vector<std::string> texts;
  for (const ParameterShape& parameter : StageParameters(spec, Layers(3, 4))) {
    texts.push_back(parameter.name + " " +
                    testing::PrintToString(parameter.shape));
  }
  EXPECT_EQ(texts,
            (std::vector<std::string>{
                "model.layers.3.input_layernorm.weight { 32 }",
                "model.layers.3.self_attn.q_proj.weight { 64, 32 }",
                "model.layers.3.self_attn.q_proj.bias { 64 }",
                "model.layers.3.self_attn.k_proj.weight { 32, 32 }",
                "model.layers.3.self_attn.k_proj.bias { 32 }",
                "model.layers.3.self_attn.v_proj.weight { 32, 32 }",
                "model.layers.3.self_attn.v_proj.bias { 32 }",
                "model.layers.3.self_attn.o_proj.weight { 32, 64 }",
                "model.layers.3.self_attn.q_norm.weight { 16 }",
                "model.layers.3.self_attn.k_norm.weight { 16 }",
                "model.layers.3.post_attention_layernorm.weight { 32 }",
                "model.layers.3.mlp.gate_proj.weight { 88, 32 }",
                "model.layers.3.mlp.up_proj.weight { 88, 32 }",
                "model.layers.3.mlp.down_proj.weight { 32, 88 }",
                "model.norm.weight { 32 }", "lm_head.weight { 160, 32 }"}));
}

TEST(ModelShapeTest, TheTiedHeadIsACopyOfTheEmbedding) {
  const std::vector<ParameterShape> parameters =
      StageParameters(Spec(1, 32, 160, 64, true), Layers(0, 1));
  EXPECT_EQ(parameters.front().name, "transformer.wte.weight");
  EXPECT_FALSE(parameters.front().tied_copy);
  EXPECT_EQ(parameters[1].name, "transformer.wpe.weight");
  EXPECT_EQ(parameters[1].shape, (std::vector<int64_t>{64, 32}));
  EXPECT_EQ(parameters.back().name, "transformer.wte.weight");
  EXPECT_TRUE(parameters.back().tied_copy);
}

TEST(ModelShapeTest, TiedGradientsAreSummedUnlessTheEmbeddingIsFrozen) {
  JobSpec spec = Spec(1, 32, 160, 64, true);
  spec.model.heads = 4;
  EXPECT_TRUE(SumsTiedGradients(spec));
  spec.training.freeze = {"transformer.wpe.", "transformer.h."};
  EXPECT_TRUE(SumsTiedGradients(spec));
  spec.training.freeze = {"transformer.wte."};
  EXPECT_FALSE(SumsTiedGradients(spec));
  spec.model.architecture = Architecture::kLlama;
  EXPECT_TRUE(SumsTiedGradients(spec));
  spec.training.freeze = {"model.embed_tokens."};
  EXPECT_FALSE(SumsTiedGradients(spec));
  spec.training.freeze.clear();
  spec.model.tie_embeddings = false;
  EXPECT_FALSE(SumsTiedGradients(spec));
}

// However a model is cut, its stages hold the same parameters, and the counts
// by formula are those of the lists.
TEST(ModelShapePropertyTest, CountsAgreeWithTheListsForEveryCut) {
  for (const bool tied : {false, true}) {
    for (int64_t stages = 1; stages <= 5; ++stages) {
      const JobSpec spec = Spec(5, 24, 100, 17, tied);
      std::set<std::string> names;
      int64_t counted_once = 0;
      int64_t before = 0;
      const auto slices = SplitLayers(5, stages, {});
      ASSERT_TRUE(slices.ok());
      for (const StageLayers& layers : *slices) {
        int64_t in_list = 0;
        for (const ParameterShape& parameter : StageParameters(spec, layers)) {
          in_list += parameter.elements();
          if (parameter.tied_copy) continue;
          EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
          counted_once += parameter.elements();
        }
        EXPECT_EQ(StageParameterCount(spec, layers), in_list);
        EXPECT_EQ(ParametersBefore(spec, layers), before);
        before += static_cast<int64_t>(StageParameters(spec, layers).size());
      }
      EXPECT_EQ(ModelParameterCount(spec), counted_once);
      EXPECT_EQ(names.size(), size_t{tied ? 64u : 65u});
    }
  }
}

TEST(ModelShapeTest, LogitsAreOfOneMicrobatch) {
  JobSpec spec = Spec(4, 256, 300, 128, true);
  spec.training.microbatch_size = 4;
  EXPECT_EQ(LogitsOf(spec).ToString(), "float32[4, 128, 300]");
}

}  // namespace
}  // namespace stagecoach::job

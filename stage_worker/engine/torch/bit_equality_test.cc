#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "job/model_shape.h"
#include "stage_worker/engine/torch/torch_test_util.h"

// The same job gives the same bits however it is cut, placed and ordered.
// Freed memory is poisoned, in the allocator and on the wire.
namespace stagecoach::worker {
namespace {

constexpr int kSteps = 5;
constexpr job::KernelChoice kKernels[] = {job::KernelChoice::kAten,
                                          job::KernelChoice::kOneDnn};

struct Trained {
  std::vector<LocalStep> steps;
  std::vector<std::string> digests;
};

class BitEqualityTest : public ::testing::Test {
 protected:
  template <typename Order>
  Trained Train(const job::JobSpec& spec, int stages, int engines,
                const Order& order, int steps = kSteps) {
    TorchBench bench(spec, stages, engines);
    Trained run;
    for (int step = 0; step < steps; ++step) {
      auto result = bench->RunStep(
          StepIndex(step),
          order(stages, static_cast<int>(spec.training.microbatches)));
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) return run;
      run.steps.push_back(*result);
    }
    auto digests = bench->Digests();
    EXPECT_TRUE(digests.ok()) << digests.status();
    for (const ParameterDigest& digest : *digests) {
      run.digests.push_back(digest.name + " " + digest.sha256);
    }
    return run;
  }

  void ExpectEqual(const Trained& run, const Trained& reference) {
    ASSERT_EQ(run.steps.size(), reference.steps.size());
    for (size_t step = 0; step < run.steps.size(); ++step) {
      EXPECT_EQ(run.steps[step].loss, reference.steps[step].loss)
          << "step " << step;
      EXPECT_EQ(run.steps[step].gradient_norm,
                reference.steps[step].gradient_norm)
          << "step " << step;
    }
    EXPECT_EQ(run.digests, reference.digests);
  }

  // `cuts`: stages and engines.
  void ExpectAllEqual(job::JobSpec spec,
                      const std::vector<std::pair<int, int>>& cuts = {
                          {1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}}) {
    for (const job::KernelChoice kernels : kKernels) {
      SCOPED_TRACE(static_cast<int>(kernels));
      spec.training.kernels = kernels;
      ExpectAllEqualOnOneKind(spec, cuts);
    }
  }

  void ExpectAllEqualOnOneKind(const job::JobSpec& spec,
                               const std::vector<std::pair<int, int>>& cuts) {
    const Trained reference = Train(spec, 1, 1, GpipeOrder);
    ASSERT_EQ(reference.steps.size(), static_cast<size_t>(kSteps));
    for (const auto& [stages, engines] : cuts) {
      SCOPED_TRACE(std::to_string(stages) + " stages on " +
                   std::to_string(engines) + " engines");
      ExpectEqual(Train(spec, stages, engines, GpipeOrder), reference);
      ExpectEqual(Train(spec, stages, engines, OneForwardOneBackwardOrder),
                  reference);
    }
  }
};

TEST_F(BitEqualityTest, TiedModelUnderAdamW) { ExpectAllEqual(TinySpec()); }

ActionList SplitOrder(int stages, int microbatches) {
  return WithSplitBackward(OneForwardOneBackwardOrder(stages, microbatches));
}

// All that a Llama can have: grouped heads, biases, norms of queries and keys,
// a window in some layers, rotary positions with a factor.
job::JobSpec LlamaSpec();

// Forwards that are run again before their backward: a stage's whole one, and
// single layers.
TEST_F(BitEqualityTest, RecomputingChangesNothing) {
  for (job::JobSpec spec : {TinySpec(), LlamaSpec()}) {
    for (const job::KernelChoice kernels : kKernels) {
      spec.training.kernels = kernels;
      spec.memory.recompute = "none";
      const Trained reference = Train(spec, 1, 1, GpipeOrder);
      for (const char* recompute : {"full", "every-1", "every-2"}) {
        spec.memory.recompute = recompute;
        for (const auto& [stages, engines] :
             {std::pair<int, int>{1, 1}, {2, 2}, {4, 2}}) {
          SCOPED_TRACE(std::string(recompute) + ", " + std::to_string(stages) +
                       " stages on " + std::to_string(engines) + " engines");
          ExpectEqual(Train(spec, stages, engines, GpipeOrder), reference);
          ExpectEqual(Train(spec, stages, engines, SplitOrder), reference);
        }
      }
    }
  }
}

TEST_F(BitEqualityTest, RecomputingInSomeStagesChangesNothing) {
  job::JobSpec spec = TinySpec();
  const Trained reference = Train(spec, 1, 1, GpipeOrder);
  spec.memory.recompute = "full,none,every-1,full";
  ExpectEqual(Train(spec, 4, 2, GpipeOrder), reference);
  ExpectEqual(Train(spec, 4, 4, SplitOrder), reference);
}

// 32 tokens in pieces of 7: the piece's size is part of the numbers, the cut
// and the order are not.
TEST_F(BitEqualityTest, LossInPieces) {
  job::JobSpec spec = TinySpec();
  spec.training.loss_chunk = 7;
  ExpectAllEqual(spec);
  const Trained whole = Train(TinySpec(), 1, 1, GpipeOrder);
  const Trained reference = Train(spec, 1, 1, GpipeOrder);
  ExpectEqual(Train(spec, 4, 4, SplitOrder), reference);
  ASSERT_EQ(reference.steps.size(), whole.steps.size());
  for (size_t step = 0; step < whole.steps.size(); ++step) {
    EXPECT_NEAR(reference.steps[step].loss, whole.steps[step].loss, 1e-5);
    EXPECT_NEAR(reference.steps[step].gradient_norm,
                whole.steps[step].gradient_norm, 1e-4);
  }
}

TEST_F(BitEqualityTest, OptimizerInAFileChangesNothing) {
  job::JobSpec spec = TinySpec();
  const Trained reference = Train(spec, 1, 1, GpipeOrder);
  spec.memory.optimizer = job::OptimizerPlace::kMapped;
  ExpectEqual(Train(spec, 4, 2, GpipeOrder), reference);
}

TEST_F(BitEqualityTest, UntiedModelUnderAdamW) {
  job::JobSpec spec = TinySpec();
  spec.model.tie_embeddings = false;
  ExpectAllEqual(spec);
}

// Sizes that are no multiple of a vector, so that parameters have gaps.
TEST_F(BitEqualityTest, OddSizesUnderSgd) {
  job::JobSpec spec = TinySpec();
  spec.model.hidden = 27;
  spec.model.heads = 3;
  spec.model.vocabulary = 53;
  spec.data.sequence_length = 13;
  spec.training.optimizer = job::OptimizerKind::kSgd;
  spec.training.learning_rate = 0.5;
  ExpectAllEqual(spec);
}

TEST_F(BitEqualityTest, OddSizesUnderAdamW) {
  job::JobSpec spec = TinySpec();
  spec.model.hidden = 27;
  spec.model.heads = 3;
  spec.model.vocabulary = 53;
  spec.data.sequence_length = 13;
  ExpectAllEqual(spec);
}

// Large enough that each kernel uses both.
TEST_F(BitEqualityTest, TwoThreads) {
  job::JobSpec spec = TinySpec();
  spec.model.hidden = 128;
  spec.training.microbatches = 2;
  spec.training.threads = 2;
  spec.training.optimizer = job::OptimizerKind::kSgd;
  ExpectAllEqual(spec, {{4, 2}});
  spec.training.optimizer = job::OptimizerKind::kAdamW;
  ExpectAllEqual(spec, {{4, 2}});
}

TEST_F(BitEqualityTest, UnevenSplit) {
  job::JobSpec spec = TinySpec();
  const Trained reference = Train(spec, 1, 1, GpipeOrder);
  spec.pipeline.split = {1, 3};
  ExpectEqual(Train(spec, 2, 2, GpipeOrder), reference);
  spec.pipeline.split = {2, 1, 1};
  ExpectEqual(Train(spec, 3, 3, GpipeOrder), reference);
}

TEST_F(BitEqualityTest, AnyOrderThatAccumulatesUpwards) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const job::JobSpec spec = TinySpec();
  const Trained reference = Train(spec, 1, 1, GpipeOrder);
  for (int trial = 0; trial < 4; ++trial) {
    ExpectEqual(Train(spec, 4, 2,
                      [&random](int stages, int microbatches) {
                        return RandomOrder(stages, microbatches,
                                           static_cast<unsigned>(random()));
                      }),
                reference);
  }
}

TEST_F(BitEqualityTest, SplitBackward) {
  for (const job::KernelChoice kernels : kKernels) {
    job::JobSpec spec = TinySpec();
    spec.training.kernels = kernels;
    spec.model.tie_embeddings = kernels == job::KernelChoice::kAten;
    const Trained reference = Train(spec, 1, 1, GpipeOrder);
    for (const auto& [stages, engines] :
         std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {4, 2}, {4, 4}}) {
      SCOPED_TRACE(std::to_string(stages) + " stages");
      ExpectEqual(Train(spec, stages, engines,
                        [](int s, int m) {
                          return WithSplitBackward(GpipeOrder(s, m));
                        }),
                  reference);
      ExpectEqual(
          Train(spec, stages, engines,
                [](int s, int m) {
                  return WithSplitBackward(OneForwardOneBackwardOrder(s, m));
                }),
          reference);
    }
  }
}

job::JobSpec LlamaSpec() {
  job::JobSpec spec = TinySpec();
  spec.model.architecture = job::Architecture::kLlama;
  job::ModelConfig config;
  config.inner = 43;
  config.positions = 16;
  config.activation = job::Activation::kSilu;
  config.key_value_heads = 2;
  config.head_width = 6;
  config.query_key_value_bias = true;
  config.attention_output_bias = true;
  config.mlp_bias = true;
  config.query_key_norm = true;
  config.rope.type = job::RopeType::kYarn;
  config.rope.factor = 4;
  config.rope.original_positions = 8;
  config.rope.attention_factor = 1.2;
  config.sliding_window = 5;
  config.sliding_layers = {true, false, true, false};
  spec.model.config = config;
  return spec;
}

TEST_F(BitEqualityTest, Llama) {
  job::JobSpec spec = LlamaSpec();
  ExpectAllEqual(spec);
  spec.model.tie_embeddings = false;
  spec.training.optimizer = job::OptimizerKind::kSgd;
  spec.training.learning_rate = 0.5;
  ExpectAllEqual(spec);
}

TEST_F(BitEqualityTest, LlamaWithSplitBackward) {
  job::JobSpec spec = LlamaSpec();
  spec.training.kernels = job::KernelChoice::kOneDnn;
  const Trained reference = Train(spec, 1, 1, GpipeOrder);
  for (const auto& [stages, engines] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {4, 2}, {4, 4}}) {
    SCOPED_TRACE(std::to_string(stages) + " stages");
    ExpectEqual(
        Train(spec, stages, engines,
              [](int s, int m) {
                return WithSplitBackward(OneForwardOneBackwardOrder(s, m));
              }),
        reference);
  }
}

// Two ways to the same numbers, which rounding tells apart.
TEST_F(BitEqualityTest, KernelsAgreeButForRounding) {
  for (job::JobSpec spec : {TinySpec(), LlamaSpec()}) {
    spec.training.kernels = job::KernelChoice::kAten;
    const Trained aten = Train(spec, 2, 2, OneForwardOneBackwardOrder);
    spec.training.kernels = job::KernelChoice::kOneDnn;
    const Trained own = Train(spec, 2, 2, OneForwardOneBackwardOrder);
    EXPECT_NE(own.digests, aten.digests) << "one and the same";
    for (size_t step = 0; step < own.steps.size(); ++step) {
      EXPECT_NEAR(own.steps[step].loss / aten.steps[step].loss, 1, 2e-5);
      EXPECT_NEAR(
          own.steps[step].gradient_norm / aten.steps[step].gradient_norm, 1,
          1e-3);
    }
  }
}

// The masks of a stage depend on the tokens, which only the first and the last
// stage would need otherwise.
TEST_F(BitEqualityTest, IsolatedDocuments) {
  for (job::JobSpec spec : {TinySpec(), LlamaSpec()}) {
    const Trained packed = Train(spec, 1, 1, GpipeOrder);
    spec.data.documents = "isolated";
    spec.data.document_end = 5;
    ExpectAllEqual(spec, {{2, 2}, {4, 2}, {4, 4}});
    const Trained isolated = Train(spec, 1, 1, GpipeOrder);
    ASSERT_FALSE(isolated.steps.empty());
    EXPECT_NE(isolated.steps[0].loss, packed.steps[0].loss);
    ExpectEqual(
        Train(spec, 4, 2,
              [](int s, int m) {
                return WithSplitBackward(OneForwardOneBackwardOrder(s, m));
              }),
        isolated);
    // A layer's second run takes the masks of its own microbatch.
    spec.memory.recompute = "every-1";
    ExpectEqual(Train(spec, 2, 2, GpipeOrder), isolated);
    ExpectEqual(Train(spec, 4, 2, SplitOrder), isolated);
  }
}

// Which elements are dropped is a function of the position in the run.
TEST_F(BitEqualityTest, Dropout) {
  for (job::JobSpec spec : {TinySpec(), LlamaSpec()}) {
    const Trained without = Train(spec, 1, 1, GpipeOrder);
    spec.model.dropout = 0.2;
    ExpectAllEqual(spec, {{2, 2}, {4, 2}, {4, 4}});
    const Trained reference = Train(spec, 1, 1, GpipeOrder);
    ASSERT_FALSE(reference.steps.empty());
    EXPECT_NE(reference.steps[0].loss, without.steps[0].loss);
    ExpectEqual(Train(spec, 4, 2, SplitOrder), reference);
    for (const char* recompute : {"full", "every-1", "every-2"}) {
      SCOPED_TRACE(recompute);
      spec.memory.recompute = recompute;
      ExpectEqual(Train(spec, 1, 1, GpipeOrder), reference);
      ExpectEqual(Train(spec, 4, 4, GpipeOrder), reference);
      ExpectEqual(Train(spec, 2, 2, SplitOrder), reference);
      ExpectEqual(Train(spec, 4, 2, SplitOrder), reference);
    }
  }
}

TEST_F(BitEqualityTest, ShorterTypes) {
  for (job::JobSpec spec : {TinySpec(), LlamaSpec()}) {
    const Trained float32 = Train(spec, 1, 1, GpipeOrder);
    spec.training.loss_chunk = 7;
    for (const job::Precision precision :
         {job::Precision::kBFloat16, job::Precision::kFloat16}) {
      SCOPED_TRACE(static_cast<int>(precision));
      spec.training.precision = precision;
      spec.memory.recompute = "none";
      ExpectAllEqual(spec, {{2, 1}, {2, 2}, {4, 2}, {4, 4}});
      const Trained reference = Train(spec, 1, 1, GpipeOrder);
      ASSERT_FALSE(reference.steps.empty());
      EXPECT_NE(reference.digests, float32.digests);
      EXPECT_NEAR(reference.steps[0].loss / float32.steps[0].loss, 1, 2e-3);
      ExpectEqual(Train(spec, 4, 2, SplitOrder), reference);
      for (const char* recompute : {"full", "every-2"}) {
        spec.memory.recompute = recompute;
        ExpectEqual(Train(spec, 4, 4, SplitOrder), reference);
        ExpectEqual(Train(spec, 2, 2, SplitOrder), reference);
      }
    }
  }
}

// Jobs that freeze the first of four stages and more, and single parameters of
// blocks; with a tied embedding that trains, and with a frozen one.
std::vector<job::JobSpec> FreezingSpecs() {
  std::vector<job::JobSpec> specs;
  const auto add = [&specs](job::JobSpec spec,
                            std::vector<std::string> freeze) {
    spec.training.freeze = std::move(freeze);
    specs.push_back(std::move(spec));
  };
  add(TinySpec(), {"transformer.wte.", "transformer.wpe.", "transformer.h.0."});
  add(TinySpec(), {"transformer.wte.", "transformer.h.2."});
  add(TinySpec(), {"transformer.wpe.", "transformer.h.1.ln_1.weight",
                   "transformer.h.1.attn.c_attn.bias",
                   "transformer.h.1.mlp.c_fc.weight", "transformer.h.3."});
  add(LlamaSpec(), {"model.embed_tokens.", "model.layers.0."});
  add(LlamaSpec(),
      {"model.layers.1.self_attn.k_proj.", "model.layers.1.self_attn.q_norm.",
       "model.layers.2.input_layernorm.", "model.layers.2.mlp.up_proj.weight",
       "model.norm."});
  return specs;
}

// The parameters of `frozen` where freezing holds them, of `trained` elsewhere.
std::vector<std::string> Mixed(const job::JobSpec& spec, const Trained& frozen,
                               const Trained& trained) {
  std::vector<std::string> mixed = trained.digests;
  for (size_t i = 0; i < mixed.size(); ++i) {
    const std::string name = mixed[i].substr(0, mixed[i].find(' '));
    if (job::IsFrozen(spec.training, name)) mixed[i] = frozen.digests[i];
  }
  return mixed;
}

TEST_F(BitEqualityTest, FrozenParametersStayAsTheyAre) {
  for (job::JobSpec spec : FreezingSpecs()) {
    SCOPED_TRACE(spec.training.freeze.front());
    const Trained begin = Train(spec, 1, 1, GpipeOrder, /*steps=*/0);
    for (const job::OptimizerKind optimizer :
         {job::OptimizerKind::kAdamW, job::OptimizerKind::kSgd}) {
      spec.training.optimizer = optimizer;
      ExpectAllEqual(spec, {{2, 2}, {4, 4}});
      const Trained trained = Train(spec, 4, 4, GpipeOrder);
      ASSERT_EQ(trained.digests.size(), begin.digests.size());
      for (size_t i = 0; i < trained.digests.size(); ++i) {
        const std::string& before = begin.digests[i];
        EXPECT_EQ(
            trained.digests[i] == before,
            job::IsFrozen(spec.training, before.substr(0, before.find(' '))))
            << before;
      }
    }
  }
}

// What a step of SGD adds is the gradient, where nothing is clipped: for what
// trains, that of a model that trains whole.
TEST_F(BitEqualityTest, FreezingChangesNoGradientOfTheOthers) {
  for (job::JobSpec spec : FreezingSpecs()) {
    SCOPED_TRACE(spec.training.freeze.front());
    spec.training.optimizer = job::OptimizerKind::kSgd;
    spec.training.gradient_clip = 0;
    for (const job::KernelChoice kernels : kKernels) {
      spec.training.kernels = kernels;
      job::JobSpec whole = spec;
      whole.training.freeze.clear();
      const std::vector<std::string> expected =
          Mixed(spec, Train(whole, 1, 1, GpipeOrder, /*steps=*/0),
                Train(whole, 1, 1, GpipeOrder, /*steps=*/1));
      for (const char* recompute : {"none", "full", "every-1"}) {
        SCOPED_TRACE(recompute);
        spec.memory.recompute = recompute;
        EXPECT_EQ(Train(spec, 1, 1, GpipeOrder, 1).digests, expected);
        EXPECT_EQ(Train(spec, 2, 1, SplitOrder, 1).digests, expected);
        EXPECT_EQ(Train(spec, 4, 4, SplitOrder, 1).digests, expected);
      }
    }
  }
}

// In shorter types too, where blocks are autograd's.
TEST_F(BitEqualityTest, FreezingInShorterTypes) {
  for (job::JobSpec spec : FreezingSpecs()) {
    SCOPED_TRACE(spec.training.freeze.front());
    spec.training.precision = job::Precision::kBFloat16;
    const Trained begin = Train(spec, 1, 1, GpipeOrder, /*steps=*/0);
    const Trained reference = Train(spec, 1, 1, GpipeOrder);
    EXPECT_EQ(Mixed(spec, begin, reference), reference.digests);
    spec.memory.recompute = "every-2";
    ExpectEqual(Train(spec, 4, 2, SplitOrder), reference);
  }
}

TEST_F(BitEqualityTest, ASmallerLastMicrobatch) {
  job::JobSpec spec = TinySpec();
  spec.training.microbatch_size = 3;
  spec.training.last_microbatch_size = 1;
  ExpectAllEqual(spec);
}

// 3 rows and 1 are the same step as 4 times 1: every token counts once.
TEST_F(BitEqualityTest, RowsCountTheSameInAnyMicrobatch) {
  job::JobSpec uneven = TinySpec();
  uneven.training.microbatches = 2;
  uneven.training.microbatch_size = 3;
  uneven.training.last_microbatch_size = 1;
  job::JobSpec single = TinySpec();
  single.training.microbatches = 4;
  single.training.microbatch_size = 1;
  const Trained a = Train(uneven, 2, 2, GpipeOrder);
  const Trained b = Train(single, 1, 1, GpipeOrder);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  EXPECT_NEAR(a.steps[0].loss / b.steps[0].loss, 1, 1e-6);
  EXPECT_NEAR(a.steps[0].gradient_norm / b.steps[0].gradient_norm, 1, 1e-5);
  EXPECT_NEAR(a.steps.back().loss / b.steps.back().loss, 1, 1e-4);
}

// What the others would not notice: that the bits depend on anything at all.
TEST_F(BitEqualityTest, AnotherSeedIsAnotherModel) {
  job::JobSpec spec = TinySpec();
  const Trained reference = Train(spec, 1, 1, GpipeOrder);
  spec.seed = 8;
  const Trained other = Train(spec, 1, 1, GpipeOrder);
  ASSERT_FALSE(other.steps.empty());
  EXPECT_NE(other.steps[0].loss, reference.steps[0].loss);
  EXPECT_NE(other.digests, reference.digests);
}

}  // namespace
}  // namespace stagecoach::worker

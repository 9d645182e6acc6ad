#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "job/words.h"
#include "stage_worker/engine/torch/torch_test_util.h"

// What training in a shorter type is worth, and what becomes of an overflow.
namespace stagecoach::worker {
namespace {

using job::Precision;

job::JobSpec SpecOf(Precision precision) {
  job::JobSpec spec = TinySpec();
  spec.training.precision = precision;
  spec.training.learning_rate = 3e-3;
  return spec;
}

std::string HashOf(TorchBench* bench) {
  const auto digests = (*bench)->Digests();
  EXPECT_TRUE(digests.ok()) << digests.status();
  std::string hash;
  for (const ParameterDigest& digest : *digests) hash += digest.sha256;
  return hash;
}

// The distances that docs/models.md states.
TEST(PrecisionTest, ShorterTypesLearnWhatFloat32Learns) {
  constexpr int kSteps = 200;
  for (const job::Architecture architecture :
       {job::Architecture::kGpt2, job::Architecture::kLlama}) {
    std::vector<double> reference;
    for (const Precision precision :
         {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16}) {
      job::JobSpec spec = SpecOf(precision);
      spec.model.architecture = architecture;
      TorchBench bench(spec, 2, 2);
      std::vector<double> losses;
      double furthest = 0;
      for (int step = 0; step < kSteps; ++step) {
        const LocalStep result = bench.Step(step);
        EXPECT_FALSE(result.skipped) << step;
        losses.push_back(result.loss);
        if (precision == Precision::kFloat32) continue;
        furthest = std::max(
            furthest,
            std::fabs(result.loss - reference[static_cast<size_t>(step)]));
      }
      EXPECT_LT(losses.back(), losses.front() - 2);
      std::cout << job::WordOf(architecture) << " " << job::WordOf(precision)
                << ": loss " << losses.front() << " -> " << losses.back()
                << ", at most " << furthest << " from float32" << std::endl;
      if (precision == Precision::kFloat32) reference = losses;
      EXPECT_LT(furthest, precision == Precision::kBFloat16 ? 0.03 : 0.005);
    }
  }
}

// 2^40 / 128 tokens is no float16: each step halves it until it is one.
TEST(PrecisionTest, OverflowsAreSkippedByAllUntilTheScaleFits) {
  job::JobSpec spec = SpecOf(Precision::kFloat16);
  spec.training.initial_loss_scale = std::exp2(26);
  TorchBench single(spec, 1, 1);
  TorchBench cut(spec, 4, 4);
  const std::string begin = HashOf(&single);
  EXPECT_EQ(HashOf(&cut), begin);
  int skipped = 0;
  for (int step = 0; step < 12; ++step) {
    const double scale = cut->loss_scale();
    const LocalStep result = cut.Step(step);
    const LocalStep alone = single.Step(step);
    EXPECT_EQ(alone.loss, result.loss) << step;
    EXPECT_EQ(alone.skipped, result.skipped) << step;
    EXPECT_EQ(HashOf(&single), HashOf(&cut)) << step;
    EXPECT_TRUE(std::isfinite(result.loss)) << step;
    skipped += result.skipped ? 1 : 0;
    EXPECT_EQ(cut->loss_scale(), result.skipped ? scale / 2 : scale) << step;
    // Skipped ones come first, and change nothing.
    EXPECT_EQ(skipped == step + 1, HashOf(&cut) == begin) << step;
  }
  EXPECT_GE(skipped, 1);
  EXPECT_LE(skipped, 8);
}

// A power of 2 changes no bit but where float16 ends.
TEST(PrecisionTest, GradientsAreDividedByTheScale) {
  std::vector<double> norms;
  for (const double scale : {1024.0, 4096.0}) {
    job::JobSpec spec = SpecOf(Precision::kFloat16);
    spec.training.initial_loss_scale = scale;
    TorchBench bench(spec, 2, 2);
    norms.push_back(bench.Step(0).gradient_norm);
  }
  EXPECT_NEAR(norms[0] / norms[1], 1, 1e-3);
  TorchBench bench(SpecOf(Precision::kFloat32), 2, 2);
  EXPECT_NEAR(bench.Step(0).gradient_norm / norms[0], 1, 2e-2);
}

// What crosses stages is in the type of the computation, so it is half.
TEST(PrecisionTest, BoundariesAreInTheComputeType) {
  for (const Precision precision :
       {Precision::kBFloat16, Precision::kFloat16}) {
    const job::JobSpec spec = SpecOf(precision);
    TorchBench bench(spec, 2, 2);
    ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
    const auto outputs =
        bench.engine(0).Forward(StageIndex(0), MicrobatchIndex(0), {});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)[0]->descriptor().ToString(),
              std::string(job::WordOf(precision)) + "[2, 16, 32]");
  }
}

// The copy in the shorter type is the engine's: it is there once, however many
// microbatches are in flight.
TEST(PrecisionTest, MicrobatchesKeepNoCopiesOfWeights) {
  job::JobSpec spec = SpecOf(Precision::kBFloat16);
  spec.model.hidden = 128;
  spec.training.microbatch_size = 1;
  spec.data.sequence_length = 4;
  TorchBench bench(spec, 2, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  const int64_t before = CurrentBytes(memory::Category::kActivation);
  ASSERT_TRUE(
      bench.engine(0).Forward(StageIndex(0), MicrobatchIndex(0), {}).ok());
  // Two layers have 12 x 128 x 128 weights each.
  EXPECT_LT(CurrentBytes(memory::Category::kActivation) - before,
            int64_t{12} * 128 * 128 * 2);
}

}  // namespace
}  // namespace stagecoach::worker

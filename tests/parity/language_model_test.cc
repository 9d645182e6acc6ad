// What a model says comes next agrees with the losses that transformers got.
#include "stage_worker/generate/language_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/ids.h"
#include "tests/parity/reference.h"

namespace stagecoach::parity {
namespace {

using worker::LanguageModel;

constexpr double kTolerance = 1e-5;  // relative

std::string Folder(const std::string& name) {
  return "tests/parity/data/" + name;
}

double Loss(const std::vector<float>& logits, int64_t target) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits[static_cast<size_t>(target)];
}

class LanguageModelTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LanguageModelTest, ItsLogitsGiveTheLossesOfTransformers) {
  const auto reference = LoadReference(Folder(GetParam()));
  ASSERT_TRUE(reference.ok()) << reference.status();
  const auto model = LanguageModel::Open(Folder(GetParam()));
  ASSERT_TRUE(model.ok()) << model.status();
  ReferenceData data(*reference);
  const auto batch = data.Read(StepIndex(0), MicrobatchIndex(0));
  ASSERT_TRUE(batch.ok()) << batch.status();
  double sum = 0;
  for (int64_t row = 0; row < batch->rows; ++row) {
    const auto begin = batch->inputs.begin() + row * batch->sequence_length;
    for (int64_t i = 0; i < batch->sequence_length; ++i) {
      const std::vector<int64_t> tokens(begin, begin + i + 1);
      const auto logits = (*model)->NextLogits(tokens);
      ASSERT_TRUE(logits.ok()) << logits.status();
      sum += Loss(*logits, batch->targets[static_cast<size_t>(
                               row * batch->sequence_length + i)]);
    }
  }
  const double mean = sum / static_cast<double>(batch->targets.size());
  const double expected = reference->steps[0].microbatch_losses[0];
  EXPECT_NEAR(mean, expected, kTolerance * expected);
}

INSTANTIATE_TEST_SUITE_P(Models, LanguageModelTest,
                         ::testing::Values("gpt2_tied", "gpt2_variant",
                                           "llama_gqa_sharded",
                                           "llama_rope_llama3",
                                           "mistral_sliding",
                                           "qwen3_norms_sliding"));

TEST(LanguageModelContextTest, SeesItsLastPositionsOnly) {
  const auto model = LanguageModel::Open(Folder("gpt2_tied"));
  ASSERT_TRUE(model.ok()) << model.status();
  const size_t most = static_cast<size_t>((*model)->positions());
  std::vector<int64_t> tokens(most + 3);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int64_t>(i * 7 % 90);
  }
  const std::vector<int64_t> last(tokens.begin() + 3, tokens.end());
  const auto logits = (*model)->NextLogits(tokens);
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(*logits, *(*model)->NextLogits(last));
  // The first token that counts does.
  tokens[3] += 1;
  EXPECT_NE(*logits, *(*model)->NextLogits(tokens));
}

// One token after the other, all at once, or after another text.
TEST_P(LanguageModelTest, WhatItKeepsOfATextChangesNothingButRounding) {
  const auto kept = LanguageModel::Open(Folder(GetParam()));
  const auto fresh = LanguageModel::Open(Folder(GetParam()));
  ASSERT_TRUE(kept.ok() && fresh.ok()) << kept.status();
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < std::min<int64_t>(12, (*kept)->positions()); ++i) {
    tokens.push_back(i * 5 % 31);
    const auto grown = (*kept)->NextLogits(tokens);
    ASSERT_TRUE(grown.ok()) << grown.status();
    // Forgets: the beginning is another.
    ASSERT_TRUE((*fresh)->NextLogits({30}).ok());
    const auto whole = (*fresh)->NextLogits(tokens);
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (size_t j = 0; j < whole->size(); ++j) {
      EXPECT_NEAR((*grown)[j], (*whole)[j], 2e-5) << i << " " << j;
    }
  }
}

TEST(LanguageModelContextTest, NamesWhatIsWrong) {
  const auto missing = LanguageModel::Open("tests/parity/data/none");
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
  const auto model = LanguageModel::Open(Folder("gpt2_tied"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->NextLogits({}).ok());
  const auto outside = (*model)->NextLogits({1, (*model)->vocabulary()});
  EXPECT_TRUE(absl::IsInvalidArgument(outside.status()));
  EXPECT_TRUE(absl::StrContains(outside.status().message(), "vocabulary"))
      << outside.status();
}

}  // namespace
}  // namespace stagecoach::parity

#include "stage_worker/model/rope.h"

#include <gtest/gtest.h>

#include <vector>

namespace stagecoach::worker {
namespace {

using job::RopeType;

job::ModelConfig Config(RopeType type) {
  job::ModelConfig config;
  config.head_width = 16;
  config.positions = 64;
  config.rope.type = type;
  return config;
}

void ExpectFrequencies(const job::ModelConfig& config, int64_t length,
                       const std::vector<float>& expected) {
  const RotaryFrequencies rotary = RotaryFrequenciesOf(config, length);
  ASSERT_EQ(rotary.frequencies.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(rotary.frequencies[i] / expected[i], 1, 4e-7) << i;
  }
}

// The numbers of all tests are what transformers 5.24 computes.
TEST(RopeTest, Default) {
  ExpectFrequencies(
      Config(RopeType::kDefault), 100,
      {1, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f,
       0.00316227786f, 0.00100000005f, 0.000316227786f});
}

TEST(RopeTest, Linear) {
  job::ModelConfig config = Config(RopeType::kLinear);
  config.rope.factor = 4;
  ExpectFrequencies(
      config, 100,
      {0.25f, 0.079056941f, 0.0250000004f, 0.00790569466f, 0.00249999994f,
       0.000790569466f, 0.000250000012f, 7.90569466e-05f});
}

TEST(RopeTest, DynamicStretchesOnlyLongSequences) {
  job::ModelConfig config = Config(RopeType::kDynamic);
  config.rope.factor = 2;
  ExpectFrequencies(
      config, 100,
      {1, 0.283945143f, 0.0806248412f, 0.0228930302f, 0.00650036521f,
       0.001845747f, 0.000524090894f, 0.000148813066f});
  EXPECT_EQ(RotaryFrequenciesOf(config, 64).frequencies,
            RotaryFrequenciesOf(Config(RopeType::kDefault), 64).frequencies);
}

TEST(RopeTest, Llama3) {
  job::ModelConfig config = Config(RopeType::kLlama3);
  config.rope.factor = 8;
  config.rope.low_frequency_factor = 1;
  config.rope.high_frequency_factor = 4;
  config.rope.original_positions = 16;
  ExpectFrequencies(
      config, 100,
      {0.576056361f, 0.0395284705f, 0.0125000002f, 0.00395284733f,
       0.00124999997f, 0.000395284733f, 0.000125000006f, 3.95284733e-05f});
}

TEST(RopeTest, Yarn) {
  job::ModelConfig config = Config(RopeType::kYarn);
  config.rope.factor = 4;
  config.rope.original_positions = 64;
  config.rope.beta_fast = 8;
  config.rope.beta_slow = 0.5;
  config.rope.attention_factor = 1.25;
  ExpectFrequencies(
      config, 100,
      {1, 0.237170815f, 0.049999997f, 0.00790569466f, 0.00249999994f,
       0.000790569466f, 0.000250000012f, 7.90569466e-05f});
  EXPECT_EQ(RotaryFrequenciesOf(config, 100).scale, 1.25);
  config.rope.truncate = false;
  ExpectFrequencies(
      config, 100,
      {1, 0.238408461f, 0.0442483015f, 0.00790569466f, 0.00249999994f,
       0.000790569466f, 0.000250000012f, 7.90569466e-05f});
}

TEST(RopeTest, OnlyYarnScales) {
  for (const RopeType type : {RopeType::kDefault, RopeType::kLinear,
                              RopeType::kDynamic, RopeType::kLlama3}) {
    job::ModelConfig config = Config(type);
    config.rope.original_positions = 16;
    config.rope.attention_factor = 3;
    EXPECT_EQ(RotaryFrequenciesOf(config, 16).scale, 1);
  }
}

}  // namespace
}  // namespace stagecoach::worker

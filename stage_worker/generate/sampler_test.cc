#include "stage_worker/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

namespace stagecoach::worker {
namespace {

Sampler::Options Options(double temperature, int64_t top_k, int64_t seed) {
  Sampler::Options options;
  options.temperature = temperature;
  options.top_k = top_k;
  options.seed = seed;
  return options;
}

std::vector<int64_t> Choices(Sampler::Options options,
                             const std::vector<float>& logits, int count) {
  Sampler sampler(options);
  std::vector<int64_t> choices;
  for (int i = 0; i < count; ++i) choices.push_back(sampler.Choose(logits));
  return choices;
}

TEST(SamplerTest, TakesTheLikeliestAtTemperatureZeroAndTheFirstOfEquals) {
  Sampler sampler(Options(0, 0, 1));
  EXPECT_EQ(sampler.Choose({-1, 3, 2, 3}), 1);
  EXPECT_EQ(sampler.Choose({-7}), 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sampler.Choose({nan, -5, nan}), 1);
  EXPECT_EQ(sampler.Choose({nan, nan}), 0);
}

TEST(SamplerTest, TheSeedDecides) {
  const std::vector<float> logits = {0, 0.5, 1, -1, 0.25};
  const auto choices = Choices(Options(1, 0, 5), logits, 50);
  EXPECT_EQ(Choices(Options(1, 0, 5), logits, 50), choices);
  EXPECT_NE(Choices(Options(1, 0, 6), logits, 50), choices);
}

TEST(SamplerTest, ChoosesOnlyAmongTheKLikeliest) {
  const auto choices = Choices(Options(10, 2, 3), {1, 5, 4, 0, 3}, 200);
  EXPECT_EQ(std::set<int64_t>(choices.begin(), choices.end()),
            (std::set<int64_t>{1, 2}));
  EXPECT_EQ(Choices(Options(10, 1, 3), {1, 5, 4}, 20),
            std::vector<int64_t>(20, 1));
  // More than there are: all.
  EXPECT_EQ(Choices(Options(1, 99, 3), {1, 5, 4}, 20),
            Choices(Options(1, 0, 3), {1, 5, 4}, 20));
}

TEST(SamplerTest, ChoosesAsOftenAsTheSoftmaxSays) {
  constexpr int kDraws = 20000;
  const std::vector<float> logits = {1, -1, 2};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    std::map<int64_t, int> counts;
    for (const int64_t choice :
         Choices(Options(temperature, 0, 11), logits, kDraws)) {
      ++counts[choice];
    }
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit / temperature);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = std::exp(logits[i] / temperature) / sum;
      // 5 standard deviations.
      EXPECT_NEAR(counts[static_cast<int64_t>(i)], expected * kDraws,
                  5 * std::sqrt(expected * (1 - expected) * kDraws))
          << "temperature " << temperature << ", token " << i;
    }
  }
}

TEST(SamplerTest, HugeLogitsAndWhatIsNoNumberDoNoHarm) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t choice :
       Choices(Options(1, 0, 2), {3e38F, nan, -infinity, 3e38F}, 100)) {
    EXPECT_TRUE(choice == 0 || choice == 3) << choice;
  }
  EXPECT_EQ(Choices(Options(1, 0, 2), {nan, nan}, 1).size(), 1u);
}

}  // namespace
}  // namespace stagecoach::worker

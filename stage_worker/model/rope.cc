#include "stage_worker/model/rope.h"

#include <algorithm>
#include <cmath>

namespace stagecoach::worker {
namespace {

constexpr double kPi = 3.14159265358979323846;

// theta^(-2i/d).
std::vector<double> Frequencies(double theta, int64_t width) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < width; i += 2) {
    frequencies.push_back(
        std::pow(theta, -static_cast<double>(i) / static_cast<double>(width)));
  }
  return frequencies;
}

// A larger base for sequences longer than what the model was trained with.
double DynamicTheta(const job::ModelConfig& config, int64_t sequence_length) {
  const job::RopeConfig& rope = config.rope;
  const double stretch =
      static_cast<double>(std::max(sequence_length, config.positions)) /
      static_cast<double>(config.positions);
  const double width = static_cast<double>(config.head_width);
  return rope.theta * std::pow(rope.factor * stretch - (rope.factor - 1),
                               width / (width - 2));
}

// Long waves are stretched by the factor, short ones are not, those between
// change over smoothly.
double Llama3Frequency(const job::RopeConfig& rope, double frequency) {
  const double positions = static_cast<double>(rope.original_positions);
  const double wave_length = 2 * kPi / frequency;
  if (wave_length > positions / rope.low_frequency_factor) {
    return frequency / rope.factor;
  }
  if (wave_length < positions / rope.high_frequency_factor) return frequency;
  const double smooth =
      (positions / wave_length - rope.low_frequency_factor) /
      (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

// The pair that makes this many turns over the trained length.
double YarnPair(const job::ModelConfig& config, double turns) {
  const job::RopeConfig& rope = config.rope;
  return static_cast<double>(config.head_width) *
         std::log(static_cast<double>(rope.original_positions) /
                  (turns * 2 * kPi)) /
         (2 * std::log(rope.theta));
}

void ApplyYarn(const job::ModelConfig& config,
               std::vector<double>* frequencies) {
  const job::RopeConfig& rope = config.rope;
  double low = YarnPair(config, rope.beta_fast);
  double high = YarnPair(config, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.head_width - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies->size(); ++i) {
    double& frequency = (*frequencies)[i];
    const double stretched = std::min(
        1.0, std::max(0.0, (static_cast<double>(i) - low) / (high - low)));
    frequency =
        stretched * frequency / rope.factor + (1 - stretched) * frequency;
  }
}

}  // namespace

RotaryFrequencies RotaryFrequenciesOf(const job::ModelConfig& config,
                                      int64_t sequence_length) {
  const job::RopeConfig& rope = config.rope;
  const double theta = rope.type == job::RopeType::kDynamic
                           ? DynamicTheta(config, sequence_length)
                           : rope.theta;
  std::vector<double> frequencies = Frequencies(theta, config.head_width);
  if (rope.type == job::RopeType::kLinear) {
    for (double& frequency : frequencies) frequency /= rope.factor;
  } else if (rope.type == job::RopeType::kLlama3) {
    for (double& frequency : frequencies) {
      frequency = Llama3Frequency(rope, frequency);
    }
  } else if (rope.type == job::RopeType::kYarn) {
    ApplyYarn(config, &frequencies);
  }
  RotaryFrequencies result;
  result.frequencies.assign(frequencies.begin(), frequencies.end());
  if (rope.type == job::RopeType::kYarn) result.scale = rope.attention_factor;
  return result;
}

}  // namespace stagecoach::worker

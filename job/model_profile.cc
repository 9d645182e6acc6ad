#include "job/model_profile.h"

#include <algorithm>
#include <cstddef>

#include "job/schedule_source.h"

namespace stagecoach::job {
namespace {

// The pieces that a stage holds.
std::vector<const LayerProfile*> PiecesOf(const ModelProfile& profile,
                                          const StageLayers& stage) {
  const auto layers = static_cast<int64_t>(profile.layers.size());
  std::vector<const LayerProfile*> pieces;
  if (stage.begin == 0) pieces.push_back(&profile.embedding);
  for (int64_t layer = stage.begin; layer < stage.end; ++layer) {
    pieces.push_back(&profile.layers[static_cast<size_t>(layer)]);
  }
  if (stage.end == layers) pieces.push_back(&profile.head);
  return pieces;
}

}  // namespace

double LayerProfile::Seconds() const {
  return forward_seconds +
         std::min(backward_seconds,
                  backward_input_seconds + backward_weight_seconds);
}

bool NeedsProfile(const JobSpec& spec) {
  if (IsAutoSchedule(spec.pipeline.schedule)) return true;
  return spec.pipeline.split.empty() && spec.stages() > 1 &&
         spec.stages() < spec.model.layers;
}

std::vector<double> LayerCosts(const ModelProfile& profile) {
  std::vector<double> costs;
  costs.reserve(profile.layers.size());
  for (const LayerProfile& layer : profile.layers) {
    costs.push_back(layer.Seconds());
  }
  if (costs.empty()) return costs;
  costs.front() += profile.embedding.Seconds();
  costs.back() += profile.head.Seconds();
  return costs;
}

std::vector<schedule::StageCosts> StageCostsOf(
    const ModelProfile& profile, const std::vector<StageLayers>& stages) {
  std::vector<schedule::StageCosts> all;
  all.reserve(stages.size());
  for (const StageLayers& stage : stages) {
    schedule::StageCosts costs = {0, 0, 0, 0};
    for (const LayerProfile* piece : PiecesOf(profile, stage)) {
      costs.forward += piece->forward_seconds;
      costs.backward_input += piece->backward_input_seconds;
      costs.backward_weight += piece->backward_weight_seconds;
      costs.backward += piece->backward_seconds;
    }
    all.push_back(costs);
  }
  return all;
}

std::vector<schedule::StageBytes> StageBytesOf(
    const ModelProfile& profile, const std::vector<StageLayers>& stages,
    int64_t boundary_bytes) {
  std::vector<schedule::StageBytes> all;
  all.reserve(stages.size());
  for (const StageLayers& stage : stages) {
    schedule::StageBytes bytes;
    for (const LayerProfile* piece : PiecesOf(profile, stage)) {
      bytes.in_flight += piece->in_flight_bytes;
    }
    bytes.output = boundary_bytes;
    all.push_back(bytes);
  }
  return all;
}

}  // namespace stagecoach::job

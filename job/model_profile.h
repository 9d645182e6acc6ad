#ifndef STAGECOACH_JOB_MODEL_PROFILE_H_
#define STAGECOACH_JOB_MODEL_PROFILE_H_

#include <cstdint>
#include <vector>

#include "job/job_spec.h"
#include "job/memory_profile.h"
#include "job/split.h"
#include "schedule/simulator.h"

namespace stagecoach::job {

// One microbatch through one piece of a model, measured on a worker's device.
struct LayerProfile {
  double forward_seconds = 0;
  double backward_seconds = 0;  // in one go
  double backward_input_seconds = 0;
  double backward_weight_seconds = 0;
  // Kept from the end of the forward to the end of the backward.
  int64_t in_flight_bytes = 0;

  // The backward that costs less: in one go, or in two halves.
  double Seconds() const;
};

struct ModelProfile {
  LayerProfile embedding;
  std::vector<LayerProfile> layers;  // by layer
  LayerProfile head;                 // final norm, head and loss
  // Copying one boundary tensor: what a transfer between two processes of one
  // machine costs at least.
  double copy_seconds = 0;
  // What a microbatch takes on each worker of the plan that the above gives;
  // empty where that was not measured.
  std::vector<WorkerMemoryProfile> workers;
};

// Whether a profile would change the plan of this spec: its schedule is "auto",
// or its split is and there is more than one way to split.
bool NeedsProfile(const JobSpec& spec);

// Cost of each layer for schedule::PartitionLayers: the embedding is the first
// layer's, the head the last one's.
std::vector<double> LayerCosts(const ModelProfile& profile);

// What the simulator takes for stages that hold these layers; seconds, bytes.
std::vector<schedule::StageCosts> StageCostsOf(
    const ModelProfile& profile, const std::vector<StageLayers>& stages);
std::vector<schedule::StageBytes> StageBytesOf(
    const ModelProfile& profile, const std::vector<StageLayers>& stages,
    int64_t boundary_bytes);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_MODEL_PROFILE_H_

#ifndef STAGECOACH_TESTS_PLUGIN_TRAINING_H_
#define STAGECOACH_TESTS_PLUGIN_TRAINING_H_

#include <string>
#include <vector>

#include "job/job_spec.h"
#include "stage_worker/engine/local_pipeline.h"

namespace stagecoach::worker {

// What a few steps left.
struct Trained {
  std::vector<LocalStep> steps;
  std::vector<std::string> digests;  // "name sha256" of each parameter
};

using Order = ActionList (*)(int stages, int microbatches);

ActionList SplitOrder(int stages, int microbatches);

// Trains a job that brings its stages with torch engines in this process. Stops
// at the first error, which is a failure of the test.
Trained Train(const job::JobSpec& spec, DataSource* data, int stages,
              int engines, Order order, int steps);

// `spec` gives the same bits for several cuts, with a split backward, and
// recomputed. Returns the reference: one stage.
Trained ExpectSameHoweverCut(job::JobSpec spec, DataSource* data, int steps);

// Why no stage of the whole model can be made.
std::string Refusal(const job::JobSpec& spec);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_TESTS_PLUGIN_TRAINING_H_

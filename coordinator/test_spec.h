#ifndef STAGECOACH_COORDINATOR_TEST_SPEC_H_
#define STAGECOACH_COORDINATOR_TEST_SPEC_H_

#include "job/job_spec.h"
#include "job/spec_proto.h"
#include "stagecoach/v1/job_spec.pb.h"

namespace stagecoach::coordinator {

// A job that plans but whose data nobody reads.
inline job::JobSpec TinyJob(int64_t workers, int64_t steps = 2,
                            int64_t microbatches = 2) {
  job::JobSpec spec;
  spec.name = "tiny";
  spec.model.layers = 8;
  spec.model.hidden = 8;
  spec.model.heads = 2;
  spec.data.path = "/corpus.txt";
  spec.data.sequence_length = 4;
  spec.training.steps = steps;
  spec.training.microbatches = microbatches;
  spec.training.microbatch_size = 2;
  spec.pipeline.workers = workers;
  // Given, so that there is nothing to profile.
  for (int64_t stage = 0; stage < workers; ++stage) {
    spec.pipeline.split.push_back(8 / workers + (stage < 8 % workers ? 1 : 0));
  }
  spec.recovery.max_failures = 0;
  return spec;
}

inline v1::JobSpec TinySpec(int64_t workers, int64_t steps = 2,
                            int64_t microbatches = 2) {
  v1::JobSpec proto;
  job::ToProto(TinyJob(workers, steps, microbatches), &proto);
  return proto;
}

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_TEST_SPEC_H_

#ifndef STAGECOACH_CLIENT_TESTING_SAMPLE_MESSAGES_H_
#define STAGECOACH_CLIENT_TESTING_SAMPLE_MESSAGES_H_

#include <cstdint>

#include "stagecoach/v1/cluster.pb.h"
#include "stagecoach/v1/job.pb.h"
#include "stagecoach/v1/memory.pb.h"

// Messages with every field set, for tests of what the client prints.
namespace stagecoach::client {

// Two workers, two stages, two steps; stage 1 retains by tanh.
v1::Job SucceededJob();

// Worker w1 was lost in step 1, at 1F5; w0 is a victim.
v1::Job FailedJob();

// Two workers; w1 is outside a step and knows neither reserved nor active
// bytes.
v1::GetMemoryStatsResponse SampleMemoryStats();

// One idle worker and one busy one.
v1::ListWorkersResponse SampleWorkers();

v1::StepResult SampleStep(int64_t step, double loss);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_TESTING_SAMPLE_MESSAGES_H_

#ifndef STAGECOACH_CLIENT_OUTPUT_PREDICTION_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_PREDICTION_OUTPUT_H_

#include <string>
#include <vector>

#include "client/output/json.h"
#include "job/memory_prediction.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::client {

// Adds predicted_peak_bytes, predicted_low_bytes and categories.
void AddPrediction(const job::MemoryInterval& interval, Json* worker);
// The same for a worker of a job, with what was measured of each category once
// that is known. Adds nothing where nothing was predicted.
void AddPrediction(const v1::JobWorker& worker, Json* json);

// "11.20 to 11.70 MiB"; "" where nothing was predicted.
std::string IntervalText(int64_t low, int64_t high);
std::string PredictionText(const v1::JobWorker& worker);

// One line for each worker whose measured peak lies outside its predicted
// interval by more than 1 %, with the category that is furthest off. A job that
// did not succeed may have stayed below.
std::vector<std::string> MemoryWarnings(const v1::Job& job);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_PREDICTION_OUTPUT_H_

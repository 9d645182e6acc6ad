#ifndef STAGECOACH_STAGE_WORKER_DATA_DATA_SOURCE_H_
#define STAGECOACH_STAGE_WORKER_DATA_DATA_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "job/job_spec.h"

namespace stagecoach::worker {

// The samples of one microbatch, row-major [rows, sequence_length]. The last
// microbatch of a step may have fewer rows.
struct TokenBatch {
  int64_t rows = 0;
  int64_t sequence_length = 0;
  std::vector<int64_t> inputs;
  std::vector<int64_t> targets;
  // data.documents = "isolated": the document of each input, numbered from 0
  // within its row; else empty.
  std::vector<int64_t> documents;
};

// Where training samples come from. A position is a function of (seed, step,
// microbatch, row) alone, so that every worker, every P and every resume sees
// the same samples. Thread-compatible.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual absl::StatusOr<TokenBatch> Read(StepIndex step,
                                          MicrobatchIndex microbatch) = 0;
  // Samples of one pass over the data.
  virtual int64_t samples() const = 0;
};

// The job's data: a file of the kind that its spec says. kNotFound;
// kInvalidArgument: unreadable, damaged or shorter than a sample.
absl::StatusOr<std::unique_ptr<DataSource>> OpenData(const job::JobSpec& spec);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_DATA_DATA_SOURCE_H_

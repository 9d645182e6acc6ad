#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "stage_worker/data/data_source.h"
#include "stage_worker/data/mapped_file.h"
#include "stage_worker/data/shuffle.h"

namespace stagecoach::worker {
namespace {

class TextData final : public DataSource {
 public:
  TextData(const job::JobSpec& spec, std::unique_ptr<MappedFile> file,
           int64_t samples)
      : spec_(spec), file_(std::move(file)), samples_(samples) {}

  absl::StatusOr<TokenBatch> Read(StepIndex step,
                                  MicrobatchIndex microbatch) override;
  int64_t samples() const override { return samples_; }

 private:
  struct Pass {
    int64_t number = -1;
    std::vector<uint32_t> order;
  };

  // The sample that the n-th read of the job gets.
  int64_t SampleOf(int64_t counter);
  const std::vector<uint32_t>& OrderOf(int64_t pass);
  absl::Status AppendSample(int64_t sample, TokenBatch* batch) const;

  const job::JobSpec spec_;
  const std::unique_ptr<MappedFile> file_;
  const int64_t samples_;
  // Two: a microbatch may begin in one pass and end in the next, and the first
  // and last stage of a worker are some microbatches apart.
  std::array<Pass, 2> passes_;
};

const std::vector<uint32_t>& TextData::OrderOf(int64_t pass) {
  for (const Pass& known : passes_) {
    if (known.number == pass) return known.order;
  }
  Pass& oldest =
      passes_[0].number < passes_[1].number ? passes_[0] : passes_[1];
  oldest.order =
      ShuffledOrder(static_cast<uint32_t>(samples_), spec_.seed, pass);
  oldest.number = pass;
  return oldest.order;
}

int64_t TextData::SampleOf(int64_t counter) {
  const int64_t position = counter % samples_;
  if (spec_.data.order == job::SampleOrder::kSequential) return position;
  return OrderOf(counter / samples_)[static_cast<size_t>(position)];
}

absl::Status TextData::AppendSample(int64_t sample, TokenBatch* batch) const {
  const int64_t length = spec_.data.sequence_length;
  const int64_t start = sample * spec_.data.EffectiveStride();
  const uint8_t* const bytes = file_->data() + start;
  const uint8_t* const largest = std::max_element(bytes, bytes + length + 1);
  if (*largest >= spec_.model.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data file ", spec_.data.path, ": byte ", *largest, " at offset ",
        start + (largest - bytes), " is outside model.vocabulary = ",
        spec_.model.vocabulary, "; try model.vocabulary = 256"));
  }
  batch->inputs.insert(batch->inputs.end(), bytes, bytes + length);
  batch->targets.insert(batch->targets.end(), bytes + 1, bytes + length + 1);
  return absl::OkStatus();
}

absl::StatusOr<TokenBatch> TextData::Read(StepIndex step,
                                          MicrobatchIndex microbatch) {
  const int64_t microbatches = spec_.training.microbatches;
  if (step.value() < 0 || microbatch.value() < 0 ||
      microbatch.value() >= microbatches) {
    return absl::InvalidArgumentError(
        absl::StrCat("no sample for step ", step.value(), ", microbatch ",
                     microbatch.value(), " of ", microbatches));
  }
  TokenBatch batch;
  batch.rows = spec_.training.microbatch_size;
  batch.sequence_length = spec_.data.sequence_length;
  const size_t tokens = static_cast<size_t>(batch.rows * batch.sequence_length);
  batch.inputs.reserve(tokens);
  batch.targets.reserve(tokens);
  const int64_t first =
      (step.value() * microbatches + microbatch.value()) * batch.rows;
  for (int64_t row = 0; row < batch.rows; ++row) {
    SC_RETURN_IF_ERROR(AppendSample(SampleOf(first + row), &batch));
  }
  return batch;
}

absl::Status CheckSizes(const job::JobSpec& spec) {
  if (spec.data.sequence_length < 1 || spec.data.EffectiveStride() < 1 ||
      spec.training.microbatches < 1 || spec.training.microbatch_size < 1) {
    return absl::InvalidArgumentError(
        "data.sequence_length, data.stride, training.microbatches and "
        "training.microbatch_size must be at least 1");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenTextData(
    const job::JobSpec& spec) {
  SC_RETURN_IF_ERROR(CheckSizes(spec));
  SC_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file,
                      MappedFile::Open(spec.data.path));
  const int64_t sample_bytes = spec.data.sequence_length + 1;
  if (file->size_bytes() < sample_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", spec.data.path, ": ", file->size_bytes(),
                     " bytes, but one sample needs data.sequence_length + 1 = ",
                     sample_bytes));
  }
  const int64_t samples =
      (file->size_bytes() - sample_bytes) / spec.data.EffectiveStride() + 1;
  if (spec.data.order == job::SampleOrder::kShuffled &&
      samples > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data file ", spec.data.path, ": ", samples,
        " samples are too many to shuffle; try a larger data.stride, or "
        "data.order = \"sequential\""));
  }
  return std::unique_ptr<DataSource>(
      std::make_unique<TextData>(spec, std::move(file), samples));
}

}  // namespace stagecoach::worker

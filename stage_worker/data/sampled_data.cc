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
#include "stage_worker/data/shuffle.h"
#include "stage_worker/data/token_stream.h"

namespace stagecoach::worker {
namespace {

// Samples cut from one stream of tokens.
class SampledData final : public DataSource {
 public:
  SampledData(const job::JobSpec& spec, std::unique_ptr<TokenStream> stream,
              int64_t samples)
      : spec_(spec), stream_(std::move(stream)), samples_(samples) {}

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
  const std::unique_ptr<TokenStream> stream_;
  const int64_t samples_;
  // Two: a microbatch may begin in one pass and end in the next, and the first
  // and last stage of a worker are some microbatches apart.
  std::array<Pass, 2> passes_;
};

const std::vector<uint32_t>& SampledData::OrderOf(int64_t pass) {
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

int64_t SampledData::SampleOf(int64_t counter) {
  const int64_t position = counter % samples_;
  if (spec_.data.order == job::SampleOrder::kSequential) return position;
  return OrderOf(counter / samples_)[static_cast<size_t>(position)];
}

absl::Status SampledData::AppendSample(int64_t sample,
                                       TokenBatch* batch) const {
  const int64_t length = spec_.data.sequence_length;
  const int64_t start = sample * spec_.data.EffectiveStride();
  int64_t document = 0;
  for (int64_t i = 0; i <= length; ++i) {
    const int64_t token = stream_->At(start + i);
    if (token < 0 || token >= spec_.model.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data file ", spec_.data.path, ": token ", token, " at position ",
          start + i,
          " is outside model.vocabulary = ", spec_.model.vocabulary));
    }
    if (i < length) batch->inputs.push_back(token);
    if (i > 0) batch->targets.push_back(token);
    if (!spec_.data.isolated() || i == length) continue;
    batch->documents.push_back(document);
    if (token == spec_.data.document_end) ++document;
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenBatch> SampledData::Read(StepIndex step,
                                             MicrobatchIndex microbatch) {
  const int64_t microbatches = spec_.training.microbatches;
  if (step.value() < 0 || microbatch.value() < 0 ||
      microbatch.value() >= microbatches) {
    return absl::InvalidArgumentError(
        absl::StrCat("no sample for step ", step.value(), ", microbatch ",
                     microbatch.value(), " of ", microbatches));
  }
  TokenBatch batch;
  batch.rows = spec_.training.RowsOf(microbatch.value());
  batch.sequence_length = spec_.data.sequence_length;
  const size_t tokens = static_cast<size_t>(batch.rows * batch.sequence_length);
  batch.inputs.reserve(tokens);
  batch.targets.reserve(tokens);
  const int64_t first = step.value() * spec_.training.RowsPerStep() +
                        microbatch.value() * spec_.training.microbatch_size;
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

absl::StatusOr<std::unique_ptr<TokenStream>> OpenStream(
    const job::DataSpec& data) {
  switch (data.kind) {
    case job::DataKind::kText:
      return OpenText(data.path);
    case job::DataKind::kTokens:
      return OpenTokenFile(data.path, data.token_type == "uint32"
                                          ? TokenType::kUInt32
                                          : TokenType::kUInt16);
    case job::DataKind::kMegatron:
      return OpenMegatron(data.path);
    case job::DataKind::kJsonLines:
      break;
  }
  return absl::UnimplementedError("this data.kind is not supported yet");
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenData(const job::JobSpec& spec) {
  SC_RETURN_IF_ERROR(CheckSizes(spec));
  SC_ASSIGN_OR_RETURN(std::unique_ptr<TokenStream> stream,
                      OpenStream(spec.data));
  const int64_t sample_tokens = spec.data.sequence_length + 1;
  if (stream->tokens() < sample_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", spec.data.path, ": ", stream->tokens(),
                     " tokens, but one sample needs data.sequence_length + 1 "
                     "= ",
                     sample_tokens));
  }
  const int64_t samples =
      (stream->tokens() - sample_tokens) / spec.data.EffectiveStride() + 1;
  if (spec.data.order == job::SampleOrder::kShuffled &&
      samples > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data file ", spec.data.path, ": ", samples,
        " samples are too many to shuffle; try a larger data.stride, or "
        "data.order = \"sequential\""));
  }
  return std::unique_ptr<DataSource>(
      std::make_unique<SampledData>(spec, std::move(stream), samples));
}

}  // namespace stagecoach::worker

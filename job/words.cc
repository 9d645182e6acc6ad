#include "job/words.h"

namespace stagecoach::job {
namespace {

constexpr Word<Architecture> kArchitectures[] = {
    {"gpt2", Architecture::kGpt2},
    {"llama", Architecture::kLlama},
    {"plugin", Architecture::kPlugin},
    {"torchscript", Architecture::kTorchScript},
};
constexpr Word<DataKind> kDataKinds[] = {
    {"text", DataKind::kText},
    {"tokens", DataKind::kTokens},
    {"megatron", DataKind::kMegatron},
    {"jsonl", DataKind::kJsonLines, false},
};
constexpr Word<SampleOrder> kSampleOrders[] = {
    {"shuffled", SampleOrder::kShuffled},
    {"sequential", SampleOrder::kSequential},
};
constexpr Word<OptimizerKind> kOptimizers[] = {
    {"adamw", OptimizerKind::kAdamW},
    {"sgd", OptimizerKind::kSgd},
};
constexpr Word<LearningRateSchedule> kLearningRateSchedules[] = {
    {"constant", LearningRateSchedule::kConstant},
    {"linear", LearningRateSchedule::kLinear},
    {"cosine", LearningRateSchedule::kCosine},
};
constexpr Word<Precision> kPrecisions[] = {
    {"float32", Precision::kFloat32},
    {"bfloat16", Precision::kBFloat16},
    {"float16", Precision::kFloat16},
};
constexpr Word<KernelChoice> kKernelChoices[] = {
    {"auto", KernelChoice::kAuto},
    {"aten", KernelChoice::kAten},
    {"onednn", KernelChoice::kOneDnn},
};
constexpr Word<ReleasePolicy> kReleasePolicies[] = {
    {"ack", ReleasePolicy::kAcknowledged},
    {"sent", ReleasePolicy::kSent},
    {"never", ReleasePolicy::kNever},
};
constexpr Word<OptimizerPlace> kOptimizerPlaces[] = {
    {"memory", OptimizerPlace::kMemory},
    {"mapped", OptimizerPlace::kMapped},
};
constexpr Word<TransportKind> kTransports[] = {
    {"auto", TransportKind::kAuto}, {"shm", TransportKind::kShm},
    {"tcp", TransportKind::kTcp},   {"nccl", TransportKind::kNccl},
    {"ucx", TransportKind::kUcx},   {"loopback", TransportKind::kLoopback},
};

}  // namespace

template <>
absl::Span<const Word<Architecture>> Words<Architecture>() {
  return kArchitectures;
}
template <>
absl::Span<const Word<DataKind>> Words<DataKind>() {
  return kDataKinds;
}
template <>
absl::Span<const Word<SampleOrder>> Words<SampleOrder>() {
  return kSampleOrders;
}
template <>
absl::Span<const Word<OptimizerKind>> Words<OptimizerKind>() {
  return kOptimizers;
}
template <>
absl::Span<const Word<LearningRateSchedule>> Words<LearningRateSchedule>() {
  return kLearningRateSchedules;
}
template <>
absl::Span<const Word<Precision>> Words<Precision>() {
  return kPrecisions;
}
template <>
absl::Span<const Word<KernelChoice>> Words<KernelChoice>() {
  return kKernelChoices;
}
template <>
absl::Span<const Word<ReleasePolicy>> Words<ReleasePolicy>() {
  return kReleasePolicies;
}
template <>
absl::Span<const Word<OptimizerPlace>> Words<OptimizerPlace>() {
  return kOptimizerPlaces;
}
template <>
absl::Span<const Word<TransportKind>> Words<TransportKind>() {
  return kTransports;
}

}  // namespace stagecoach::job

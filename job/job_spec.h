#ifndef STAGECOACH_JOB_JOB_SPEC_H_
#define STAGECOACH_JOB_JOB_SPEC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/model_config.h"

namespace stagecoach::job {

enum class Architecture { kGpt2, kLlama, kPlugin, kTorchScript };
enum class DataKind { kText, kTokens, kMegatron, kJsonLines };
enum class SampleOrder { kShuffled, kSequential };
enum class OptimizerKind { kAdamW, kSgd };
enum class LearningRateSchedule { kConstant, kLinear, kCosine };
enum class Precision { kFloat32, kBFloat16, kFloat16 };
enum class KernelChoice { kAuto, kAten, kOneDnn };
enum class ReleasePolicy { kAcknowledged, kSent, kNever };
enum class Recompute { kNone, kFull };
enum class TransportKind { kAuto, kShm, kTcp, kNccl, kLoopback };

// A job as its TOML file describes it, with defaults filled in and paths made
// absolute. Plain data; docs/job_spec.md explains each key.
struct ModelSpec {
  Architecture architecture = Architecture::kGpt2;
  std::string checkpoint;  // folder of a Hugging Face model, or empty
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t vocabulary = 256;
  bool tie_embeddings = true;

  // Of `checkpoint`'s config.json, once ResolveModel has read it: its text, and
  // what it says beyond the sizes above. Without, the sizes decide alone;
  // job/model_shape's ConfigOf fills in.
  std::string config_json;
  std::optional<ModelConfig> config;
};

struct DataSpec {
  DataKind kind = DataKind::kText;
  std::string path;
  std::string token_type = "uint16";
  int64_t sequence_length = 128;
  int64_t stride = 0;  // 0: sequence_length
  SampleOrder order = SampleOrder::kShuffled;

  int64_t EffectiveStride() const {
    return stride > 0 ? stride : sequence_length;
  }
};

struct TrainingSpec {
  int64_t steps = 50;
  int64_t microbatches = 8;
  int64_t microbatch_size = 4;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double learning_rate = 3e-4;
  double minimum_learning_rate = 0;
  LearningRateSchedule learning_rate_schedule = LearningRateSchedule::kCosine;
  int64_t warmup_steps = 2;
  double gradient_clip = 1.0;  // 0: off
  Precision precision = Precision::kFloat32;
  KernelChoice kernels = KernelChoice::kAuto;
  int64_t threads = 1;
  // Rows (tokens) whose logits stand at once; 0: all. Part of the numbers.
  int64_t loss_chunk = 1024;
};

struct PipelineSpec {
  int64_t workers = 4;
  int64_t stages_per_worker = 1;
  std::string schedule = "1f1b";  // a kind, or the path of a schedule file
  std::vector<int64_t> split;     // layers of each stage; empty: auto
  ReleasePolicy release = ReleasePolicy::kAcknowledged;
  int64_t send_budget = 2;
  TransportKind transport = TransportKind::kAuto;
};

struct MemorySpec {
  int64_t limit_bytes = 0;  // 0: off
  Recompute recompute = Recompute::kNone;
};

struct RecoverySpec {
  int64_t max_failures = 3;
  // A job whose same step fails so many times in a row ends.
  int64_t no_progress = 3;
  bool neighbour_copy = false;
};

struct CheckpointSpec {
  std::string directory;  // empty: off
  int64_t every_steps = 25;
  int64_t keep = 0;  // newest checkpoints that stay; 0: all
};

// Forwards alone on other data, between training steps.
struct EvaluationSpec {
  std::string path;  // empty: off; a file of the same kind as data.path
  int64_t every_steps = 10;
  int64_t microbatches = 8;
};

struct JobSpec {
  std::string name;
  int64_t seed = 7;
  ModelSpec model;
  DataSpec data;
  TrainingSpec training;
  PipelineSpec pipeline;
  MemorySpec memory;
  RecoverySpec recovery;
  CheckpointSpec checkpoint;
  EvaluationSpec evaluation;

  int64_t stages() const {
    return pipeline.workers * pipeline.stages_per_worker;
  }
};

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_JOB_SPEC_H_

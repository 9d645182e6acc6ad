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
enum class OptimizerPlace { kMemory, kMapped };
enum class TransportKind { kAuto, kShm, kTcp, kNccl, kUcx, kLoopback };

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
  // Of embeddings, attention and what goes into the residual stream; -1: as the
  // checkpoint's config.json says, else 0.
  double dropout = -1;
  // Of stages that the job brings: their library or TorchScript file, what a
  // plugin is told, and the sizes of one row of what crosses stages; empty:
  // [sequence_length, hidden].
  std::string path;
  std::string options;
  std::vector<int64_t> boundary;
  // Instead: several tensors, each as job/boundary.h parses it.
  std::vector<std::string> boundaries;
  // Nothing is known of such a model but what the spec says.
  bool brings_stages() const {
    return architecture == Architecture::kPlugin ||
           architecture == Architecture::kTorchScript;
  }

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
  // "packed": a row is one text; "isolated": tokens see only their own
  // document, which ends with the token `document_end`.
  std::string documents = "packed";
  int64_t document_end = -1;  // -1: none
  // What a sample's targets are: "next", each token's next one, or "last", its
  // last token alone.
  std::string targets = "next";

  bool isolated() const { return documents == "isolated"; }
  int64_t TargetsPerRow() const {
    return targets == "last" ? 1 : sequence_length;
  }
  int64_t EffectiveStride() const {
    return stride > 0 ? stride : sequence_length;
  }
};

struct TrainingSpec {
  int64_t steps = 50;
  int64_t microbatches = 8;
  int64_t microbatch_size = 4;
  int64_t last_microbatch_size = 0;  // of a step; 0: microbatch_size
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
  // Of float16: what the loss's gradient is multiplied by at first, and after
  // how many steps without an overflow that is doubled.
  double initial_loss_scale = 65536;
  int64_t loss_scale_growth_steps = 2000;
  // Parameters that stay as they are: beginnings of their names.
  std::vector<std::string> freeze;
  KernelChoice kernels = KernelChoice::kAuto;
  int64_t threads = 1;
  // Rows (tokens) whose logits stand at once; 0: all. Part of the numbers.
  int64_t loss_chunk = 1024;

  // Rows of a step's microbatch, and of all of them.
  int64_t RowsOf(int64_t microbatch) const {
    return microbatch == microbatches - 1 && last_microbatch_size > 0
               ? last_microbatch_size
               : microbatch_size;
  }
  int64_t RowsPerStep() const {
    return (microbatches - 1) * microbatch_size + RowsOf(microbatches - 1);
  }
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
  int64_t limit_bytes = 0;         // 0: off
  std::string recompute = "none";  // see recompute.h
  // Of AdamW's averages; mapped: in a file that the kernel may write them to.
  OptimizerPlace optimizer = OptimizerPlace::kMemory;
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

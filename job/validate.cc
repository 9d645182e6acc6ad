#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <set>
#include <type_traits>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bytes.h"
#include "job/boundary.h"
#include "job/findings.h"
#include "job/keys.h"
#include "job/model_shape.h"
#include "job/own_stages.h"
#include "job/parse.h"
#include "job/recompute.h"
#include "job/schedule_source.h"
#include "job/split.h"
#include "job/words.h"
#include "schedule/auto.h"

namespace stagecoach::job {
namespace {

// What no machine can hold; below it, sizes in bytes stay far from 2^63.
constexpr int64_t kMaxParameters = int64_t{1} << 40;
constexpr int64_t kMaxBoundaryBytes = int64_t{1} << 34;
constexpr int64_t kMaxLogitsBytes = int64_t{1} << 40;
// Bounds the memory and time of planning.
constexpr int64_t kMaxChunksPerStep = int64_t{1} << 22;
constexpr size_t kMaxNameLength = 128;

// The divisors of `number` next to `near`: "2 or 4".
std::string NearestDivisors(int64_t number, int64_t near) {
  std::vector<int64_t> divisors;
  for (int64_t low = std::min(near, number); low >= 1; --low) {
    if (number % low != 0) continue;
    divisors.push_back(low);
    break;
  }
  for (int64_t high = near + 1; high <= number; ++high) {
    if (number % high != 0) continue;
    divisors.push_back(high);
    break;
  }
  return absl::StrJoin(divisors, " or ");
}

// Checks one spec. Each check runs only if the keys that it looks at are sound
// by themselves, so that one mistake gives one finding.
class Validator {
 public:
  Validator(const ParsedSpec& parsed, bool looks_at_files)
      : parsed_(parsed),
        spec_(parsed.spec),
        looks_at_files_(looks_at_files),
        findings_(parsed) {}

  absl::Status Run() {
    for (const Key& key : Keys()) CheckKey(key);
    CheckRecovery();
    CheckName();
    CheckModel();
    CheckDocuments();
    CheckLastMicrobatch();
    CheckTraining();
    CheckLossScale();
    CheckFreeze();
    CheckPipeline();
    CheckSchedule();
    CheckRecompute();
    CheckSizes();
    if (looks_at_files_) CheckDataFile();
    if (looks_at_files_) CheckCheckpoint();
    return findings_.ToStatus();
  }

 private:
  void Add(absl::string_view key, absl::string_view message) {
    unsound_.insert(std::string(key));
    findings_.Add(key, message);
  }
  void AddIfError(absl::string_view key, const absl::Status& status) {
    if (!status.ok()) Add(key, status.message());
  }
  bool Sound(std::initializer_list<const char*> keys) const {
    return std::none_of(keys.begin(), keys.end(), [&](const char* key) {
      return unsound_.count(key) > 0;
    });
  }
  bool IsWritten(const Key& key) const {
    return parsed_.positions.count(std::string(key.name)) > 0;
  }
  bool IsDefault(const Key& key) const {
    return ValueText(key, spec_) == ValueText(key, JobSpec());
  }

  // Missing, out of its limits, or a word whose feature is not built.
  void CheckKey(const Key& key) {
    if (IsDefault(key) && !IsWritten(key)) {
      if (key.required && !IsOptionalHere(key)) {
        Add(key.name, absl::StrCat("is missing; every job needs it (",
                                   TypeText(key), ")"));
      }
      return;
    }
    JobSpec copy = spec_;
    std::visit([&](const auto* field) { CheckField(key, *field); },
               key.field(copy));
  }

  // The sizes of a checkpoint's model are in the checkpoint, and the width of
  // stages that the job brings is their own affair.
  bool IsOptionalHere(const Key& key) const {
    if (TableOf(key.name) != "model") return false;
    return !spec_.model.checkpoint.empty() ||
           (spec_.model.brings_stages() &&
            (key.name == "model.hidden" || key.name == "model.heads"));
  }

  template <typename T>
  void CheckField(const Key& key, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      if (IsSupported(value)) return;
      Add(key.name,
          absl::StrCat("\"", WordOf(value),
                       "\" is not supported yet; supported now: \"",
                       absl::StrJoin(WordTexts<T>(true), "\", \""), "\""));
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (key.required && value.empty()) Add(key.name, "must not be empty");
      // A file's was checked when it was read; one from the wire was not.
      const std::vector<std::string>& choices = key.choices;
      if (!choices.empty() &&
          std::find(choices.begin(), choices.end(), value) == choices.end()) {
        Add(key.name, absl::StrCat("\"", value, "\" is not one of \"",
                                   absl::StrJoin(choices, "\", \""), "\""));
      }
    } else if constexpr (std::is_same_v<T, int64_t> ||
                         std::is_same_v<T, double>) {
      CheckLimits(key, value);
    } else if constexpr (!std::is_same_v<T, bool> &&
                         !std::is_same_v<T, std::vector<std::string>>) {
      for (const auto number : value) CheckLimits(key, number);
    }
  }

  template <typename Number>
  void CheckLimits(const Key& key, Number value) {
    if (key.limits.Allow(static_cast<double>(value)) ||
        unsound_.count(std::string(key.name)) > 0) {
      return;
    }
    Add(key.name, absl::StrCat("must be ", key.limits.ToString(), ", not ",
                               NumberOrInteger(value)));
  }
  static std::string NumberOrInteger(int64_t value) {
    return absl::StrCat(value);
  }
  static std::string NumberOrInteger(double value) { return NumberText(value); }

  void CheckRecovery() {
    if (spec_.recovery.neighbour_copy && spec_.pipeline.workers == 1) {
      Add("recovery.neighbour_copy",
          "a job of one worker has no neighbour; set pipeline.workers = 2 or "
          "more, or leave it out");
    }
  }

  void CheckCheckpoint() {
    const std::string& directory = spec_.checkpoint.directory;
    if (directory.empty() || !Sound({"checkpoint.directory"})) return;
    struct stat info = {};
    if (stat(directory.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
      Add("checkpoint.directory",
          absl::StrCat("\"", directory, "\" is not a folder"));
    }
  }

  // It is printed in tables and log lines.
  void CheckName() {
    if (!Sound({"name"})) return;
    if (spec_.name.size() > kMaxNameLength) {
      Add("name", absl::StrCat("has ", spec_.name.size(),
                               " bytes; use at most ", kMaxNameLength));
    }
    if (std::any_of(spec_.name.begin(), spec_.name.end(), [](char c) {
          return absl::ascii_iscntrl(static_cast<unsigned char>(c));
        })) {
      Add("name",
          "has a line break or another control character; leave it out");
    }
  }

  void CheckModel() {
    const ModelSpec& model = spec_.model;
    if (!model.checkpoint.empty() && !model.config.has_value()) {
      Add("model.checkpoint", "its config.json has not been read");
    }
    CheckOwnStages(spec_, [this](absl::string_view key, absl::string_view why) {
      Add(key, why);
    });
    CheckHeads();
    CheckPositions();
    if (Sound({"model.vocabulary", "data.kind"}) &&
        spec_.data.kind == DataKind::kText && model.vocabulary < 256) {
      Add("model.vocabulary",
          absl::StrCat("must be at least 256 for data.kind = \"text\", whose "
                       "tokens are bytes, not ",
                       model.vocabulary));
    }
  }

  // A checkpoint's heads were checked with its config.json.
  void CheckHeads() {
    const ModelSpec& model = spec_.model;
    if (!model.checkpoint.empty() || spec_.model.brings_stages() ||
        !Sound({"model.hidden", "model.heads"})) {
      return;
    }
    if (model.hidden % model.heads != 0) {
      Add("model.heads",
          absl::StrCat(model.heads,
                       " does not divide model.hidden = ", model.hidden,
                       "; try ", NearestDivisors(model.hidden, model.heads)));
    } else if (model.architecture == Architecture::kLlama &&
               model.hidden / model.heads % 2 != 0) {
      Add("model.heads",
          absl::StrCat("heads of ", model.hidden / model.heads,
                       " numbers each are odd; rotary positions of a llama "
                       "need pairs"));
    }
  }

  // GPT-2 has no embedding for a position past its last.
  void CheckPositions() {
    const ModelSpec& model = spec_.model;
    if (!model.config.has_value() ||
        model.architecture != Architecture::kGpt2 ||
        !Sound({"data.sequence_length"}) ||
        spec_.data.sequence_length <= model.config->positions) {
      return;
    }
    Add("data.sequence_length",
        absl::StrCat(spec_.data.sequence_length, " is longer than the ",
                     model.config->positions, " positions of ",
                     model.checkpoint, "; lower it"));
  }

  void CheckDocuments() {
    const DataSpec& data = spec_.data;
    if (!Sound({"data.documents", "data.document_end", "model.vocabulary"}) ||
        !data.isolated()) {
      return;
    }
    if (data.document_end < 0) {
      Add("data.documents",
          "\"isolated\" needs data.document_end, the token that ends a "
          "document");
    } else if (data.document_end >= spec_.model.vocabulary) {
      Add("data.document_end",
          absl::StrCat(data.document_end, " is outside model.vocabulary = ",
                       spec_.model.vocabulary));
    }
  }

  void CheckLastMicrobatch() {
    const TrainingSpec& training = spec_.training;
    if (!Sound({"training.microbatches", "training.microbatch_size",
                "training.last_microbatch_size"})) {
      return;
    }
    const int64_t last = training.last_microbatch_size;
    if (last > training.microbatch_size) {
      Add("training.last_microbatch_size",
          absl::StrCat(last, " is above training.microbatch_size = ",
                       training.microbatch_size, "; lower it"));
    } else if (training.microbatches == 1 && last > 0) {
      Add("training.last_microbatch_size",
          "the only microbatch of a step has training.microbatch_size rows; "
          "leave this out");
    }
  }

  void CheckTraining() {
    const TrainingSpec& training = spec_.training;
    if (Sound({"training.learning_rate", "training.minimum_learning_rate"}) &&
        training.minimum_learning_rate > training.learning_rate) {
      Add("training.minimum_learning_rate",
          absl::StrCat(NumberText(training.minimum_learning_rate),
                       " is above training.learning_rate = ",
                       NumberText(training.learning_rate), "; lower it"));
    }
  }

  // Any other would round what it scales.
  void CheckLossScale() {
    int exponent = 0;
    if (!Sound({"training.initial_loss_scale"}) ||
        std::frexp(spec_.training.initial_loss_scale, &exponent) == 0.5) {
      return;
    }
    Add("training.initial_loss_scale",
        absl::StrCat(NumberText(spec_.training.initial_loss_scale),
                     " is no power of 2; try 65536"));
  }

  // One that names nothing is a slip of the pen.
  void CheckFreeze() {
    const std::vector<std::string>& freeze = spec_.training.freeze;
    if (freeze.empty() ||
        !Sound({"model.checkpoint", "model.layers", "model.hidden",
                "model.vocabulary", "training.freeze"}) ||
        spec_.model.brings_stages()) {
      return;
    }
    StageLayers all;
    all.end = spec_.model.layers;
    const std::vector<ParameterShape> parameters = StageParameters(spec_, all);
    for (const std::string& beginning : freeze) {
      TrainingSpec alone;
      alone.freeze = {beginning};
      if (std::any_of(parameters.begin(), parameters.end(),
                      [&](const ParameterShape& parameter) {
                        return IsFrozen(alone, parameter.name);
                      })) {
        continue;
      }
      Add("training.freeze",
          absl::StrCat("no parameter's name begins with \"", beginning,
                       "\"; they are like \"", parameters.front().name, "\""));
    }
    if (std::all_of(parameters.begin(), parameters.end(),
                    [&](const ParameterShape& parameter) {
                      return IsFrozen(spec_.training, parameter.name);
                    })) {
      Add("training.freeze", "leaves nothing to train; freeze less");
    }
  }

  void CheckPipeline() {
    const PipelineSpec& pipeline = spec_.pipeline;
    if (Sound({"pipeline.workers", "pipeline.transport"}) &&
        pipeline.transport == TransportKind::kLoopback &&
        pipeline.workers != 1) {
      Add("pipeline.transport",
          absl::StrCat(
              "\"loopback\" works only within one worker, not between ",
              pipeline.workers, "; try \"auto\", or pipeline.workers = 1"));
    }
    if (!Sound({"model.checkpoint", "model.layers", "pipeline.workers",
                "pipeline.stages_per_worker", "pipeline.split"})) {
      return;
    }
    // "auto" tries no more stages than there are layers.
    const bool fewer =
        IsAutoSchedule(pipeline.schedule) && pipeline.split.empty();
    const int64_t stages = fewer ? pipeline.workers : spec_.stages();
    const bool too_many = stages > spec_.model.layers;
    const absl::Status split =
        SplitLayers(spec_.model.layers, stages, pipeline.split).status();
    AddIfError(too_many ? "pipeline.workers" : "pipeline.split", split);
  }

  void CheckSchedule() {
    const std::string& schedule = spec_.pipeline.schedule;
    if (!Sound({"pipeline.workers", "pipeline.stages_per_worker",
                "training.microbatches", "pipeline.send_budget"})) {
      return;
    }
    if (spec_.stages() * spec_.training.microbatches > kMaxChunksPerStep) {
      Add("training.microbatches",
          absl::StrCat(spec_.training.microbatches, " x ", spec_.stages(),
                       " stages are more than ", kMaxChunksPerStep,
                       " actions of one kind in a step; lower it"));
      return;
    }
    if (IsScheduleFile(schedule)) {
      if (looks_at_files_) {
        AddIfError("pipeline.schedule", SourceSchedule(spec_).status());
      }
      return;
    }
    AddIfError("pipeline.schedule", CheckScheduleKind(schedule));
    if (!Sound({"pipeline.schedule"})) return;
    if (IsAutoSchedule(schedule)) return CheckSearch();
    AddIfError(
        "pipeline.stages_per_worker",
        CheckStagesPerWorker(schedule, spec_.pipeline.stages_per_worker));
  }

  // One for each stage, where not one for all.
  void CheckRecompute() {
    const auto stages = ParseRecompute(spec_.memory.recompute);
    if (!stages.ok()) {
      return Add("memory.recompute", stages.status().message());
    }
    if (spec_.model.brings_stages() &&
        std::any_of(stages->begin(), stages->end(),
                    [](const Recompute& stage) { return stage.every > 0; })) {
      Add("memory.recompute",
          absl::StrCat("must be \"none\" or \"full\" with "
                       "model.architecture = \"",
                       WordOf(spec_.model.architecture), "\""));
    }
    if (stages->size() == 1 ||
        !Sound({"pipeline.workers", "pipeline.stages_per_worker",
                "pipeline.schedule"})) {
      return;
    }
    if (IsAutoSchedule(spec_.pipeline.schedule)) {
      Add("memory.recompute",
          "is one for each stage, and with pipeline.schedule = \"auto\" their "
          "number is not known; give one for all of them");
    } else if (static_cast<int64_t>(stages->size()) != spec_.stages()) {
      Add("memory.recompute",
          absl::StrCat("is for ", stages->size(), " stages, the job has ",
                       spec_.stages()));
    }
  }

  void CheckSearch() {
    const int64_t chunks = spec_.pipeline.workers *
                           StagesPerWorkerTried(spec_).back() *
                           spec_.training.microbatches;
    if (chunks <= schedule::kMaxSearched) return;
    Add("pipeline.schedule",
        absl::StrCat("\"auto\" searches at most ", schedule::kMaxSearched,
                     " stages times microbatches, not ", chunks,
                     "; name a schedule, or lower training.microbatches or "
                     "pipeline.stages_per_worker"));
  }

  void CheckSizes() {
    if (!Sound({"model.checkpoint", "model.layers", "model.hidden",
                "model.vocabulary", "model.boundary", "model.boundaries",
                "data.sequence_length", "training.microbatch_size"})) {
      return;
    }
    const int64_t parameters = ModelParameterCount(spec_);
    if (parameters > kMaxParameters) {
      Add("model.hidden",
          absl::StrCat("these sizes make a model of ", parameters,
                       " parameters; the most is ", kMaxParameters,
                       "; lower model.hidden or model.layers"));
    }
    for (const TensorDescriptor& tensor : BoundaryOf(spec_).tensors) {
      CheckBytes("activation", "model.hidden", tensor, kMaxBoundaryBytes);
    }
    if (spec_.model.brings_stages()) return;
    CheckBytes("logits", "model.vocabulary", LogitsOf(spec_), kMaxLogitsBytes);
  }

  void CheckBytes(absl::string_view what, absl::string_view width_key,
                  const TensorDescriptor& tensor, int64_t most) {
    if (tensor.bytes() <= static_cast<size_t>(most)) return;
    Add("training.microbatch_size",
        absl::StrCat("one microbatch's ", what, " ", tensor.ToString(),
                     " is larger than ", FormatByteSize(most),
                     "; lower it, data.sequence_length or ", width_key));
  }

  void CheckDataFile() {
    if (!Sound({"data.kind", "data.sequence_length"})) return;
    if (Sound({"data.path"})) CheckFile("data.path", spec_.data.path);
    if (Sound({"evaluation.path"}) && !spec_.evaluation.path.empty()) {
      CheckFile("evaluation.path", spec_.evaluation.path);
    }
  }

  // It is opened, not only looked at: permissions are more than mode bits.
  void CheckFile(const char* key, const std::string& path) {
    // Without O_NONBLOCK a pipe without a writer would wait for one.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      const int error = errno;
      Add(key,
          error == ENOENT
              ? absl::StrCat("there is no file \"", path,
                             "\"; a relative path starts at the spec's folder")
              : absl::StrCat("cannot read \"", path,
                             "\": ", std::strerror(error)));
      return;
    }
    struct stat info = {};
    const int result = fstat(fd, &info);
    close(fd);
    if (result != 0 || !S_ISREG(info.st_mode)) {
      Add(key,
          absl::StrCat("\"", path, "\" is ",
                       S_ISDIR(info.st_mode) ? "a folder" : "not a plain file",
                       "; give the path of a data file"));
      return;
    }
    // Only its index tells how wide Megatron's tokens are.
    if (spec_.data.kind != DataKind::kMegatron) {
      CheckFileSize(key, path, info.st_size);
    }
  }

  void CheckFileSize(const char* key, const std::string& path, int64_t size) {
    const bool text = spec_.data.kind == DataKind::kText;
    const int64_t width =
        text ? 1 : (spec_.data.token_type == "uint32" ? 4 : 2);
    const int64_t sample = spec_.data.sequence_length + 1;
    const int64_t tokens = size / width;
    if (tokens >= sample) return;
    if (size == 0) {
      Add(key, absl::StrCat("\"", path, "\" is empty"));
      return;
    }
    Add(key, absl::StrCat(
                 "\"", path, "\" has ", tokens, text ? " byte" : " token",
                 tokens == 1 ? "" : "s",
                 "; one sample is data.sequence_length + 1 = ", sample,
                 text ? "; give a longer text" : "; give a longer file",
                 tokens > 1 ? absl::StrCat(" or set data.sequence_length to at "
                                           "most ",
                                           tokens - 1)
                            : ""));
  }

  const ParsedSpec& parsed_;
  const JobSpec& spec_;
  const bool looks_at_files_;
  Findings findings_;
  std::set<std::string> unsound_;  // keys with a finding
};

}  // namespace

absl::Status Validate(const ParsedSpec& parsed) {
  return Validator(parsed, /*looks_at_files=*/true).Run();
}

absl::Status Validate(const JobSpec& spec) {
  ParsedSpec parsed;
  parsed.spec = spec;
  return Validator(parsed, /*looks_at_files=*/false).Run();
}

}  // namespace stagecoach::job

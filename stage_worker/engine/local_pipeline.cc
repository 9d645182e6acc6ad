#include "stage_worker/engine/local_pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <set>

#include "base/status.h"
#include "base/tensor_descriptor.h"
#include "job/learning_rate.h"
#include "job/model_shape.h"
#include "job/split.h"

namespace stagecoach::worker {
namespace {

using schedule::Action;
using schedule::ActionKind;

Action Act(ActionKind kind, int stage, int microbatch) {
  Action action;
  action.kind = kind;
  action.stage = StageIndex(stage);
  action.microbatch = MicrobatchIndex(microbatch);
  return action;
}

// Which actions of a step have run, and so which may run next.
class Progress {
 public:
  explicit Progress(int stages)
      : stages_(stages), next_backward_(static_cast<size_t>(stages), 0) {}

  bool Ready(const Action& action) const {
    const int stage = action.stage.value();
    const int microbatch = action.microbatch.value();
    if (action.kind == ActionKind::kForward) {
      return stage == 0 ||
             Done(Act(ActionKind::kForward, stage - 1, microbatch));
    }
    return next_backward_[action.stage.index()] == microbatch &&
           Done(Act(ActionKind::kForward, stage, microbatch)) &&
           (stage == stages_ - 1 ||
            Done(Act(ActionKind::kBackward, stage + 1, microbatch)));
  }
  void Mark(const Action& action) {
    done_.insert(action);
    if (action.kind == ActionKind::kBackward) {
      ++next_backward_[action.stage.index()];
    }
  }

 private:
  bool Done(const Action& action) const { return done_.count(action) > 0; }

  const int stages_;
  std::vector<int> next_backward_;
  std::set<Action> done_;
};

// Interleaves the stages' own lists: round after round, each stage does one
// action if it can.
ActionList Interleave(const std::vector<ActionList>& lists) {
  Progress progress(static_cast<int>(lists.size()));
  std::vector<size_t> next(lists.size(), 0);
  ActionList order;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      if (next[stage] == lists[stage].size()) continue;
      const Action& action = lists[stage][next[stage]];
      if (!progress.Ready(action)) continue;
      progress.Mark(action);
      order.push_back(action);
      ++next[stage];
      moved = true;
    }
  }
  return order;
}

// The list of one stage with `warm_up` forwards before the first backward.
ActionList StageList(int stage, int microbatches, int warm_up) {
  ActionList list;
  for (int i = 0; i < warm_up; ++i) {
    list.push_back(Act(ActionKind::kForward, stage, i));
  }
  for (int i = 0; i < microbatches; ++i) {
    list.push_back(Act(ActionKind::kBackward, stage, i));
    if (warm_up + i < microbatches) {
      list.push_back(Act(ActionKind::kForward, stage, warm_up + i));
    }
  }
  return list;
}

// Wire memory: 64-byte aligned, poisoned when it goes.
std::shared_ptr<void> WireMemory(size_t bytes) {
  const size_t rounded = AlignedBytes(bytes + 1);
  return std::shared_ptr<void>(std::aligned_alloc(kTensorAlignment, rounded),
                               [rounded](void* memory) {
                                 std::memset(memory, 0xFF, rounded);
                                 std::free(memory);
                               });
}

}  // namespace

ActionList GpipeOrder(int stages, int microbatches) {
  std::vector<ActionList> lists;
  lists.reserve(static_cast<size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    lists.push_back(StageList(stage, microbatches, microbatches));
  }
  return Interleave(lists);
}

ActionList OneForwardOneBackwardOrder(int stages, int microbatches) {
  std::vector<ActionList> lists;
  lists.reserve(static_cast<size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    lists.push_back(
        StageList(stage, microbatches, std::min(microbatches, stages - stage)));
  }
  return Interleave(lists);
}

ActionList RandomOrder(int stages, int microbatches, unsigned seed) {
  std::mt19937 random(seed);
  ActionList waiting;
  for (int stage = 0; stage < stages; ++stage) {
    for (int i = 0; i < microbatches; ++i) {
      waiting.push_back(Act(ActionKind::kForward, stage, i));
      waiting.push_back(Act(ActionKind::kBackward, stage, i));
    }
  }
  Progress progress(stages);
  ActionList order;
  while (!waiting.empty()) {
    std::shuffle(waiting.begin(), waiting.end(), random);
    const auto ready = std::find_if(
        waiting.begin(), waiting.end(),
        [&progress](const Action& action) { return progress.Ready(action); });
    progress.Mark(*ready);
    order.push_back(*ready);
    waiting.erase(ready);
  }
  return order;
}

ActionList WithSplitBackward(const ActionList& order) {
  ActionList split;
  ActionList weights;
  for (const Action& action : order) {
    split.push_back(action);
    if (action.kind != ActionKind::kBackward) continue;
    split.back().kind = ActionKind::kBackwardInput;
    weights.push_back(action);
    weights.back().kind = ActionKind::kBackwardWeight;
  }
  split.insert(split.end(), weights.begin(), weights.end());
  return split;
}

job::JobSpec TinySpec() {
  job::JobSpec spec;
  spec.name = "tiny";
  spec.model.layers = 4;
  spec.model.hidden = 32;
  spec.model.heads = 4;
  spec.model.vocabulary = 61;
  spec.data.sequence_length = 16;
  spec.training.microbatches = 4;
  spec.training.microbatch_size = 2;
  spec.training.learning_rate = 1e-2;
  spec.training.learning_rate_schedule = job::LearningRateSchedule::kConstant;
  spec.training.warmup_steps = 0;
  return spec;
}

absl::StatusOr<TokenBatch> PatternData::Read(StepIndex step,
                                             MicrobatchIndex microbatch) {
  TokenBatch batch;
  const job::TrainingSpec& training = spec_.training;
  batch.rows = training.RowsOf(microbatch.value());
  batch.sequence_length = spec_.data.sequence_length;
  const int64_t first = step.value() * training.RowsPerStep() +
                        microbatch.value() * training.microbatch_size;
  const auto token = [this](int64_t sample, int64_t position) {
    return (11 * sample + 7 * position) % spec_.model.vocabulary;
  };
  for (int64_t row = 0; row < batch.rows; ++row) {
    int64_t document = 0;
    for (int64_t i = 0; i < batch.sequence_length; ++i) {
      batch.inputs.push_back(token(first + row, i));
      batch.targets.push_back(token(first + row, i + 1));
      if (!spec_.data.isolated()) continue;
      batch.documents.push_back(document);
      if (batch.inputs.back() == spec_.data.document_end) ++document;
    }
  }
  return batch;
}

absl::StatusOr<std::unique_ptr<LocalPipeline>> LocalPipeline::Create(
    const Options& options) {
  SC_ASSIGN_OR_RETURN(
      const std::vector<job::StageLayers> layers,
      job::SplitLayers(options.spec.model.layers, options.stages,
                       options.spec.pipeline.split));
  auto pipeline = std::unique_ptr<LocalPipeline>(new LocalPipeline(options));
  for (int i = 0; i < options.engines; ++i) {
    EngineOptions engine;
    engine.spec = options.spec;
    engine.data = options.data;
    for (int stage = i; stage < options.stages; stage += options.engines) {
      StageAssignment assignment;
      assignment.stage = StageIndex(stage);
      assignment.layers = layers[assignment.stage.index()];
      assignment.first = stage == 0;
      assignment.last = stage == options.stages - 1;
      engine.stages.push_back(assignment);
    }
    SC_ASSIGN_OR_RETURN(std::unique_ptr<StageEngine> built,
                        options.factory(engine));
    pipeline->engines_.push_back(std::move(built));
  }
  return pipeline;
}

StageEngine& LocalPipeline::engine(StageIndex stage) {
  return *engines_[stage.index() % engines_.size()];
}

absl::StatusOr<TensorRef> LocalPipeline::Copy(const TensorRef& tensor,
                                              StageIndex to) {
  const size_t bytes = tensor->descriptor().bytes();
  std::shared_ptr<void> memory = WireMemory(bytes);
  void* const data = memory.get();
  if (bytes > 0) std::memcpy(data, tensor->data(), bytes);
  return engine(to).Adopt(tensor->descriptor(), data, std::move(memory));
}

absl::Status LocalPipeline::Post(StageIndex from, StageIndex to,
                                 MicrobatchIndex microbatch,
                                 std::vector<TensorRef> tensors, Mail* mail) {
  if (&engine(from) != &engine(to)) {
    for (TensorRef& tensor : tensors) {
      SC_ASSIGN_OR_RETURN(tensor, Copy(tensor, to));
    }
  }
  (*mail)[{to, microbatch}] = std::move(tensors);
  return absl::OkStatus();
}

absl::Status LocalPipeline::Run(const Action& action) {
  const Key key(action.stage, action.microbatch);
  StageEngine& worker = engine(action.stage);
  const auto take = [&key](Mail* mail) {
    std::vector<TensorRef> tensors = std::move((*mail)[key]);
    mail->erase(key);
    return tensors;
  };
  switch (action.kind) {
    case ActionKind::kForward: {
      SC_ASSIGN_OR_RETURN(
          std::vector<TensorRef> outputs,
          worker.Forward(key.first, key.second, take(&activations_)));
      if (action.stage.value() == options_.stages - 1) return absl::OkStatus();
      return Post(action.stage, action.stage.Next(), action.microbatch,
                  std::move(outputs), &activations_);
    }
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput: {
      SC_ASSIGN_OR_RETURN(
          std::vector<TensorRef> input_gradients,
          action.kind == ActionKind::kBackward
              ? worker.Backward(key.first, key.second, take(&gradients_))
              : worker.BackwardInput(key.first, key.second, take(&gradients_)));
      if (action.stage.value() == 0) return absl::OkStatus();
      return Post(action.stage, action.stage.Previous(), action.microbatch,
                  std::move(input_gradients), &gradients_);
    }
    default:
      return worker.BackwardWeight(key.first, key.second);
  }
}

absl::Status LocalPipeline::BeginStep(StepIndex step) {
  const job::JobSpec& spec = options_.spec;
  for (const auto& worker : engines_) {
    worker->UseLossScale(loss_scale_.value());
    SC_RETURN_IF_ERROR(worker->BeginStep(
        step, spec.training.RowsPerStep() * spec.data.TargetsPerRow()));
  }
  return absl::OkStatus();
}

absl::Status LocalPipeline::RunActions(const ActionList& order) {
  for (const Action& action : order) SC_RETURN_IF_ERROR(Run(action));
  return absl::OkStatus();
}

absl::Status LocalPipeline::ReduceTied() {
  if (!job::SumsTiedGradients(options_.spec)) return absl::OkStatus();
  const StageIndex first(0);
  const StageIndex last(options_.stages - 1);
  if (&engine(first) == &engine(last)) {
    return engine(first).ReduceTiedLocally();
  }
  SC_ASSIGN_OR_RETURN(const TensorRef other, engine(last).CopyTiedGradient());
  SC_ASSIGN_OR_RETURN(const TensorRef sent, Copy(other, first));
  SC_RETURN_IF_ERROR(engine(first).AddTiedGradient(sent));
  SC_ASSIGN_OR_RETURN(const TensorRef sum, engine(first).CopyTiedGradient());
  SC_ASSIGN_OR_RETURN(const TensorRef sent_back, Copy(sum, last));
  return engine(last).SetTiedGradient(sent_back);
}

absl::StatusOr<double> LocalPipeline::Evaluate(StepIndex step, DataSource* data,
                                               int64_t microbatches) {
  for (const auto& worker : engines_) {
    SC_RETURN_IF_ERROR(worker->BeginEvaluation(step, data, microbatches));
  }
  for (int m = 0; m < microbatches; ++m) {
    for (int stage = 0; stage < options_.stages; ++stage) {
      Action forward;
      forward.kind = schedule::ActionKind::kForward;
      forward.stage = StageIndex(stage);
      forward.microbatch = MicrobatchIndex(m);
      SC_RETURN_IF_ERROR(Run(forward));
    }
  }
  double sum = 0;
  for (const auto& worker : engines_) {
    SC_ASSIGN_OR_RETURN(const std::vector<MicrobatchLoss> losses,
                        worker->FinishEvaluation());
    for (const MicrobatchLoss& loss : losses) sum += loss.loss_sum;
  }
  return sum / static_cast<double>(microbatches *
                                   options_.spec.training.microbatch_size *
                                   options_.spec.data.TargetsPerRow());
}

absl::StatusOr<LocalStep> LocalPipeline::FinishStep(StepIndex step) {
  SC_RETURN_IF_ERROR(ReduceTied());
  const job::TrainingSpec& training = options_.spec.training;
  LocalStep result;
  for (const auto& worker : engines_) {
    SC_ASSIGN_OR_RETURN(const GradientReport report, worker->FinishGradients());
    result.all_finite = result.all_finite && report.all_finite;
    for (const MicrobatchLoss& loss : report.losses) {
      result.loss += loss.loss_sum;
      result.loss_sums.push_back(loss.loss_sum);
    }
    for (const ParameterNorm& norm : report.norms) {
      result.squared_norms[norm.global_index] = norm.squared;
    }
  }
  result.loss /= static_cast<double>(training.RowsPerStep() *
                                     options_.spec.data.TargetsPerRow());
  for (const auto& [index, squared] : result.squared_norms) {
    result.gradient_norm += squared;
  }
  result.gradient_norm = std::sqrt(result.gradient_norm);
  result.skipped = !result.all_finite || !std::isfinite(result.gradient_norm);
  loss_scale_.Record(result.skipped);
  if (result.skipped) {
    for (const auto& worker : engines_) worker->Drop();
    return result;
  }
  UpdateOptions update;
  update.step = step;
  update.clip_factor =
      job::ClipFactor(training.gradient_clip, result.gradient_norm);
  update.learning_rate = job::LearningRateAt(training, step.value());
  for (const auto& worker : engines_) {
    SC_RETURN_IF_ERROR(worker->ApplyUpdate(update));
  }
  return result;
}

absl::StatusOr<LocalStep> LocalPipeline::RunStep(StepIndex step,
                                                 const ActionList& order) {
  SC_RETURN_IF_ERROR(BeginStep(step));
  SC_RETURN_IF_ERROR(RunActions(order));
  return FinishStep(step);
}

absl::StatusOr<std::vector<ParameterDigest>> LocalPipeline::Digests() {
  std::vector<ParameterDigest> all;
  for (const auto& worker : engines_) {
    SC_ASSIGN_OR_RETURN(const std::vector<ParameterDigest> held,
                        worker->DigestParameters());
    all.insert(all.end(), held.begin(), held.end());
  }
  std::sort(all.begin(), all.end(),
            [](const ParameterDigest& a, const ParameterDigest& b) {
              return a.name < b.name;
            });
  return all;
}

}  // namespace stagecoach::worker

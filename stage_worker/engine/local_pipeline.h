#ifndef STAGECOACH_STAGE_WORKER_ENGINE_LOCAL_PIPELINE_H_
#define STAGECOACH_STAGE_WORKER_ENGINE_LOCAL_PIPELINE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "job/job_spec.h"
#include "job/loss_scale.h"
#include "schedule/action.h"
#include "stage_worker/data/data_source.h"
#include "stage_worker/engine/stage_engine.h"

// What tests of engines share: a pipeline of engines in one process and on one
// thread, without executor, ledger and transport.
namespace stagecoach::worker {

using ActionList = std::vector<schedule::Action>;

// Orders of a step's compute actions that respect what depends on what.
ActionList GpipeOrder(int stages, int microbatches);
ActionList OneForwardOneBackwardOrder(int stages, int microbatches);
// Forwards in any order; the backwards of each stage in ascending order.
ActionList RandomOrder(int stages, int microbatches, unsigned seed);
// `order` with each backward cut in two, the weight half as late as possible.
ActionList WithSplitBackward(const ActionList& order);

// 4 layers, hidden 32, sequence 16, 4 microbatches of 2: a step takes
// milliseconds.
job::JobSpec TinySpec();

// Tokens that follow a rule a small model can learn, below any vocabulary.
class PatternData final : public DataSource {
 public:
  explicit PatternData(const job::JobSpec& spec) : spec_(spec) {}
  absl::StatusOr<TokenBatch> Read(StepIndex step,
                                  MicrobatchIndex microbatch) override;
  int64_t samples() const override { return int64_t{1} << 40; }

 private:
  const job::JobSpec spec_;
};

struct LocalStep {
  double loss = 0;  // mean over the step's target tokens
  double gradient_norm = 0;
  bool all_finite = true;
  bool skipped = false;  // since something was not finite: changed nothing
  // The parts of both, not compared: loss sums in microbatch order, squared
  // norms by global index of the parameter.
  std::vector<double> loss_sums;
  std::map<int64_t, double> squared_norms;

  friend bool operator==(const LocalStep& a, const LocalStep& b) {
    return a.loss == b.loss && a.gradient_norm == b.gradient_norm &&
           a.all_finite == b.all_finite;
  }
};

// `stages` stages dealt out to `engines` engines in turn. Tensors between two
// engines are copied, as a wire would, into memory that is filled with 0xFF
// when its receiver lets go of it; within one engine they are handed over.
class LocalPipeline {
 public:
  struct Options {
    job::JobSpec spec;
    int stages = 1;
    int engines = 1;
    EngineFactory factory;
    DataSource* data = nullptr;  // must outlive the pipeline
  };
  static absl::StatusOr<std::unique_ptr<LocalPipeline>> Create(
      const Options& options);

  // Mean loss of forwards over `microbatches` of `data`, before `step`.
  absl::StatusOr<double> Evaluate(StepIndex step, DataSource* data,
                                  int64_t microbatches);
  // A whole training step: actions, tied gradients, norm, clip, update.
  absl::StatusOr<LocalStep> RunStep(StepIndex step, const ActionList& order);
  // The parts of it.
  absl::Status BeginStep(StepIndex step);
  absl::Status RunActions(const ActionList& order);
  absl::StatusOr<LocalStep> FinishStep(StepIndex step);

  double loss_scale() const { return loss_scale_.value(); }
  // In name order.
  absl::StatusOr<std::vector<ParameterDigest>> Digests();
  StageEngine& engine(StageIndex stage);
  int stages() const { return options_.stages; }

 private:
  using Key = std::pair<StageIndex, MicrobatchIndex>;
  using Mail = std::map<Key, std::vector<TensorRef>>;

  explicit LocalPipeline(const Options& options)
      : options_(options), loss_scale_(options.spec.training) {}
  absl::Status Run(const schedule::Action& action);
  absl::Status Post(StageIndex from, StageIndex to, MicrobatchIndex microbatch,
                    std::vector<TensorRef> tensors, Mail* mail);
  absl::StatusOr<TensorRef> Copy(const TensorRef& tensor, StageIndex to);
  absl::Status ReduceTied();

  const Options options_;
  job::LossScale loss_scale_;
  std::vector<std::unique_ptr<StageEngine>> engines_;
  Mail activations_;  // by receiving stage
  Mail gradients_;
};

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_ENGINE_LOCAL_PIPELINE_H_

#include "stage_worker/engine/conformance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "base/status.h"
#include "stage_worker/engine/local_pipeline.h"

namespace stagecoach::worker {
namespace {

using absl::StatusCode;

struct Outcome {
  std::vector<LocalStep> steps;
  std::vector<std::string> digests;

  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.steps == b.steps && a.digests == b.digests;
  }
  friend std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
    for (const LocalStep& step : outcome.steps) {
      out << "\n  loss " << step.loss << " norm " << step.gradient_norm;
    }
    for (const std::string& digest : outcome.digests) out << "\n  " << digest;
    return out;
  }
};

std::vector<std::string> Flatten(const std::vector<ParameterDigest>& digests) {
  std::vector<std::string> lines;
  lines.reserve(digests.size());
  for (const ParameterDigest& digest : digests) {
    lines.push_back(digest.name + " " + digest.descriptor.ToString() + " " +
                    digest.sha256);
  }
  return lines;
}

// A pipeline of the engine under test, with what it needs to live.
class Bench {
 public:
  Bench(const EngineCase& engine, int stages, int engines,
        const job::JobSpec& spec = TinySpec())
      : spec_(spec), data_(spec) {
    LocalPipeline::Options options;
    options.spec = spec;
    options.stages = stages;
    options.engines = engines;
    options.factory = engine.factory;
    options.data = &data_;
    auto pipeline = LocalPipeline::Create(options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (pipeline.ok()) pipeline_ = std::move(pipeline).value();
  }

  LocalPipeline& operator*() { return *pipeline_; }
  LocalPipeline* operator->() { return pipeline_.get(); }
  StageEngine& engine(int stage) {
    return pipeline_->engine(StageIndex(stage));
  }
  int microbatches() const {
    return static_cast<int>(spec_.training.microbatches);
  }
  ActionList Order() {
    return OneForwardOneBackwardOrder(pipeline_->stages(), microbatches());
  }

  absl::StatusOr<std::vector<TensorRef>> Forward(
      int stage, int microbatch, std::vector<TensorRef> inputs = {}) {
    return engine(stage).Forward(StageIndex(stage), MicrobatchIndex(microbatch),
                                 std::move(inputs));
  }
  absl::StatusOr<std::vector<TensorRef>> Backward(
      int stage, int microbatch, std::vector<TensorRef> gradients = {}) {
    return engine(stage).Backward(
        StageIndex(stage), MicrobatchIndex(microbatch), std::move(gradients));
  }

  // Trains for 3 steps, each in the order that `order` gives.
  Outcome Train(const std::function<ActionList(int step)>& order) {
    Outcome outcome;
    for (int step = 0; step < 3; ++step) {
      auto result = pipeline_->RunStep(StepIndex(step), order(step));
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) return outcome;
      outcome.steps.push_back(*result);
    }
    auto digests = pipeline_->Digests();
    EXPECT_TRUE(digests.ok()) << digests.status();
    if (digests.ok()) outcome.digests = Flatten(*digests);
    return outcome;
  }
  Outcome Train() {
    return Train([this](int) { return Order(); });
  }

 private:
  const job::JobSpec spec_;
  PatternData data_;
  std::unique_ptr<LocalPipeline> pipeline_;
};

StatusCode Code(const absl::Status& status) { return status.code(); }
template <typename T>
StatusCode Code(const absl::StatusOr<T>& result) {
  return result.status().code();
}

// ---- numbers ----------------------------------------------------------------

TEST_P(EngineConformanceTest, PlacementAndOrderDoNotChangeTheResult) {
  for (const bool tied : {true, false}) {
    job::JobSpec spec = TinySpec();
    spec.model.tie_embeddings = tied;
    const Outcome reference = Bench(GetParam(), 4, 1, spec).Train();
    ASSERT_EQ(reference.steps.size(), 3u);
    for (const int engines : {2, 4}) {
      SCOPED_TRACE(engines);
      EXPECT_EQ(Bench(GetParam(), 4, engines, spec).Train(), reference);
      EXPECT_EQ(Bench(GetParam(), 4, engines, spec).Train([](int) {
        return GpipeOrder(4, 4);
      }),
                reference);
    }
  }
}

TEST_P(EngineConformanceTest, AnyOrderThatAccumulatesUpwardsGivesTheSame) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Outcome reference = Bench(GetParam(), 3, 3).Train();
  EXPECT_EQ(Bench(GetParam(), 3, 3).Train([seed](int step) {
    return RandomOrder(3, 4, seed + static_cast<unsigned>(step));
  }),
            reference);
}

TEST_P(EngineConformanceTest, StepsDiffer) {
  const Outcome outcome = Bench(GetParam(), 2, 2).Train();
  ASSERT_EQ(outcome.steps.size(), 3u);
  EXPECT_NE(outcome.steps[0].loss, outcome.steps[1].loss);
  EXPECT_GT(outcome.steps[0].gradient_norm, 0);
  EXPECT_TRUE(outcome.steps[0].all_finite);
}

TEST_P(EngineConformanceTest, SplitBackwardEqualsTheWholeOne) {
  Bench split(GetParam(), 2, 2);
  const Outcome whole = Bench(GetParam(), 2, 2).Train();
  EXPECT_EQ(
      split.Train([&split](int) { return WithSplitBackward(split.Order()); }),
      whole);
}

TEST_P(EngineConformanceTest, ALaterMicrobatchMayNotReplaceAnEarlierOne) {
  // The gradient of microbatch 1 goes to microbatch 0: refused, or at least
  // another result.
  Bench bench(GetParam(), 2, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  std::vector<std::vector<TensorRef>> gradients;
  for (int i = 0; i < 2; ++i) {
    auto outputs = bench.Forward(0, i);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_TRUE(bench.Forward(1, i, *outputs).ok());
    auto backward = bench.Backward(1, i);
    ASSERT_TRUE(backward.ok()) << backward.status();
    gradients.push_back(*backward);
  }
  const auto wrong = bench.Backward(0, 0, gradients[1]);
  const auto right = bench.Backward(0, 1, gradients[1]);
  if (!wrong.ok()) {
    EXPECT_EQ(Code(wrong), StatusCode::kDataLoss);
  }
  EXPECT_TRUE(right.ok()) << right.status();
}

// The state of all engines of a pipeline, by name.
struct SavedState {
  std::map<std::string, StateTensor> parameters;
  std::map<std::string, StateTensor> optimizer;
};

SavedState Save(Bench& bench, int engines) {
  SavedState saved;
  for (int engine = 0; engine < engines; ++engine) {
    auto states = bench.engine(engine).ExportState();
    EXPECT_TRUE(states.ok()) << states.status();
    for (const StageState& state : *states) {
      for (const StateTensor& tensor : state.parameters) {
        EXPECT_TRUE(saved.parameters.emplace(tensor.name, tensor).second)
            << tensor.name << " twice";
      }
      for (const StateTensor& tensor : state.optimizer) {
        EXPECT_TRUE(saved.optimizer.emplace(tensor.name, tensor).second)
            << tensor.name << " twice";
      }
    }
  }
  return saved;
}

StateReader ReaderOf(const std::map<std::string, StateTensor>& tensors) {
  return [&tensors](const std::string& name, const TensorDescriptor& descriptor,
                    void* data) -> absl::Status {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return absl::NotFoundError(name);
    EXPECT_TRUE(found->second.descriptor == descriptor) << name;
    std::memcpy(data, found->second.data.get(), descriptor.bytes());
    return absl::OkStatus();
  };
}

void Restore(const SavedState& saved, Bench& bench, int engines) {
  for (int engine = 0; engine < engines; ++engine) {
    EXPECT_EQ(bench.engine(engine).ImportParameters(ReaderOf(saved.parameters)),
              absl::OkStatus());
    EXPECT_EQ(bench.engine(engine).ImportOptimizer(ReaderOf(saved.optimizer)),
              absl::OkStatus());
  }
}

// Exported under one placement after the first step, imported under another.
TEST_P(EngineConformanceTest, AnImportedStateGoesOnAsIfNothingHadHappened) {
  for (const bool tied : {true, false}) {
    job::JobSpec spec = TinySpec();
    spec.model.tie_embeddings = tied;
    Bench reference(GetParam(), 4, 2, spec);
    ASSERT_TRUE(reference->RunStep(StepIndex(0), reference.Order()).ok());
    const SavedState saved = Save(reference, 2);
    std::vector<LocalStep> expected;
    for (const int step : {1, 2}) {
      expected.push_back(
          reference->RunStep(StepIndex(step), reference.Order()).value());
    }
    for (const int engines : {1, 2, 4}) {
      SCOPED_TRACE(engines);
      Bench resumed(GetParam(), 4, engines, spec);
      Restore(saved, resumed, engines);
      for (const int step : {1, 2}) {
        auto result = resumed->RunStep(StepIndex(step), resumed.Order());
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(*result, expected[static_cast<size_t>(step - 1)]);
      }
      EXPECT_EQ(Flatten(*resumed->Digests()), Flatten(*reference->Digests()));
    }
  }
}

TEST_P(EngineConformanceTest, ExportsWhatItDigestsAndLaterUpdatesDoNotTouchIt) {
  Bench bench(GetParam(), 2, 2);
  ASSERT_TRUE(bench->RunStep(StepIndex(0), bench.Order()).ok());
  auto digests = bench->Digests();
  ASSERT_TRUE(digests.ok()) << digests.status();
  const SavedState saved = Save(bench, 2);
  ASSERT_TRUE(bench->RunStep(StepIndex(1), bench.Order()).ok());
  ASSERT_EQ(saved.parameters.size(), digests->size());
  for (const ParameterDigest& digest : *digests) {
    const StateTensor& tensor = saved.parameters.at(digest.name);
    EXPECT_TRUE(tensor.descriptor == digest.descriptor);
    Sha256 sha256;
    sha256.Update(tensor.data.get(), tensor.descriptor.bytes());
    EXPECT_EQ(sha256.FinishHex(), digest.sha256) << digest.name;
  }
}

TEST_P(EngineConformanceTest, AnImportThatFailsSaysWhy) {
  Bench bench(GetParam(), 1, 1);
  EXPECT_EQ(Code(bench.engine(0).ImportParameters(ReaderOf({}))),
            StatusCode::kNotFound);
  EXPECT_EQ(Code(bench.engine(0).ImportOptimizer(ReaderOf({}))),
            StatusCode::kNotFound);
}

// ---- protocol ---------------------------------------------------------------

TEST_P(EngineConformanceTest, NothingRunsOutsideAStep) {
  Bench bench(GetParam(), 1, 1);
  EXPECT_EQ(Code(bench.Forward(0, 0)), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Code(bench.Backward(0, 0)), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Code(bench.engine(0).FinishGradients()),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Code(bench.engine(0).ApplyUpdate(UpdateOptions())),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Code(bench.engine(0).CopyTiedGradient()),
            StatusCode::kFailedPrecondition);
}

TEST_P(EngineConformanceTest, BackwardNeedsItsForward) {
  Bench bench(GetParam(), 1, 1);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  EXPECT_EQ(Code(bench.Backward(0, 0)), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(bench.Forward(0, 0).ok());
  EXPECT_EQ(Code(bench.Backward(0, 1)), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(bench.Backward(0, 0).ok());
}

TEST_P(EngineConformanceTest, EachMicrobatchRunsOnce) {
  Bench bench(GetParam(), 1, 1);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  ASSERT_TRUE(bench.Forward(0, 0).ok());
  EXPECT_EQ(Code(bench.Forward(0, 0)), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(bench.Backward(0, 0).ok());
  EXPECT_EQ(Code(bench.Backward(0, 0)), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Code(bench.Forward(0, 0)), StatusCode::kFailedPrecondition);
}

TEST_P(EngineConformanceTest, RefusesStagesAndMicrobatchesItDoesNotHave) {
  Bench bench(GetParam(), 2, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  EXPECT_EQ(
      Code(bench.engine(0).Forward(StageIndex(1), MicrobatchIndex(0), {})),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(Code(bench.Forward(0, bench.microbatches())),
            StatusCode::kInvalidArgument);
}

TEST_P(EngineConformanceTest, TensorsGoWhereTheyBelong) {
  Bench bench(GetParam(), 2, 1);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  auto outputs = bench.Forward(0, 0);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_EQ(Code(bench.Forward(0, 1, *outputs)), StatusCode::kInvalidArgument);
  EXPECT_EQ(Code(bench.Forward(1, 0)), StatusCode::kInvalidArgument);
  EXPECT_EQ(Code(bench.Backward(0, 0)), StatusCode::kInvalidArgument);

  auto last = bench.Forward(1, 0, *outputs);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(last->empty()) << "the loss stays in the engine";
  EXPECT_EQ(Code(bench.Backward(1, 0, *outputs)), StatusCode::kInvalidArgument);
  auto gradients = bench.Backward(1, 0);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_EQ(gradients->size(), 1u);
  EXPECT_TRUE((*gradients)[0]->descriptor() == (*outputs)[0]->descriptor());
  auto first = bench.Backward(0, 0, *gradients);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->empty());
}

TEST_P(EngineConformanceTest, RefusesSizesThatDoNotFit) {
  Bench bench(GetParam(), 2, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  TensorDescriptor small;
  small.shape = {1};
  std::shared_ptr<void> memory(std::aligned_alloc(64, 64), std::free);
  std::memset(memory.get(), 0, 64);
  auto tensor = bench.engine(1).Adopt(small, memory.get(), memory);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(Code(bench.Forward(1, 0, {*tensor})), StatusCode::kInvalidArgument);

  ASSERT_TRUE(bench.Forward(0, 0).ok());
  auto gradient = bench.engine(0).Adopt(small, memory.get(), memory);
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_EQ(Code(bench.Backward(0, 0, {*gradient})),
            StatusCode::kInvalidArgument);
}

TEST_P(EngineConformanceTest, AStepEndsWhenAllItsBackwardsHaveRun) {
  Bench bench(GetParam(), 1, 1);
  ASSERT_TRUE(bench->BeginStep(StepIndex(3)).ok());
  ASSERT_TRUE(bench.Forward(0, 0).ok());
  EXPECT_EQ(Code(bench->BeginStep(StepIndex(4))),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Code(bench.engine(0).FinishGradients()),
            StatusCode::kFailedPrecondition);
  ASSERT_TRUE(bench.Backward(0, 0).ok());
  auto report = bench.engine(0).FinishGradients();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->losses.size(), 1u);
  EXPECT_EQ(report->losses[0].microbatch, MicrobatchIndex(0));
  UpdateOptions update;
  update.step = StepIndex(4);
  EXPECT_EQ(Code(bench.engine(0).ApplyUpdate(update)),
            StatusCode::kFailedPrecondition);
  update.step = StepIndex(3);
  EXPECT_TRUE(bench.engine(0).ApplyUpdate(update).ok());
}

TEST_P(EngineConformanceTest, ASkippedUpdateChangesNothing) {
  Bench bench(GetParam(), 1, 1);
  auto before = bench->Digests();
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  ASSERT_TRUE(bench->RunActions(bench.Order()).ok());
  ASSERT_TRUE(bench.engine(0).ReduceTiedLocally().ok());
  ASSERT_TRUE(bench.engine(0).FinishGradients().ok());
  ASSERT_TRUE(bench->BeginStep(StepIndex(1)).ok());
  auto after = bench->Digests();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(Flatten(*before), Flatten(*after));
}

TEST_P(EngineConformanceTest, ReportsEachParameterOnceAndInOrder) {
  Bench bench(GetParam(), 4, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  ASSERT_TRUE(bench->RunActions(bench.Order()).ok());
  std::vector<int64_t> seen;
  for (const int stage : {0, 1}) {  // one per engine
    auto report = bench.engine(stage).FinishGradients();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(
        std::is_sorted(report->norms.begin(), report->norms.end(),
                       [](const ParameterNorm& a, const ParameterNorm& b) {
                         return a.global_index < b.global_index;
                       }));
    for (const ParameterNorm& norm : report->norms) {
      seen.push_back(norm.global_index);
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  auto digests = bench->Digests();
  ASSERT_TRUE(digests.ok()) << digests.status();
  EXPECT_EQ(digests->size(), seen.size());
}

TEST_P(EngineConformanceTest, DropIsLegalInAnyState) {
  const Outcome reference = Bench(GetParam(), 2, 2).Train();
  Bench bench(GetParam(), 2, 2);
  const ActionList order = bench.Order();
  for (size_t actions = 0; actions <= order.size(); ++actions) {
    bench.engine(0).Drop();
    bench.engine(1).Drop();
    ASSERT_TRUE(bench->BeginStep(StepIndex(9)).ok());
    const auto end = order.begin() + static_cast<ptrdiff_t>(actions);
    ASSERT_TRUE(bench->RunActions(ActionList(order.begin(), end)).ok());
  }
  for (const int stage : {0, 1}) {
    ASSERT_TRUE(bench.engine(stage).FinishGradients().ok());
    bench.engine(stage).Drop();
    bench.engine(stage).Drop();
    UpdateOptions update;
    update.step = StepIndex(9);
    EXPECT_EQ(Code(bench.engine(stage).ApplyUpdate(update)),
              StatusCode::kFailedPrecondition)
        << "the gradients are forgotten";
  }
  EXPECT_EQ(bench.Train(), reference);
}

// ---- memory -----------------------------------------------------------------

TEST_P(EngineConformanceTest, ADroppedOutputIsFreed) {
  Bench bench(GetParam(), 2, 2);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  auto outputs = bench.Forward(0, 0);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const auto watch = (*outputs)[0]->watch();
  const void* const storage = (*outputs)[0]->storage();
  ASSERT_NE(watch, nullptr);
  EXPECT_EQ(watch->bytes(),
            static_cast<int64_t>((*outputs)[0]->descriptor().bytes()));
  EXPECT_FALSE(watch->freed());
  outputs->clear();
  EXPECT_TRUE(watch->freed());
  EXPECT_EQ(
      bench.engine(0).RetainingOp(StageIndex(0), MicrobatchIndex(0), storage),
      "");
}

TEST_P(EngineConformanceTest, HoldsAdoptedMemoryUntilTheTensorGoes) {
  Bench bench(GetParam(), 2, 2);
  TensorDescriptor descriptor;
  descriptor.shape = {4};
  std::shared_ptr<void> memory(std::aligned_alloc(64, 64), std::free);
  const std::weak_ptr<void> held = memory;
  void* const data = memory.get();
  auto tensor = bench.engine(0).Adopt(descriptor, data, std::move(memory));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_FALSE(held.expired());
  EXPECT_EQ((*tensor)->data(), data) << "not copied";
  EXPECT_EQ((*tensor)->watch(), nullptr) << "the bytes are a peer's account";
  *tensor = nullptr;
  EXPECT_TRUE(held.expired());
}

// A received activation belongs to its microbatch until the backward, a
// received gradient until that backward returns.
TEST_P(EngineConformanceTest, LetsReceivedMemoryGoAfterItsBackward) {
  Bench bench(GetParam(), 3, 3);
  ASSERT_TRUE(bench->BeginStep(StepIndex(0)).ok());
  auto first = bench.Forward(0, 0);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto copy = [&bench](const TensorRef& tensor,
                             std::weak_ptr<void>* held) {
    const size_t bytes = tensor->descriptor().bytes();
    std::shared_ptr<void> memory(std::aligned_alloc(64, bytes), std::free);
    *held = memory;
    std::memcpy(memory.get(), tensor->data(), bytes);
    void* const data = memory.get();
    return bench.engine(1)
        .Adopt(tensor->descriptor(), data, std::move(memory))
        .value();
  };
  std::weak_ptr<void> activation;
  std::weak_ptr<void> gradient;
  auto second = bench.Forward(1, 0, {copy((*first)[0], &activation)});
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE(bench.Forward(2, 0, *second).ok());
  auto third = bench.Backward(2, 0);
  ASSERT_TRUE(third.ok()) << third.status();
  auto back = bench.Backward(1, 0, {copy((*third)[0], &gradient)});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(activation.expired());
  EXPECT_TRUE(gradient.expired());
  EXPECT_NE((*back)[0]->watch(), nullptr) << "in the engine's own memory";
}

}  // namespace

// A library of tests: the engines' test files instantiate it.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EngineConformanceTest);

}  // namespace stagecoach::worker

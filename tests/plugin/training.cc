#include "tests/plugin/training.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "stage_worker/engine/torch/torch_test_util.h"
#include "stage_worker/model/stage_model.h"

namespace stagecoach::worker {
namespace {

void ExpectEqual(const Trained& run, const Trained& reference) {
  ASSERT_FALSE(reference.steps.empty());
  EXPECT_EQ(run.steps, reference.steps);
  EXPECT_EQ(run.digests, reference.digests);
}

}  // namespace

ActionList SplitOrder(int stages, int microbatches) {
  return WithSplitBackward(OneForwardOneBackwardOrder(stages, microbatches));
}

Trained Train(const job::JobSpec& spec, DataSource* data, int stages,
              int engines, Order order, int steps) {
  LocalPipeline::Options options;
  options.spec = spec;
  options.stages = stages;
  options.engines = engines;
  options.factory = TorchFactory(NewStageModel);
  options.data = data;
  auto pipeline = LocalPipeline::Create(options);
  Trained trained;
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  if (!pipeline.ok()) return trained;
  for (int step = 0; step < steps; ++step) {
    auto result = (*pipeline)->RunStep(
        StepIndex(step),
        order(stages, static_cast<int>(spec.training.microbatches)));
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return trained;
    trained.steps.push_back(*result);
  }
  const auto digests = (*pipeline)->Digests();
  EXPECT_TRUE(digests.ok()) << digests.status();
  if (!digests.ok()) return trained;
  for (const ParameterDigest& digest : *digests) {
    trained.digests.push_back(digest.name + " " + digest.sha256);
  }
  return trained;
}

Trained ExpectSameHoweverCut(job::JobSpec spec, DataSource* data, int steps) {
  Trained reference = Train(spec, data, 1, 1, GpipeOrder, steps);
  for (const auto& [stages, engines] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {4, 2}, {4, 4}}) {
    SCOPED_TRACE(absl::StrCat(stages, " stages on ", engines, " engines"));
    ExpectEqual(
        Train(spec, data, stages, engines, OneForwardOneBackwardOrder, steps),
        reference);
    ExpectEqual(Train(spec, data, stages, engines, SplitOrder, steps),
                reference);
  }
  spec.memory.recompute = "full";
  ExpectEqual(Train(spec, data, 4, 4, GpipeOrder, steps), reference);
  return reference;
}

std::string Refusal(const job::JobSpec& spec) {
  StartTorchForTests();
  StageAssignment all;
  all.layers.end = spec.model.layers;
  all.first = all.last = true;
  return std::string(NewStageModel(spec, all).status().message());
}

}  // namespace stagecoach::worker

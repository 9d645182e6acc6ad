// Every generator's lists, of random shapes and run on synthetic engines with
// random delays: they end, compute what the plainest order computes, and hold
// no more than was proved.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/property_cases.h"
#include "gtest/gtest.h"
#include "memory/accounting_allocator.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/verifier.h"
#include "stage_worker/engine/local_pipeline.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"
#include "stage_worker/engine/synthetic/virtual_run.h"

namespace stagecoach::worker {
namespace {

using schedule::EdgePlan;
using schedule::Generator;
using schedule::Schedule;

struct Shape {
  int p, v, m, k;
  bool tied;
};

job::JobSpec SpecOf(const Shape& shape, const std::string& kind) {
  job::JobSpec spec;
  spec.name = "virtual";
  spec.seed = 3;
  spec.model.layers = shape.p * shape.v;
  spec.model.hidden = 4;
  spec.model.heads = 1;
  spec.model.vocabulary = 256;
  spec.model.tie_embeddings = shape.tied;
  spec.data.sequence_length = 2;
  spec.training.microbatches = shape.m;
  spec.training.microbatch_size = 1;
  spec.pipeline.workers = shape.p;
  spec.pipeline.stages_per_worker = shape.v;
  spec.pipeline.schedule = kind;
  return spec;
}

Schedule ScheduleOf(const Shape& shape, const Generator& generator) {
  schedule::GenerateOptions generate;
  generate.workers = shape.p;
  generate.stages_per_worker = shape.v;
  generate.microbatches = shape.m;
  schedule::LoweringOptions lower;
  lower.send_budget = shape.k;
  lower.tied_embeddings = shape.tied;
  return *schedule::Lower(*schedule::Generate(generator.kind, generate), lower);
}

// The same stages one after the other, in one engine.
std::unique_ptr<LocalPipeline> Reference(
    const job::JobSpec& spec, DataSource* data,
    memory::AccountingAllocator* allocator) {
  LocalPipeline::Options options;
  options.spec = spec;
  options.stages = static_cast<int>(spec.stages());
  options.data = data;
  options.factory = [allocator](const EngineOptions& engine) {
    return NewSyntheticEngine(SyntheticOptions(), allocator, engine);
  };
  auto pipeline = LocalPipeline::Create(options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

class ScheduleRunTest : public ::testing::TestWithParam<Generator> {
 protected:
  Shape Random(std::mt19937* random) const {
    const auto pick = [random](int high) {
      return std::uniform_int_distribution<int>(1, high)(*random);
    };
    Shape shape{pick(12), pick(4), pick(40), pick(4), pick(2) == 1};
    if (GetParam().only_stages_per_worker != 0) {
      shape.v = GetParam().only_stages_per_worker;
    }
    // Without gradients there is nothing to reduce.
    if (!GetParam().trains) shape.tied = false;
    return shape;
  }

  void Check(const Shape& shape, uint32_t seed) const {
    const job::JobSpec spec = SpecOf(shape, std::string(GetParam().kind));
    const Schedule schedule = ScheduleOf(shape, GetParam());
    const auto run = RunVirtually(spec, schedule, seed);
    ASSERT_TRUE(run.ok()) << run.status();
    CheckPeaks(shape, schedule, *run);
    CheckLoss(spec, *run);
  }

  void CheckLoss(const job::JobSpec& spec, const VirtualRunResult& run) const {
    PatternData data(spec);
    memory::AccountingAllocator allocator;
    const auto reference = Reference(spec, &data, &allocator);
    const int64_t microbatches = spec.training.microbatches;
    const double loss =
        run.loss_sum /
        static_cast<double>(microbatches * spec.data.sequence_length);
    if (!GetParam().trains) {
      const auto evaluated =
          reference->Evaluate(StepIndex(0), &data, microbatches);
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      EXPECT_EQ(loss, *evaluated);
      return;
    }
    const auto step = reference->RunStep(
        StepIndex(0),
        GpipeOrder(reference->stages(), static_cast<int>(microbatches)));
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(loss, step->loss);
    EXPECT_EQ(std::sqrt(run.gradient_norm_squared), step->gradient_norm);
  }

  void CheckPeaks(const Shape& shape, const Schedule& schedule,
                  const VirtualRunResult& run) const {
    schedule::VerifyOptions options;
    options.tied_embeddings = shape.tied;
    options.forward_only = !GetParam().trains;
    const schedule::Verdict verdict = Verify(schedule, options);
    ASSERT_TRUE(verdict.ok) << verdict.ToStatus();
    EXPECT_EQ(run.peak_in_flight, verdict.peak_in_flight);
    std::vector<int> outgoing(static_cast<size_t>(shape.p), 0);
    for (size_t e = 0; e < schedule.edges.size(); ++e) {
      const EdgePlan& plan = schedule.edges[e];
      EXPECT_LE(run.peak_slots[e], plan.pool_slots) << ToString(plan.edge);
      if (plan.edge.direction == Direction::kActivation) {
        ++outgoing[plan.edge.from.index()];
      }
    }
    for (size_t w = 0; w < outgoing.size(); ++w) {
      EXPECT_LE(run.peak_held_outputs[w], (1 + shape.k) * outgoing[w])
          << "w" << w;
    }
  }
};

TEST_P(ScheduleRunTest, EveryListEndsAndHoldsWhatWasProved) {
  constexpr uint32_t kSeed = 11;
  std::mt19937 random(kSeed);
  const int cases = PropertyCases();
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    const Shape shape = Random(&random);
    SCOPED_TRACE(absl::StrCat("case ", i, ": P=", shape.p, " V=", shape.v,
                              " M=", shape.m, " K=", shape.k,
                              " tied=", shape.tied));
    Check(shape, kSeed + static_cast<uint32_t>(i));
  }
  PrintCases(absl::StrCat(GetParam().kind, " on synthetic engines"), cases,
             kSeed);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ScheduleRunTest,
                         ::testing::ValuesIn(schedule::Generators()),
                         [](const ::testing::TestParamInfo<Generator>& kind) {
                           std::string name(kind.param.kind);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace stagecoach::worker

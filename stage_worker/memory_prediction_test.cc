#include "job/memory_prediction.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "job/plan.h"
#include "schedule/generator.h"
#include "stage_worker/engine/memory_profiler.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"
#include "stage_worker/testing/placement_rig.h"

// What the prediction says of a worker against what its allocator counted in
// real steps: executor, ledger and data path, with synthetic engines.
namespace stagecoach::worker {
namespace {

// Measured on an engine of its own, as each worker measures on its own.
job::WorkerMemoryProfile Measure(const job::JobSpec& spec,
                                 const PlacementOptions& placement,
                                 const SyntheticOptions& synthetic) {
  memory::AccountingAllocator allocator;
  EngineOptions options;
  options.spec = spec;
  options.stages = placement.stages;
  options.made_up_inputs = true;
  auto engine = NewSyntheticEngine(synthetic, &allocator, options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  MemoryProfilerOptions profiler;
  profiler.engine = engine->get();
  profiler.spec = spec;
  profiler.stages = placement.stages;
  profiler.allocator = &allocator;
  auto profile = ProfileWorkerMemory(profiler);
  EXPECT_TRUE(profile.ok()) << profile.status();
  // The synthetic engine's tied gradient is one number.
  if (profile->tied_gradient_bytes > 0) profile->tied_gradient_bytes = 8;
  return *std::move(profile);
}

void ExpectWithin(const job::JobSpec& spec,
                  const SyntheticOptions& synthetic = {}) {
  PlacementRig::Options options;
  options.spec = spec;
  options.synthetic = synthetic;
  auto rig = PlacementRig::Create(options);
  ASSERT_TRUE(rig.ok()) << rig.status();
  job::MemoryQuestion question;
  question.schedule = &(*rig)->plan().schedule;
  question.release = spec.pipeline.release;
  for (int w = 0; w < (*rig)->workers(); ++w) {
    Placement& placement = (*rig)->placement(w);
    question.profiles.push_back(Measure(spec, placement.options(), synthetic));
    question.receive_pool_bytes.push_back(placement.receive_pool_bytes());
  }
  const auto intervals = job::PredictMemory(question);
  ASSERT_TRUE(intervals.ok()) << intervals.status();
  for (int64_t step = 0; step < 3; ++step) {
    const absl::Status status = (*rig)->RunStep(step);
    ASSERT_TRUE(status.ok()) << status;
  }
  for (int w = 0; w < (*rig)->workers(); ++w) {
    const job::MemoryInterval& interval = (*intervals)[static_cast<size_t>(w)];
    const memory::AllocatorStats stats =
        (*rig)->placement(w).Memory().allocator;
    EXPECT_GE(stats.allocated_bytes.peak, interval.low.total) << "worker " << w;
    EXPECT_LE(stats.allocated_bytes.peak, interval.high.total)
        << "worker " << w;
    for (int i = 0; i < memory::kCategories; ++i) {
      const auto category = static_cast<memory::Category>(i);
      const int64_t peak = stats.categories[static_cast<size_t>(i)].peak;
      EXPECT_GE(peak, interval.low.Of(category))
          << "worker " << w << " " << memory::CategoryName(category);
      EXPECT_LE(peak, interval.high.Of(category))
          << "worker " << w << " " << memory::CategoryName(category);
    }
  }
}

TEST(MemoryPredictionTest, HoldsForEveryKindOfSchedule) {
  for (const schedule::Generator& kind : schedule::Generators()) {
    if (!kind.trains) continue;
    const int v =
        kind.only_stages_per_worker > 0 ? kind.only_stages_per_worker : 2;
    for (const int workers : {1, 2, 4}) {
      for (const int microbatches : {3, 8}) {
        SCOPED_TRACE(std::string(kind.kind) + " P=" + std::to_string(workers) +
                     " M=" + std::to_string(microbatches));
        ExpectWithin(RigSpec(workers, std::string(kind.kind), microbatches, v));
      }
    }
  }
}

TEST(MemoryPredictionTest, HoldsForEverySendBudgetAndReleasePolicy) {
  for (const auto release :
       {job::ReleasePolicy::kAcknowledged, job::ReleasePolicy::kSent,
        job::ReleasePolicy::kNever}) {
    for (const int budget : {1, 3}) {
      SCOPED_TRACE("K=" + std::to_string(budget));
      job::JobSpec spec = RigSpec(4, "gpipe", 8);
      spec.pipeline.release = release;
      spec.pipeline.send_budget = budget;
      ExpectWithin(spec);
    }
  }
}

// What an op keeps is in the graph, and not held as an output too.
TEST(MemoryPredictionTest, HoldsForRetainedOutputs) {
  SyntheticOptions synthetic;
  synthetic.retaining_stages = {StageIndex(0), StageIndex(2)};
  ExpectWithin(RigSpec(4, "1f1b", 8), synthetic);
}

}  // namespace
}  // namespace stagecoach::worker

// What every generator promises, for random shapes: P <= 12, V <= 4 where it is
// free, M <= 40, K <= 4. A new kind needs no line here; with one in
// testing/expected.cc its bubble and peaks are checked too.

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/property_cases.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/simulator.h"
#include "schedule/testing/expected.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using testing::Figures;
using testing::FindFigures;
using testing::Shape;

class GeneratorConformanceTest : public ::testing::TestWithParam<Generator> {
 protected:
  Shape Random(std::mt19937* random) const {
    const auto pick = [random](int high) {
      return std::uniform_int_distribution<int>(1, high)(*random);
    };
    Shape shape;
    shape.p = pick(12);
    shape.v = pick(4);
    shape.m = pick(40);
    shape.k = pick(4);
    shape.tied = pick(2) == 1;
    const int only = GetParam().only_stages_per_worker;
    if (only != 0) shape.v = only;
    return shape;
  }

  Schedule Generated(const Shape& shape) const {
    GenerateOptions options;
    options.workers = shape.p;
    options.stages_per_worker = shape.v;
    options.microbatches = shape.m;
    auto schedule = Generate(GetParam().kind, options);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return *std::move(schedule);
  }

  Schedule Lowered(const Shape& shape) const {
    LoweringOptions options;
    options.send_budget = shape.k;
    options.tied_embeddings = shape.tied;
    auto schedule = Lower(Generated(shape), options);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return *std::move(schedule);
  }

  VerifyOptions Demands(const Shape& shape) const {
    VerifyOptions options;
    options.tied_embeddings = shape.tied;
    options.forward_only = !GetParam().trains;
    return options;
  }

  // Runs `check` on random shapes, all of which `hold`.
  void ForRandomShapes(
      uint32_t seed, const std::function<void(const Shape&)>& check,
      const std::function<bool(const Shape&)>& hold = nullptr) const {
    std::mt19937 random(seed);
    const int cases = PropertyCases();
    for (int i = 0; i < cases && !HasFailure();) {
      const Shape shape = Random(&random);
      if (hold && !hold(shape)) continue;
      SCOPED_TRACE(
          absl::StrCat("seed ", seed, ", case ", i, ": ", ToString(shape)));
      check(shape);
      ++i;
    }
    PrintCases(GetParam().kind, cases, seed);
  }
};

// Also the shapes with a name: fewer microbatches than workers, one worker, one
// microbatch, and all small ones.
TEST_P(GeneratorConformanceTest, EverySmallShapeIsAccepted) {
  const int only = GetParam().only_stages_per_worker;
  for (int p = 1; p <= 8; ++p) {
    for (int v = only == 0 ? 1 : only; v <= (only == 0 ? 3 : only); ++v) {
      for (int m = 1; m <= 24; ++m) {
        Shape shape;
        shape.p = p;
        shape.v = v;
        shape.m = m;
        shape.k = 1 + (p + m) % 2;
        const Verdict verdict = Verify(Lowered(shape), Demands(shape));
        ASSERT_TRUE(verdict.ok)
            << "P=" << p << " V=" << v << " M=" << m << " K=" << shape.k << ": "
            << verdict.ToStatus();
      }
    }
  }
}

TEST_P(GeneratorConformanceTest, TheVerifierAcceptsItBeforeAndAfterLowering) {
  ForRandomShapes(1, [this](const Shape& shape) {
    VerifyOptions compute = Demands(shape);
    compute.tied_embeddings = false;
    EXPECT_EQ(Verify(Generated(shape), compute).ToStatus(), absl::OkStatus());
    EXPECT_EQ(Verify(Lowered(shape), Demands(shape)).ToStatus(),
              absl::OkStatus());
  });
}

TEST_P(GeneratorConformanceTest, EachParameterAddsUpMicrobatchesAscending) {
  ForRandomShapes(2, [this](const Shape& shape) {
    EXPECT_TRUE(Verify(Lowered(shape), Demands(shape)).ascending_accumulation);
  });
}

TEST_P(GeneratorConformanceTest, BubbleIsThatOfTheTable) {
  const Figures* const figures = FindFigures(GetParam().kind);
  if (figures == nullptr) GTEST_SKIP() << "no closed form";
  ForRandomShapes(
      3,
      [&](const Shape& shape) {
        const auto run = Simulate(Lowered(shape));
        ASSERT_TRUE(run.ok()) << run.status();
        const double bubble = figures->bubble(shape);
        for (const WorkerTimes& worker : run->workers) {
          EXPECT_DOUBLE_EQ(worker.idle, bubble);
        }
        EXPECT_DOUBLE_EQ(run->bubble_ratio, bubble / run->makespan);
      },
      figures->where);
}

TEST_P(GeneratorConformanceTest, NoWorkerIdlesLessThanThatKindMust) {
  Shape two_workers;
  two_workers.p = 2;
  if (testing::LeastBubble(GetParam().kind, two_workers) == 0) {
    GTEST_SKIP() << "no bound";
  }
  ForRandomShapes(8, [&](const Shape& shape) {
    const auto run = Simulate(Lowered(shape));
    ASSERT_TRUE(run.ok()) << run.status();
    for (const WorkerTimes& worker : run->workers) {
      EXPECT_GE(worker.idle, testing::LeastBubble(GetParam().kind, shape));
    }
  });
}

// Where the table has no figure, the verifier's is the simulator's.
TEST_P(GeneratorConformanceTest, PeakInFlightIsThatOfTheTable) {
  const Figures* const figures = FindFigures(GetParam().kind);
  ForRandomShapes(4, [&](const Shape& shape) {
    const Schedule schedule = Lowered(shape);
    const Verdict verdict = Verify(schedule, Demands(shape));
    const auto run = Simulate(schedule);
    ASSERT_TRUE(run.ok()) << run.status();
    const bool has_figure = figures != nullptr && figures->Hold(shape);
    for (int w = 0; w < shape.p; ++w) {
      const size_t i = static_cast<size_t>(w);
      const int verified = verdict.peak_in_flight[i];
      EXPECT_EQ(run->workers[i].peak_in_flight, verified) << "w" << w;
      if (!has_figure) continue;
      EXPECT_EQ(verified, figures->peak_in_flight(shape, w)) << "w" << w;
    }
  });
}

TEST_P(GeneratorConformanceTest, HeldOutputsWithoutReleaseAreThoseOfTheTable) {
  const Figures* const figures = FindFigures(GetParam().kind);
  if (figures == nullptr || !figures->held_never) {
    GTEST_SKIP() << "no closed form";
  }
  ForRandomShapes(
      5,
      [&](const Shape& shape) {
        const auto run = Simulate(Lowered(shape));
        ASSERT_TRUE(run.ok()) << run.status();
        for (int w = 0; w < shape.p; ++w) {
          EXPECT_EQ(
              run->workers[static_cast<size_t>(w)].peak_held_outputs_never,
              figures->held_never(shape, w))
              << "w" << w;
        }
      },
      figures->where);
}

// K and D cost nothing at equal costs.
TEST_P(GeneratorConformanceTest, LoweringDoesNotLengthenTheStep) {
  ForRandomShapes(6, [this](const Shape& shape) {
    const auto before = Simulate(Generated(shape));
    const auto after = Simulate(Lowered(shape));
    ASSERT_TRUE(before.ok()) << before.status();
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_DOUBLE_EQ(after->makespan, before->makespan);
  });
}

TEST_P(GeneratorConformanceTest, UnequalCostsRunToTheEndNoFasterThanTheWork) {
  std::mt19937 random(7);
  ForRandomShapes(7, [&](const Shape& shape) {
    std::uniform_real_distribution<double> cost(0, 3);
    SimulateOptions options;
    options.costs.clear();
    for (int s = 0; s < shape.p * shape.v; ++s) {
      options.costs.push_back({cost(random), cost(random), cost(random)});
    }
    const auto run = Simulate(Lowered(shape), options);
    ASSERT_TRUE(run.ok()) << run.status();
    for (const WorkerTimes& worker : run->workers) {
      EXPECT_LE(worker.busy, run->makespan + 1e-9);
      EXPECT_GE(worker.idle, -1e-9);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, GeneratorConformanceTest,
                         ::testing::ValuesIn(Generators()),
                         [](const ::testing::TestParamInfo<Generator>& kind) {
                           std::string name(kind.param.kind);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace stagecoach::schedule

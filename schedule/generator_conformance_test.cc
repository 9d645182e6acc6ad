// What every generator promises, for random shapes. A new kind needs no line
// here; with one in `Table` its bubble and peaks are checked too.

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

struct Shape {
  int p = 1;
  int v = 1;
  int m = 1;
  int k = 1;
  bool tied = false;
};

// The published figures at equal costs, where there are closed ones; times in
// units of one stage's F = I = W.
struct Figures {
  std::function<double(const Shape&)> bubble;
  std::function<int(const Shape&, int worker)> peak_in_flight;
  // Outputs held under release = "never"; empty: no closed form.
  std::function<int(const Shape&, int worker)> held_never;
  // For which M they hold; empty: all.
  std::function<bool(const Shape&)> where = nullptr;

  bool Hold(const Shape& shape) const { return !where || where(shape); }
};

// What a stage holds but the last one, which sends nothing.
std::function<int(const Shape&, int)> ButForTheLastStage(
    std::function<int(const Shape&, int)> held) {
  return
      [held](const Shape& s, int w) { return w == s.p - 1 ? 0 : held(s, w); };
}

Figures ZeroBubble(std::function<int(const Shape&)> peak,
                   std::function<bool(const Shape&)> where) {
  const auto of_worker = [peak](const Shape& s, int) { return peak(s); };
  return {[](const Shape& s) { return 1.0 * (s.p - 1); }, of_worker,
          ButForTheLastStage(of_worker), where};
}

int InterleavedGroup(const Shape& s) {
  if (s.m % s.p == 0) return s.p;
  const int groups = std::max(1, s.m / s.p);
  return (s.m + groups - 1) / groups;
}

double LoopBubble(const Shape& s) {
  return 3.0 * (s.p - 1 + (s.v - 1) * std::max(0, s.p - s.m));
}

// The first worker comes to it only with one more microbatch.
int DualPipePeak(const Shape& s, int) { return 2 * s.p + 1; }

const std::map<std::string, Figures>& Table() {
  static const auto* const table = new std::map<std::string, Figures>{
      {"gpipe",
       {[](const Shape& s) { return 3.0 * (s.p - 1); },
        [](const Shape& s, int) { return s.m; },
        [](const Shape& s, int w) { return w == s.p - 1 ? 0 : s.m; }}},
      {"1f1b",
       {[](const Shape& s) { return 3.0 * (s.p - 1); },
        [](const Shape& s, int w) { return std::min(s.m, s.p - w); },
        [](const Shape& s, int w) {
          return w == s.p - 1 ? 0 : std::min(s.m, s.p - w);
        }}},
      {"eager-1f1b",
       {[](const Shape& s) { return 3.0 * (s.p - 1); },
        [](const Shape& s, int w) { return std::min(s.m, 2 * (s.p - w) - 1); },
        ButForTheLastStage([](const Shape& s, int w) {
          return std::min(s.m, 2 * (s.p - w) - 1);
        })}},
      {"interleaved",
       {LoopBubble,
        [](const Shape& s, int w) {
          return std::min(s.m * s.v, 2 * (s.p - w - 1) +
                                         (s.v - 1) * InterleavedGroup(s) + 1);
        },
        nullptr}},
      {"looped-bfs",
       {LoopBubble, [](const Shape& s, int) { return s.m * s.v; },
        [](const Shape& s, int w) {
          if (s.p == 1) return 0;
          return w == s.p - 1 ? s.m * (s.v - 1) : s.m * s.v;
        }}},
      {"zb-h1", ZeroBubble([](const Shape& s) { return std::min(s.m, s.p); },
                           [](const Shape& s) { return s.m >= s.p; })},
      {"zb-h2",
       ZeroBubble([](const Shape& s) { return std::min(s.m, 2 * s.p - 1); },
                  [](const Shape& s) { return s.m >= 2 * s.p - 1; })},
      {"zbv",
       {[](const Shape& s) { return 1.0 * (s.p - 1); },
        [](const Shape& s, int) { return 2 * s.p; }, nullptr,
        [](const Shape& s) { return s.m >= 2 * s.p - 1; }}},
      // A forward and a backward one after the other, not as one unit.
      {"dualpipe-v",
       {[](const Shape& s) { return 1.0 * (s.p - 1); },
        [](const Shape& s, int w) { return DualPipePeak(s, w); }, nullptr,
        [](const Shape& s) { return s.m >= 2 * s.p; }}},
      {"forward-only",
       {[](const Shape& s) { return 1.0 * (s.p - 1) * s.v; },
        [](const Shape&, int) { return 1; },
        [](const Shape& s, int w) { return w == s.p - 1 ? 0 : 1; }}},
  };
  return *table;
}

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

  // Runs `check` on 200 random shapes.
  void ForRandomShapes(uint32_t seed,
                       const std::function<void(const Shape&)>& check) const {
    std::mt19937 random(seed);
    for (int i = 0; i < 200 && !HasFailure(); ++i) {
      const Shape shape = Random(&random);
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", case ", i, ": P=", shape.p,
                                " V=", shape.v, " M=", shape.m, " K=", shape.k,
                                " tied=", shape.tied));
      check(shape);
    }
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
  const auto figures = Table().find(std::string(GetParam().kind));
  if (figures == Table().end()) GTEST_SKIP() << "no closed form";
  ForRandomShapes(3, [&](const Shape& shape) {
    if (!figures->second.Hold(shape)) return;
    const auto run = Simulate(Lowered(shape));
    ASSERT_TRUE(run.ok()) << run.status();
    const double bubble = figures->second.bubble(shape);
    for (const WorkerTimes& worker : run->workers) {
      EXPECT_DOUBLE_EQ(worker.idle, bubble);
    }
    EXPECT_DOUBLE_EQ(run->bubble_ratio, bubble / run->makespan);
  });
}

TEST_P(GeneratorConformanceTest, PeakInFlightIsThatOfTheTable) {
  const auto figures = Table().find(std::string(GetParam().kind));
  if (figures == Table().end()) GTEST_SKIP() << "no closed form";
  ForRandomShapes(4, [&](const Shape& shape) {
    if (!figures->second.Hold(shape)) return;
    const Schedule schedule = Lowered(shape);
    const Verdict verdict = Verify(schedule, Demands(shape));
    const auto run = Simulate(schedule);
    ASSERT_TRUE(run.ok()) << run.status();
    for (int w = 0; w < shape.p; ++w) {
      const int expected = figures->second.peak_in_flight(shape, w);
      const size_t i = static_cast<size_t>(w);
      EXPECT_EQ(verdict.peak_in_flight[i], expected) << "verified, w" << w;
      EXPECT_EQ(run->workers[i].peak_in_flight, expected)
          << "simulated, w" << w;
    }
  });
}

TEST_P(GeneratorConformanceTest, HeldOutputsWithoutReleaseAreThoseOfTheTable) {
  const auto figures = Table().find(std::string(GetParam().kind));
  if (figures == Table().end() || !figures->second.held_never) {
    GTEST_SKIP() << "no closed form";
  }
  ForRandomShapes(5, [&](const Shape& shape) {
    if (!figures->second.Hold(shape)) return;
    const auto run = Simulate(Lowered(shape));
    ASSERT_TRUE(run.ok()) << run.status();
    for (int w = 0; w < shape.p; ++w) {
      EXPECT_EQ(run->workers[static_cast<size_t>(w)].peak_held_outputs_never,
                figures->second.held_never(shape, w))
          << "w" << w;
    }
  });
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

#include "schedule/simulator.h"

#include <algorithm>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"

namespace stagecoach::schedule {
namespace {

using testing::FindPlan;
using ::testing::HasSubstr;
using testing::MakeSchedule;

Schedule Generated(absl::string_view kind, int p, int v, int m) {
  GenerateOptions options;
  options.workers = p;
  options.stages_per_worker = v;
  options.microbatches = m;
  return *Generate(kind, options);
}

SimulateResult Simulated(const Schedule& schedule,
                         const SimulateOptions& options = {}) {
  auto result = Simulate(schedule, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

SimulateOptions Costs(std::vector<StageCosts> costs) {
  SimulateOptions options;
  options.costs = std::move(costs);
  return options;
}

// Two stages, F 2 and 3, B 4+1 and 1+1.
TEST(SimulatorTest, StartsEachActionWhenItsWorkerAndItsInputAreReady) {
  const SimulateResult result =
      Simulated(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}),
                Costs({{2, 4, 1}, {3, 1, 1}}));
  ASSERT_EQ(result.timeline[0].size(), 2u);
  EXPECT_EQ(result.timeline[0][0].start, 0);
  EXPECT_EQ(result.timeline[0][0].end, 2);
  EXPECT_EQ(result.timeline[1][0].start, 2);
  EXPECT_EQ(result.timeline[1][1].end, 7);
  EXPECT_EQ(result.timeline[0][1].start, 7);
  EXPECT_EQ(result.makespan, 12);
  EXPECT_EQ(result.workers[0].busy, 7);
  EXPECT_EQ(result.workers[1].idle, 7);
  EXPECT_DOUBLE_EQ(result.bubble_ratio, 12.0 / 24);
}

// The gradient goes on after I; W fills the wait.
TEST(SimulatorTest, ASplitBackwardLetsTheNextStageStartEarlier) {
  const SimulateResult split =
      Simulated(MakeSchedule(1, 1, {"0F0 0I0 0W0", "1F0 1I0 1W0"}));
  const SimulateResult full =
      Simulated(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}));
  EXPECT_EQ(full.makespan, 6);
  EXPECT_EQ(split.makespan, 5);
}

// Worker 0 may run ahead of worker 1, which is slow, by K + D outputs and the
// one that waits in AWAIT_RELEASE.
TEST(SimulatorTest, BudgetAndDepthHoldTheSenderBack) {
  LoweringOptions options;
  options.send_budget = 1;
  Schedule schedule = *Lower(Generated("gpipe", 2, 1, 8), options);
  FindPlan(&schedule, 0, 1, Direction::kActivation)->receive_depth = 1;
  const SimulateResult result =
      Simulated(schedule, Costs({{1, 1, 1}, {10, 1, 1}}));
  // RECV n is reached at 1 + 10(n-1) for n > 0; AWAIT n waits for RECV n-2, so
  // F 4 (after AWAIT 3, for RECV 1 at 11) starts at 11.
  EXPECT_EQ(result.timeline[0][2].start, 2);
  EXPECT_EQ(result.timeline[0][3].start, 3);
  EXPECT_EQ(result.timeline[0][4].start, 11);
  EXPECT_EQ(result.timeline[0][5].start, 21);
  // Nothing waits with enough of either.
  schedule.send_budget = 8;
  EXPECT_EQ(
      Simulated(schedule, Costs({{1, 1, 1}, {10, 1, 1}})).timeline[0][5].start,
      5);
}

// Counts measured on real processes: 8 layers, M = 8.
TEST(SimulatorTest, CountsHeldOutputsOfInterleavedAsMeasured) {
  const auto held = [](int p) {
    std::vector<int> counts;
    for (const WorkerTimes& worker :
         Simulated(Generated("interleaved", p, 2, 8)).workers) {
      counts.push_back(worker.peak_held_outputs_never);
    }
    return counts;
  };
  EXPECT_EQ(held(2), (std::vector<int>{5, 3}));
  EXPECT_EQ(held(4), (std::vector<int>{11, 9, 7, 5}));
}

// Stage 1's output is handed over inside worker 1: it is in flight, not held.
TEST(SimulatorTest, HandOffsOnOneWorkerHoldNoOutput) {
  Schedule schedule =
      MakeSchedule(1, 2, {"0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0"});
  schedule.placement = {WorkerIndex(0), WorkerIndex(1), WorkerIndex(1),
                        WorkerIndex(0)};
  const SimulateResult result = Simulated(schedule);
  EXPECT_EQ(result.workers[0].peak_held_outputs_never, 1);
  EXPECT_EQ(result.workers[1].peak_held_outputs_never, 1);
  EXPECT_EQ(result.workers[1].peak_in_flight, 2);
}

TEST(SimulatorTest, TiedReductionsMeet) {
  LoweringOptions options;
  options.tied_embeddings = true;
  const Schedule schedule = *Lower(Generated("gpipe", 3, 1, 4), options);
  EXPECT_EQ(Simulated(schedule).makespan,
            Simulated(Generated("gpipe", 3, 1, 4)).makespan);
}

TEST(SimulatorTest, DeadlockSaysWhoStandsWhere) {
  const auto result =
      Simulate(MakeSchedule(2, 1, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(result.status().message(),
              HasSubstr("w0 waits at its action 1, 0B0, w1 waits at its "
                        "action 1, 1F1"));
}

TEST(SimulatorTest, CostsThatDoNotFitAreRefused) {
  const Schedule schedule = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  for (const SimulateOptions& options :
       {Costs({}), Costs({{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}),
        Costs({{-1, 1, 1}}), Costs({{1, 1.0 / 0.0, 1}})}) {
    EXPECT_EQ(Simulate(schedule, options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(SimulatorTest, MalformedSchedulesAreRefusedNotRun) {
  Schedule schedule = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  schedule.placement.pop_back();
  EXPECT_EQ(Simulate(schedule).status().code(),
            absl::StatusCode::kInvalidArgument);
  schedule = MakeSchedule(1, 1, {"7F0"});
  EXPECT_EQ(Simulate(schedule).status().code(),
            absl::StatusCode::kInvalidArgument);
  schedule = MakeSchedule(2147483647, 1, {"0F0"});
  EXPECT_EQ(Simulate(schedule).status().code(),
            absl::StatusCode::kInvalidArgument);
  // A SEND over an edge without a plan.
  schedule = *Lower(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}), {});
  schedule.edges.clear();
  EXPECT_EQ(Simulate(schedule).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// 10 bytes at 5 per unit and a latency of 3: 5 each way.
TEST(SimulatorTest, TransfersTakeLatencyAndBytesOverBandwidth) {
  SimulateOptions options = Costs({{1, 1, 1}});
  options.bytes = {{0, 10}};
  options.bandwidth = 5;
  options.latency = 3;
  for (const bool lowered : {false, true}) {
    Schedule schedule = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
    if (lowered) schedule = *Lower(schedule, {});
    const SimulateResult result = Simulated(schedule, options);
    EXPECT_EQ(result.timeline[1][0].start, 1 + 5);
    EXPECT_EQ(result.timeline[0][1].start, 1 + 5 + 3 + 5);
    EXPECT_EQ(result.makespan, 16);
  }
}

// Three outputs are there at 1, 2 and 3; each occupies the wire for 4.
TEST(SimulatorTest, AWireCarriesOneTransferAtATime) {
  SimulateOptions options = Costs({{1, 1, 1}});
  options.bytes = {{0, 4}};
  options.bandwidth = 1;
  LoweringOptions lowering;
  lowering.send_budget = 3;
  const SimulateResult result =
      Simulated(*Lower(Generated("gpipe", 2, 1, 3), lowering), options);
  EXPECT_EQ(result.timeline[1][0].start, 5);
  EXPECT_EQ(result.timeline[1][1].start, 9);
  EXPECT_EQ(result.timeline[1][2].start, 13);
}

// F 2 and 3, B 5 and 2: both forwards, then both backwards.
TEST(SimulatorTest, CriticalPathNamesActionsAndWaits) {
  SimulateOptions options = Costs({{2, 4, 1}, {3, 1, 1}});
  options.latency = 1;
  const SimulateResult result = Simulated(
      *Lower(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}), {}), options);
  std::vector<std::string> path;
  for (const CriticalAction& step : result.critical_path) {
    path.push_back(ToString(step.action) + " " +
                   std::string(WaitName(step.wait)));
  }
  EXPECT_EQ(path, (std::vector<std::string>{"0F0 ", "1F0 arrival", "1B0 worker",
                                            "0B0 arrival"}));
  EXPECT_EQ(result.critical_path[1].waited, 1);
  EXPECT_EQ(result.critical_path[2].waited, 0);
}

// Worker 0 waits for its budget (see BudgetAndDepthHoldTheSenderBack).
TEST(SimulatorTest, CriticalPathSeesABudgetThatIsTooSmall) {
  LoweringOptions lowering;
  lowering.send_budget = 1;
  Schedule schedule = *Lower(Generated("gpipe", 2, 1, 8), lowering);
  FindPlan(&schedule, 0, 1, Direction::kActivation)->receive_depth = 0;
  const SimulateResult result =
      Simulated(schedule, Costs({{10, 1, 1}, {9, 1, 1}}));
  bool release = false;
  for (const CriticalAction& step : result.critical_path) {
    release |= step.wait == Wait::kRelease || step.wait == Wait::kGrant ||
               step.wait == Wait::kArrival;
  }
  EXPECT_TRUE(release);
}

// Its parts add up to the makespan, whatever the costs.
TEST(SimulatorTest, CriticalPathIsAsLongAsTheStep) {
  const uint32_t seed = 3;
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> cost(0.1, 3);
  for (const Generator& generator : Generators()) {
    const int v = std::max(1, generator.only_stages_per_worker);
    SimulateOptions options = Costs({});
    for (int s = 0; s < 4 * v; ++s) {
      options.costs.push_back({cost(random), cost(random), cost(random)});
    }
    options.latency = cost(random);
    const SimulateResult result =
        Simulated(*Lower(Generated(generator.kind, 4, v, 9), {}), options);
    double at = 0;
    for (const CriticalAction& step : result.critical_path) {
      EXPECT_NEAR(step.start, at + step.waited, 1e-9) << generator.kind;
      EXPECT_GE(step.waited, 0);
      at = step.end;
    }
    EXPECT_NEAR(result.critical_path.back().end, result.makespan, 1e-9)
        << generator.kind << ", seed " << seed;
  }
}

TEST(SimulatorTest, BytesInFlightFollowTheCountsOverTime) {
  SimulateOptions options;
  options.bytes = {{100, 7}};
  for (const Generator& generator : Generators()) {
    if (!generator.trains) continue;
    const int v = std::max(1, generator.only_stages_per_worker);
    const SimulateResult result =
        Simulated(*Lower(Generated(generator.kind, 4, v, 9), {}), options);
    for (size_t w = 0; w < 4; ++w) {
      const WorkerTimes& worker = result.workers[w];
      EXPECT_EQ(worker.peak_in_flight_bytes, 100 * worker.peak_in_flight);
      EXPECT_EQ(result.memory[w].back().in_flight_bytes, 0);
      EXPECT_EQ(result.memory[w].back().held_output_bytes, 0);
      EXPECT_GT(worker.receive_pool_bytes, 0);
    }
  }
}

// 1F1B, stage 0 of 4: min(M, P) outputs without release; one if transfers take
// no time; 1 + K if acknowledgements take longer than forwards.
TEST(SimulatorTest, ReleasePolicyDecidesWhatIsHeld) {
  const Schedule schedule = *Lower(Generated("1f1b", 4, 1, 8), {});
  const auto held = [&schedule](ReleasePolicy release, double latency) {
    SimulateOptions options;
    options.bytes = {{0, 1}};
    options.latency = latency;
    options.release = release;
    return Simulated(schedule, options).workers[0].peak_held_output_bytes;
  };
  EXPECT_EQ(held(ReleasePolicy::kNever, 0), 4);
  EXPECT_EQ(held(ReleasePolicy::kAcknowledged, 0), 1);
  EXPECT_EQ(held(ReleasePolicy::kSent, 0), 1);
  EXPECT_EQ(held(ReleasePolicy::kSent, 1.5), 1);
  EXPECT_EQ(held(ReleasePolicy::kAcknowledged, 1.5), 3);
  EXPECT_EQ(held(ReleasePolicy::kNever, 1.5), 4);
}

TEST(SimulatorTest, BytesAndBandwidthThatDoNotFitAreRefused) {
  const Schedule schedule = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  SimulateOptions bytes;
  bytes.bytes = {{1, 1}, {1, 1}, {1, 1}};
  SimulateOptions negative;
  negative.bytes = {{-1, 1}};
  SimulateOptions latency;
  latency.latency = -1;
  for (const SimulateOptions& options : {bytes, negative, latency}) {
    EXPECT_EQ(Simulate(schedule, options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(SimulatorTest, FreeWorkHasNoBubble) {
  EXPECT_EQ(Simulated(MakeSchedule(1, 1, {"0F0 0B0"}), Costs({{0, 0, 0}}))
                .bubble_ratio,
            0);
}

}  // namespace
}  // namespace stagecoach::schedule

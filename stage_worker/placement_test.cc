#include "stage_worker/placement.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stage_worker/testing/placement_rig.h"

namespace stagecoach::worker {
namespace {

std::unique_ptr<PlacementRig> Rig(const PlacementRig::Options& options) {
  auto rig = PlacementRig::Create(options);
  EXPECT_TRUE(rig.ok()) << rig.status();
  return rig.ok() ? *std::move(rig) : nullptr;
}

PlacementRig::Options Job(int workers, const std::string& schedule,
                          int microbatches, int stages_per_worker = 1) {
  PlacementRig::Options options;
  options.spec = RigSpec(workers, schedule, microbatches, stages_per_worker);
  return options;
}

// Of the last step, by parameter.
std::map<int64_t, double> GradientsOf(const PlacementRig& rig) {
  std::map<int64_t, double> gradients;
  for (int w = 0; w < rig.workers(); ++w) {
    for (const ParameterNorm& norm : rig.outcome(w)->gradients.norms) {
      gradients[norm.global_index] = norm.squared;
    }
  }
  return gradients;
}

class PlacementShapeTest
    : public ::testing::TestWithParam<std::tuple<const char*, int, int, int>> {
};

// Every transfer of every shape arrives where and when it is due: the synthetic
// engine's checksum is the one of a single worker that holds as many stages.
TEST_P(PlacementShapeTest, RunsStepsWithTheLossOfOneWorker) {
  const auto [schedule, workers, per_worker, microbatches] = GetParam();
  auto rig = Rig(Job(workers, schedule, microbatches, per_worker));
  auto single = Rig(Job(1, "interleaved", microbatches, workers * per_worker));
  ASSERT_NE(rig, nullptr);
  ASSERT_NE(single, nullptr);
  for (int64_t step = 0; step < 3; ++step) {
    const absl::Status status = rig->RunStep(step);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(single->RunStep(step).ok());
    EXPECT_EQ(rig->Loss(), single->Loss());
    for (int w = 0; w < rig->workers(); ++w) {
      const PlacementMemory memory = rig->placement(w).Memory();
      EXPECT_EQ(memory.ledger.pending_transfers, 0);
      EXPECT_EQ(memory.ledger.held_bytes, 0);
      EXPECT_EQ(memory.step, -1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PlacementShapeTest,
    ::testing::Values(std::make_tuple("gpipe", 1, 1, 4),
                      std::make_tuple("gpipe", 4, 1, 8),
                      std::make_tuple("1f1b", 2, 1, 5),
                      std::make_tuple("1f1b", 4, 1, 2),
                      std::make_tuple("1f1b", 8, 1, 16),
                      std::make_tuple("interleaved", 1, 2, 4),
                      std::make_tuple("interleaved", 2, 3, 6),
                      std::make_tuple("interleaved", 3, 2, 7),
                      std::make_tuple("interleaved", 4, 2, 3)));

// The rows of tests/cluster/data_paths_test, here with the path that joins
// workers of one process as well.
TEST(PlacementTest, EveryScheduleOverEveryPathGivesTheSameBits) {
  const std::vector<std::pair<const char*, int>> kinds = {
      {"gpipe", 1},  {"1f1b", 1},        {"eager-1f1b", 1}, {"zb-h1", 1},
      {"zb-h2", 1},  {"interleaved", 2}, {"looped-bfs", 2}, {"zbv", 2},
      {"v-half", 2}, {"v-min", 2},       {"dualpipe-v", 2}};
  for (const auto& [schedule, per_worker] : kinds) {
    auto single = Rig(Job(1, "interleaved", 8, 4 * per_worker));
    ASSERT_NE(single, nullptr);
    ASSERT_TRUE(single->RunStep(0).ok());
    std::string row = absl::StrFormat("%-12s", schedule);
    for (const char* path : {"loopback", "shm", "tcp"}) {
      PlacementRig::Options options = Job(4, schedule, 8, per_worker);
      options.path = path;
      auto rig = Rig(options);
      ASSERT_NE(rig, nullptr) << schedule << " over " << path;
      const absl::Status status = rig->RunStep(0);
      ASSERT_TRUE(status.ok()) << schedule << " over " << path << status;
      const LinkTraffic traffic = rig->placement(0).Memory().traffic;
      ASSERT_FALSE(traffic.edges.empty());
      for (const EdgeTraffic& edge : traffic.edges) {
        EXPECT_EQ(edge.transport, path);
        EXPECT_GT(edge.transfers, 0) << edge.edge;
      }
      const bool equal = rig->Loss() == single->Loss() &&
                         GradientsOf(*rig) == GradientsOf(*single);
      EXPECT_TRUE(equal) << schedule << " over " << path;
      absl::StrAppend(&row, "  ", path, " ", equal ? "equal" : "DIFFERENT");
    }
    std::cout << row << std::endl;
  }
}

TEST(PlacementTest, HoldsAtMostTheBudgetAndOneMore) {
  for (int budget : {1, 2, 3}) {
    PlacementRig::Options options = Job(4, "gpipe", 12);
    options.spec.pipeline.send_budget = budget;
    auto rig = Rig(options);
    ASSERT_NE(rig, nullptr);
    ASSERT_TRUE(rig->RunStep(0).ok());
    const auto bytes = static_cast<int64_t>(rig->plan().boundary.bytes());
    for (int w = 0; w < 4; ++w) {
      const memory::LedgerStats ledger = rig->placement(w).Memory().ledger;
      EXPECT_LE(ledger.held_peak_bytes, (1 + budget) * bytes);
      if (w < 3) {
        EXPECT_GE(ledger.held_peak_bytes, bytes);
      }
    }
  }
}

TEST(PlacementTest, NeverHoldsEveryMicrobatchUnderGpipe) {
  PlacementRig::Options options = Job(3, "gpipe", 10);
  options.spec.pipeline.release = job::ReleasePolicy::kNever;
  auto rig = Rig(options);
  ASSERT_NE(rig, nullptr);
  ASSERT_TRUE(rig->RunStep(0).ok());
  const auto bytes = static_cast<int64_t>(rig->plan().boundary.bytes());
  EXPECT_EQ(rig->placement(0).Memory().ledger.held_peak_bytes, 10 * bytes);
  EXPECT_EQ(rig->placement(1).Memory().ledger.held_peak_bytes, 10 * bytes);
  EXPECT_EQ(rig->placement(2).Memory().ledger.held_peak_bytes, 0);
}

TEST(PlacementTest, AnEngineErrorLeavesThePositionOfTheFault) {
  PlacementRig::Options options = Job(2, "1f1b", 4);
  schedule::Action culprit;
  culprit.kind = schedule::ActionKind::kBackward;
  culprit.stage = StageIndex(1);
  culprit.microbatch = MicrobatchIndex(2);
  PlacementRig* rig_pointer = nullptr;
  options.synthetic.before_action = [&](const schedule::Action& action) {
    if (action != culprit) return absl::OkStatus();
    // What a coordinator does on the report: everybody stops.
    rig_pointer->placement(0).Abort(absl::CancelledError("worker 1 failed"));
    return absl::InternalError("scripted failure");
  };
  auto rig = Rig(options);
  ASSERT_NE(rig, nullptr);
  rig_pointer = rig.get();
  EXPECT_FALSE(rig->RunStep(0).ok());
  EXPECT_EQ(rig->outcome(1).status().message(), "scripted failure");
  EXPECT_TRUE(absl::IsCancelled(rig->outcome(0).status()));
  const std::optional<Position> position = rig->placement(1).position();
  ASSERT_TRUE(position.has_value());
  EXPECT_EQ(schedule::ToString(position->action), "1B2");
  EXPECT_EQ(position->step, StepIndex(0));
}

TEST(PlacementTest, AbortEndsAWaitForATransferThatNeverComes) {
  auto rig = Rig(Job(2, "1f1b", 4));
  ASSERT_NE(rig, nullptr);
  // Only worker 1 runs: it waits for worker 0's first activation.
  absl::Status status;
  std::thread engine(
      [&] { status = rig->placement(1).RunStep(StepIndex(0), 1).status(); });
  rig->placement(1).Abort(absl::CancelledError("enough"));
  engine.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST(PlacementTest, ALostEdgeNamesThePeer) {
  PlacementRig::Options options = Job(2, "1f1b", 4);
  options.faults.drop_link_at_send = 2;
  options.faulty_worker = 0;
  auto rig = Rig(options);
  ASSERT_NE(rig, nullptr);
  // Worker 1 would wait for ever for what worker 0 cannot send: the coordinator
  // stops it, here the test does once worker 0 has given up.
  std::thread other(
      [&] { EXPECT_FALSE(rig->placement(1).RunStep(StepIndex(0), 1).ok()); });
  const absl::Status first =
      rig->placement(0).RunStep(StepIndex(0), 1).status();
  rig->placement(1).Abort(absl::CancelledError("worker 0 lost an edge"));
  other.join();
  EXPECT_TRUE(absl::IsUnavailable(first)) << first;
  EXPECT_EQ(rig->placement(0).abort_flag().blamed_worker(), "w1");
}

TEST(PlacementTest, ReportsRetainedOutputsOfAStageThatKeepsThem) {
  // No backward before the last forward, which waits for the acknowledgement of
  // all transfers but one: that one may come when the backward has let go.
  PlacementRig::Options options = Job(2, "gpipe", 4);
  options.spec.pipeline.send_budget = 1;
  options.synthetic.retaining_stages = {StageIndex(0)};
  auto rig = Rig(options);
  ASSERT_NE(rig, nullptr);
  ASSERT_TRUE(rig->RunStep(0).ok());
  const PlacementMemory memory = rig->placement(0).Memory();
  const memory::StageLedgerStats& stage =
      memory.ledger.stages.at(StageIndex(0));
  EXPECT_GE(stage.retained_bytes, stage.sent_bytes * 3 / 4);
  EXPECT_EQ(stage.retained_bytes + stage.released_bytes, stage.sent_bytes);
  EXPECT_EQ(memory.ledger.retained_now_bytes, 0);  // gone with the backwards
}

TEST(PlacementTest, GivesEverythingBackWhenItStops) {
  auto rig = Rig(Job(2, "1f1b", 4));
  ASSERT_NE(rig, nullptr);
  ASSERT_TRUE(rig->RunStep(0).ok());
  for (int w = 0; w < 2; ++w) {
    rig->placement(w).Stop();
    const PlacementMemory memory = rig->placement(w).Memory();
    EXPECT_EQ(memory.ledger.pending_transfers, 0);
    EXPECT_EQ(
        memory.allocator
            .categories[static_cast<size_t>(memory::Category::kActivation)]
            .current,
        0);
  }
}

}  // namespace
}  // namespace stagecoach::worker

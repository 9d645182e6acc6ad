#include "schedule/verifier.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"

namespace stagecoach::schedule {
namespace {

using ::testing::ElementsAre;
using testing::FindPlan;
using ::testing::HasSubstr;
using testing::LoopedBreadthFirst;
using testing::MakeSchedule;
using testing::ParseList;
using testing::SplitBackward;

VerifyOptions Tied() {
  VerifyOptions options;
  options.tied_embeddings = true;
  return options;
}

Schedule Lowered(absl::string_view kind, int p, int v, int m, int k = 2,
                 bool tied = false) {
  GenerateOptions generate;
  generate.workers = p;
  generate.stages_per_worker = v;
  generate.microbatches = m;
  LoweringOptions lower;
  lower.send_budget = k;
  lower.tied_embeddings = tied;
  return *Lower(*Generate(kind, generate), lower);
}

// Position of `action` in a worker's list.
std::vector<Action>::iterator At(Schedule* schedule, int worker,
                                 absl::string_view action) {
  std::vector<Action>& list = schedule->actions[static_cast<size_t>(worker)];
  const auto it =
      std::find(list.begin(), list.end(), ParseList(action).front());
  EXPECT_NE(it, list.end()) << action;
  return it;
}

// The only error, of that kind.
VerifyError OnlyError(const Schedule& schedule, const std::string& kind,
                      const VerifyOptions& options = {}) {
  const Verdict verdict = Verify(schedule, options);
  EXPECT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.errors.size(), 1u) << verdict.ToStatus();
  if (verdict.errors.empty()) return {};
  EXPECT_EQ(verdict.errors[0].kind, kind) << verdict.errors[0].message;
  return verdict.errors[0];
}

TEST(VerifierTest, AcceptsWhatIsRight) {
  const Verdict verdict = Verify(Lowered("1f1b", 4, 1, 8));
  EXPECT_TRUE(verdict.ok);
  EXPECT_TRUE(verdict.errors.empty());
  EXPECT_THAT(verdict.peak_in_flight, ElementsAre(4, 3, 2, 1));
  EXPECT_TRUE(verdict.ascending_accumulation);
  EXPECT_EQ(verdict.ToStatus(), absl::OkStatus());
}

TEST(VerifierTest, AcceptsASplitBackward) {
  GenerateOptions options;
  options.workers = 3;
  options.microbatches = 5;
  const Schedule split = SplitBackward(*Generate("1f1b", options));
  EXPECT_EQ(Verify(split).ToStatus(), absl::OkStatus());
  EXPECT_EQ(Verify(*Lower(split, {})).ToStatus(), absl::OkStatus());
}

TEST(VerifierTest, ReportsThatAccumulationDoesNotAscendYetAccepts) {
  const Verdict verdict =
      Verify(MakeSchedule(2, 1, {"0F0 0F1 0B1 0B0", "1F0 1F1 1B1 1B0"}));
  EXPECT_TRUE(verdict.ok) << verdict.ToStatus();
  EXPECT_FALSE(verdict.ascending_accumulation);
}

// With a split backward it is W that adds up.
TEST(VerifierTest, AscendingIsAboutWeightGradients) {
  EXPECT_TRUE(Verify(MakeSchedule(2, 1, {"0F0 0F1 0I1 0I0 0W0 0W1"}))
                  .ascending_accumulation);
  EXPECT_FALSE(Verify(MakeSchedule(2, 1, {"0F0 0F1 0I0 0I1 0W1 0W0"}))
                   .ascending_accumulation);
}

// ---- shape -----------------------------------------------------------------

TEST(VerifierTest, ShapeErrorsNameTheNumber) {
  Schedule schedule = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  schedule.workers = 0;
  EXPECT_THAT(OnlyError(schedule, "shape").message,
              HasSubstr("workers is 0; it must be 1 to"));

  schedule = MakeSchedule(0, 1, {"", ""});
  EXPECT_THAT(OnlyError(schedule, "shape").message,
              HasSubstr("microbatches is 0"));

  schedule = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  schedule.placement.push_back(WorkerIndex(0));
  EXPECT_THAT(OnlyError(schedule, "shape").message,
              HasSubstr("placement has 3 stages"));

  schedule = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  schedule.placement[1] = WorkerIndex(2);
  EXPECT_THAT(OnlyError(schedule, "shape").message,
              HasSubstr("puts stage 1 on worker 2"));

  schedule.placement[1] = WorkerIndex(0);
  EXPECT_THAT(OnlyError(schedule, "shape").message,
              HasSubstr("puts 2 stages on w0"));

  schedule = MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"});
  schedule.actions.pop_back();
  EXPECT_THAT(OnlyError(schedule, "shape").message,
              HasSubstr("1 lists for 2 workers"));

  schedule = Lowered("1f1b", 2, 1, 2);
  schedule.edges.pop_back();
  EXPECT_THAT(OnlyError(schedule, "shape").message,
              HasSubstr("without receive_depth"));

  schedule = Lowered("1f1b", 2, 1, 2);
  schedule.edges.push_back(schedule.edges.back());
  EXPECT_THAT(OnlyError(schedule, "shape").message, HasSubstr("must ascend"));

  schedule = Lowered("1f1b", 3, 1, 2);
  schedule.edges.back().edge.to = WorkerIndex(2);
  EXPECT_THAT(OnlyError(schedule, "shape").message,
              HasSubstr("of 4 planned edges the placement has only 3"));

  VerifyOptions options;
  options.stage_in_flight_bytes = {1, 2, 3};
  EXPECT_THAT(OnlyError(Lowered("1f1b", 2, 1, 2), "shape", options).message,
              HasSubstr("3 stages are given for 2"));
}

TEST(VerifierTest, IndicesOutOfRangeAreNamedOnEveryWorker) {
  const VerifyError error =
      OnlyError(MakeSchedule(1, 1, {"0F0 0B0 0F1", "2F0 1B0 1F9"}), "shape");
  EXPECT_THAT(error.actions, ElementsAre("w0: 0F1", "w1: 2F0"));
  EXPECT_THAT(error.message, HasSubstr("microbatches are 0 to 0"));
  EXPECT_THAT(error.message, HasSubstr("(and 2 more like it)"));
}

TEST(VerifierTest, CommunicationNeedsASendBudget) {
  EXPECT_THAT(
      OnlyError(MakeSchedule(1, 1, {"0F0 0SEND_F0", "1F0"}), "shape").message,
      HasSubstr("send_budget 0"));
}

TEST(VerifierTest, HugeNumbersWithEmptyListsAreRefusedAtOnce) {
  Schedule schedule =
      MakeSchedule(std::numeric_limits<int>::max(), 4, {"", "", "", ""});
  EXPECT_THAT(OnlyError(schedule, "missing").message,
              HasSubstr("the lists have 0 compute actions"));
}

// ---- placement, completeness -----------------------------------------------

TEST(VerifierTest, AnActionOfAnotherWorkersStageIsMisplaced) {
  const VerifyError error =
      OnlyError(MakeSchedule(1, 1, {"0F0 1F0 0B0", "1B0"}), "placement");
  EXPECT_THAT(error.workers, ElementsAre(WorkerIndex(0)));
  EXPECT_THAT(error.actions, ElementsAre("w0: 1F0"));
  EXPECT_THAT(error.message, HasSubstr("stage 1 is on w1"));
}

TEST(VerifierTest, NothingIsSentFromTheLastStage) {
  Schedule schedule = Lowered("1f1b", 2, 1, 1);
  schedule.actions[1].push_back(ParseList("1SEND_F0").front());
  EXPECT_THAT(OnlyError(schedule, "placement").actions,
              ElementsAre("w1: 1SEND_F0"));
}

TEST(VerifierTest, MissingActionsAreNamedWithStageAndMicrobatch) {
  const VerifyError error = OnlyError(
      MakeSchedule(2, 1, {"0F0 0B0 0F1", "1F0 1B0 1F1 1B1"}), "missing");
  EXPECT_THAT(error.actions, ElementsAre("w0: 0B1"));
  EXPECT_THAT(error.message,
              HasSubstr("stage 0 (w0), microbatch 1: 0B1 is missing"));
}

TEST(VerifierTest, EachPieceOfCommunicationIsDemanded) {
  for (const char* dropped :
       {"1RECV_F1", "1SEND_B0", "1AWAIT_RELEASE_B0", "1RECV_B1", "1SEND_F1",
        "1AWAIT_RELEASE_F0", "1F1", "1B0"}) {
    Schedule schedule = Lowered("1f1b", 3, 1, 2);
    schedule.actions[1].erase(At(&schedule, 1, dropped));
    EXPECT_THAT(OnlyError(schedule, "missing").actions,
                ElementsAre(absl::StrCat("w1: ", dropped)));
  }
}

TEST(VerifierTest, DuplicatesAreNamed) {
  Schedule schedule = Lowered("1f1b", 3, 1, 2);
  schedule.actions[1].push_back(ParseList("1B1").front());
  const VerifyError error = OnlyError(schedule, "duplicate");
  EXPECT_THAT(error.actions, ElementsAre("w1: 1B1"));
  EXPECT_THAT(error.message, HasSubstr("is there twice"));
}

TEST(VerifierTest, FullAndSplitBackwardOfOneMicrobatchExclude) {
  EXPECT_THAT(
      OnlyError(MakeSchedule(1, 1, {"0F0 0B0 0W0"}), "duplicate").message,
      HasSubstr("repeats part of a full backward"));
  EXPECT_THAT(OnlyError(MakeSchedule(1, 1, {"0F0 0I0"}), "missing").actions,
              ElementsAre("w0: 0W0"));
}

TEST(VerifierTest, ForwardAloneIsCompleteOnlyForEvaluation) {
  const Schedule schedule = Lowered("forward-only", 3, 2, 4);
  VerifyOptions evaluation;
  evaluation.forward_only = true;
  const Verdict verdict = Verify(schedule, evaluation);
  EXPECT_TRUE(verdict.ok) << verdict.ToStatus();
  EXPECT_THAT(verdict.peak_in_flight, ElementsAre(1, 1, 1));
  EXPECT_THAT(OnlyError(schedule, "missing").message,
              HasSubstr("each forward needs its backward"));
}

// ---- order, release --------------------------------------------------------

TEST(VerifierTest, OrderErrorsNameWhatIsNeeded) {
  EXPECT_THAT(
      OnlyError(MakeSchedule(1, 1, {"0B0 0F0", "1F0 1B0"}), "order").actions,
      ElementsAre("w0: 0B0 (needs 0F0)"));
  EXPECT_THAT(OnlyError(MakeSchedule(1, 1, {"0F0 0W0 0I0"}), "order").actions,
              ElementsAre("w0: 0W0 (needs 0I0)"));
  // Two stages of one worker hand over inside it.
  EXPECT_THAT(
      OnlyError(MakeSchedule(1, 2, {"1F0 0F0 1B0 0B0"}), "order").actions,
      ElementsAre("w0: 1F0 (needs 0F0)"));
  EXPECT_THAT(
      OnlyError(MakeSchedule(1, 2, {"0F0 1F0 0B0 1B0"}), "order").actions,
      ElementsAre("w0: 0B0 (needs 1B0)"));
}

TEST(VerifierTest, ComputeBeforeItsReceiveIsOutOfOrder) {
  Schedule schedule = Lowered("1f1b", 2, 1, 2);
  std::iter_swap(At(&schedule, 1, "1RECV_F1"), At(&schedule, 1, "1F1"));
  EXPECT_THAT(OnlyError(schedule, "order").actions,
              ElementsAre("w1: 1F1 (needs 1RECV_F1)"));
  schedule = Lowered("1f1b", 2, 1, 2);
  std::iter_swap(At(&schedule, 0, "0RECV_B1"), At(&schedule, 0, "0B1"));
  EXPECT_THAT(OnlyError(schedule, "order").actions,
              ElementsAre("w0: 0B1 (needs 0RECV_B1)"));
}

TEST(VerifierTest, ASendFollowsItsOwnAwait) {
  Schedule schedule = Lowered("gpipe", 2, 1, 2);
  std::iter_swap(At(&schedule, 0, "0AWAIT_RELEASE_F0"),
                 At(&schedule, 0, "0SEND_F0"));
  const VerifyError error = OnlyError(schedule, "release");
  EXPECT_THAT(error.actions, ElementsAre("w0: 0SEND_F0"));
  EXPECT_THAT(error.message, HasSubstr("must alternate"));
}

// Both waits would be granted before either send: K + 1 unacknowledged.
TEST(VerifierTest, TwoAwaitsOfAnEdgeInARowAreRefused) {
  Schedule schedule = MakeSchedule(2, 1, {"", ""});
  schedule.send_budget = 1;
  schedule.actions[0] = ParseList(
      "0F0 0F1 0AWAIT_RELEASE_F0 0AWAIT_RELEASE_F1 0SEND_F0 0SEND_F1 "
      "0RECV_B0 0B0 0RECV_B1 0B1");
  schedule.actions[1] = ParseList(
      "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1AWAIT_RELEASE_B0 1SEND_B0 1B1 "
      "1AWAIT_RELEASE_B1 1SEND_B1");
  for (const auto& [from, to, direction] :
       {std::make_tuple(0, 1, Direction::kActivation),
        std::make_tuple(1, 0, Direction::kGradient)}) {
    EdgePlan plan;
    plan.edge = {WorkerIndex(from), WorkerIndex(to), direction};
    plan.receive_depth = 2;
    plan.pool_slots = 4;
    schedule.edges.push_back(plan);
  }
  EXPECT_THAT(OnlyError(schedule, "release").actions,
              ElementsAre("w0: 0AWAIT_RELEASE_F1"));
}

TEST(VerifierTest, AnAwaitBeforeItsComputeIsOutOfOrder) {
  Schedule schedule = Lowered("gpipe", 2, 1, 1);
  std::iter_swap(At(&schedule, 0, "0AWAIT_RELEASE_F0"),
                 At(&schedule, 0, "0F0"));
  EXPECT_EQ(Verify(schedule).errors[0].kind, "order");
}

// ---- edge order ------------------------------------------------------------

// Megatron-LM 1495: the receiver posts its receives in another order than the
// sender its sends, and trains on swapped microbatches, or hangs.
TEST(VerifierTest, SwappedReceivesAreFoundOnTheirEdge) {
  Schedule schedule = Lowered("interleaved", 2, 2, 4);
  std::vector<Action>& list = schedule.actions[1];
  // Both receives first, in the wrong order, both computations after them.
  ASSERT_EQ(testing::Join({list.begin(), list.begin() + 2}), "1RECV_F0 1F0");
  const Action second = ParseList("1RECV_F1").front();
  list.erase(At(&schedule, 1, "1RECV_F1"));
  list.insert(list.begin(), second);
  const VerifyError error = OnlyError(schedule, "edge_order");
  EXPECT_THAT(error.workers, ElementsAre(WorkerIndex(1)));
  EXPECT_THAT(error.actions, ElementsAre("w1: 1RECV_F1 (receives what w0: "
                                         "0SEND_F0 sends)"));
  EXPECT_THAT(error.message,
              HasSubstr("edge 0->1 activation: transfer 0 is sent by w0: "
                        "0SEND_F0 but received by w1: 1RECV_F1"));
}

// One edge carries the inputs of several stages: stage counts as well.
TEST(VerifierTest, StagesSwappedOnOneEdgeAreFound) {
  Schedule schedule = Lowered("interleaved", 2, 2, 4);
  std::vector<Action>& list = schedule.actions[0];
  // 0SEND_F2 goes before 2SEND_F1; both are of edge 0->1.
  for (const char* moved : {"0F2", "0AWAIT_RELEASE_F2", "0SEND_F2"}) {
    list.erase(At(&schedule, 0, moved));
    list.insert(At(&schedule, 0, "2F1"), ParseList(moved).front());
  }
  EXPECT_THAT(OnlyError(schedule, "edge_order").message,
              HasSubstr("is sent by w0: 0SEND_F2 but received by w1: "
                        "3RECV_F1"));
}

// ---- deadlock --------------------------------------------------------------

TEST(VerifierTest, DeadlockOfComputeListsNamesTheCycle) {
  const VerifyError error = OnlyError(
      MakeSchedule(2, 1, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}), "deadlock");
  EXPECT_THAT(error.workers, ElementsAre(WorkerIndex(0), WorkerIndex(1)));
  EXPECT_THAT(error.actions, ElementsAre("w0: 0B0 (waits for 1B0)",
                                         "w1: 1F1 (waits for 0F1)"));
  EXPECT_THAT(error.message,
              HasSubstr("w0 at 0B0 waits for w1 to come to 1B0, "
                        "w1 at 1F1 waits for w0 to come to 0F1"));
}

TEST(VerifierTest, DeadlockOfASplitBackwardWaitsForTheInputGradient) {
  const VerifyError error = OnlyError(
      MakeSchedule(2, 1,
                   {"0F0 0I0 0F1 0W0 0I1 0W1", "1F0 1F1 1I0 1W0 1I1 1W1"}),
      "deadlock");
  EXPECT_THAT(error.actions, ElementsAre("w0: 0I0 (waits for 1I0)",
                                         "w1: 1F1 (waits for 0F1)"));
}

// Four workers hang, two of them in a cycle.
TEST(VerifierTest, TheShortestCycleIsReportedNotItsVictims) {
  const VerifyError error =
      OnlyError(MakeSchedule(2, 1,
                             {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1",
                              "2F0 2B0 2F1 2B1", "3F0 3F1 3B0 3B1"}),
                "deadlock");
  EXPECT_THAT(error.workers, ElementsAre(WorkerIndex(2), WorkerIndex(3)));
}

// The lists below wait for budget: breadth first needs D >= M/P - K.
TEST(VerifierTest, DepthTooSmallIsReportedWithTheSmallestThatIsLive) {
  for (const int p : {2, 3, 4}) {
    for (const int m : {8, 12, 13, 17}) {
      for (const int k : {1, 2}) {
        LoweringOptions options;
        options.send_budget = k;
        Schedule schedule = *Lower(LoopedBreadthFirst(p, 2, m), options);
        const int smallest = std::max(0, m / p - k);
        const auto set_depth = [&schedule](int depth) {
          for (EdgePlan& plan : schedule.edges) {
            plan.receive_depth = depth;
            plan.pool_slots = 1000;
          }
        };
        set_depth(smallest);
        EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus())
            << "P=" << p << " M=" << m << " K=" << k;
        if (smallest == 0) continue;
        set_depth(smallest - 1);
        const VerifyError error = OnlyError(schedule, "deadlock");
        EXPECT_THAT(
            error.message,
            HasSubstr(absl::StrCat("the smallest that is live: receive_depth ",
                                   smallest, " on every edge with send_budget ",
                                   k, ", or send_budget ", k + 1)))
            << "P=" << p << " M=" << m << " K=" << k;
      }
    }
  }
}

TEST(VerifierTest, AWaitForBudgetNamesTheReceiveThatWouldEndIt) {
  LoweringOptions options;
  options.send_budget = 1;
  Schedule schedule = *Lower(LoopedBreadthFirst(2, 2, 6), options);
  for (EdgePlan& plan : schedule.edges) plan.receive_depth = 0;
  const VerifyError error = OnlyError(schedule, "deadlock");
  EXPECT_THAT(error.actions,
              ElementsAre("w0: 0AWAIT_RELEASE_F3 (waits for 1RECV_F2)",
                          "w1: 1AWAIT_RELEASE_F1 (waits for 2RECV_F0)"));
}

TEST(VerifierTest, AnOrderThatNoBudgetSavesIsSaidToBeOne) {
  Schedule schedule = Lowered("gpipe", 2, 1, 2);
  schedule.actions[0] = ParseList(
      "0F0 0AWAIT_RELEASE_F0 0SEND_F0 0RECV_B0 0B0 0F1 0AWAIT_RELEASE_F1 "
      "0SEND_F1 0RECV_B1 0B1");
  const VerifyError error = OnlyError(schedule, "deadlock");
  EXPECT_THAT(error.actions, ElementsAre("w0: 0RECV_B0 (waits for 1SEND_B0)",
                                         "w1: 1RECV_F1 (waits for 0SEND_F1)"));
  EXPECT_THAT(error.message,
              HasSubstr("no send_budget or receive_depth gets past this"));
}

TEST(VerifierTest, ReduceTiedCanBePartOfACycle) {
  Schedule schedule = Lowered("1f1b", 2, 1, 1, 2, /*tied=*/true);
  // Worker 1 reduces before it sends the gradient that worker 0 waits for.
  std::vector<Action>& list = schedule.actions[1];
  const Action reduce = list.back();
  list.pop_back();
  list.insert(At(&schedule, 1, "1SEND_B0") - 1, reduce);
  const VerifyError error = OnlyError(schedule, "deadlock", Tied());
  EXPECT_THAT(error.actions,
              ElementsAre("w0: 0RECV_B0 (waits for 1SEND_B0)",
                          "w1: 1REDUCE_TIED0 (waits for 0REDUCE_TIED0)"));
}

// ---- tied ------------------------------------------------------------------

TEST(VerifierTest, TiedReductionsAreDemandedExactlyWhereTheModelTies) {
  EXPECT_EQ(Verify(Lowered("1f1b", 3, 1, 2, 2, true), Tied()).ToStatus(),
            absl::OkStatus());
  EXPECT_EQ(Verify(Lowered("interleaved", 1, 2, 2, 2, true), Tied()).ToStatus(),
            absl::OkStatus());
  EXPECT_THAT(OnlyError(Lowered("1f1b", 3, 1, 2), "tied", Tied()).actions,
              ElementsAre("w0: 0REDUCE_TIED0", "w2: 2REDUCE_TIED0"));
  EXPECT_THAT(OnlyError(Lowered("1f1b", 3, 1, 2, 2, true), "tied").message,
              HasSubstr("nothing is tied; remove it"));

  Schedule schedule = Lowered("1f1b", 3, 1, 2, 2, true);
  schedule.actions[1].push_back(ParseList("1REDUCE_TIED0").front());
  EXPECT_THAT(OnlyError(schedule, "tied", Tied()).actions,
              ElementsAre("w1: 1REDUCE_TIED0"));

  schedule = Lowered("1f1b", 3, 1, 2, 2, true);
  schedule.actions[2].push_back(schedule.actions[2].back());
  EXPECT_THAT(OnlyError(schedule, "tied", Tied()).message,
              HasSubstr("the second one"));
}

TEST(VerifierTest, NoGradientFollowsItsReduction) {
  Schedule schedule = Lowered("1f1b", 2, 1, 2, 2, true);
  std::iter_swap(At(&schedule, 0, "0REDUCE_TIED0"), At(&schedule, 0, "0B1"));
  const VerifyError error = OnlyError(schedule, "tied", Tied());
  EXPECT_THAT(error.actions, ElementsAre("w0: 0B1"));
}

// ---- memory ----------------------------------------------------------------

TEST(VerifierTest, APoolOneSlotTooSmallIsFoundAtItsReceive) {
  Schedule schedule = Lowered("gpipe", 2, 1, 4);
  EdgePlan* plan = FindPlan(&schedule, 0, 1, Direction::kActivation);
  --plan->pool_slots;
  const VerifyError error = OnlyError(schedule, "memory");
  EXPECT_THAT(error.actions, ElementsAre("w1: 1RECV_F3"));
  EXPECT_THAT(error.message,
              HasSubstr(absl::StrCat("needs ", plan->pool_slots + 1,
                                     " slots of the pool of edge 0->1")));
}

TEST(VerifierTest, BytesInFlightStayUnderTheLimit) {
  VerifyOptions options;
  options.stage_in_flight_bytes = {100, 10, 10, 10};
  options.memory_limit_bytes = 400;  // 1F1B, stage 0: 4 in flight
  EXPECT_EQ(Verify(Lowered("1f1b", 4, 1, 8), options).ToStatus(),
            absl::OkStatus());
  options.memory_limit_bytes = 399;
  const VerifyError error =
      OnlyError(Lowered("1f1b", 4, 1, 8), "memory", options);
  EXPECT_THAT(error.actions, ElementsAre("w0: 0F3"));
  EXPECT_THAT(error.message, HasSubstr("300 + 100 bytes in flight, over the "
                                       "limit of 399"));
}

TEST(VerifierTest, EnormousBytesDoNotOverflow) {
  VerifyOptions options;
  options.stage_in_flight_bytes = {std::numeric_limits<int64_t>::max()};
  options.memory_limit_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(
      OnlyError(MakeSchedule(2, 1, {"0F0 0F1 0B0 0B1"}), "memory", options)
          .actions,
      ElementsAre("w0: 0F1"));
}

TEST(VerifierTest, RefusalIsOneStatusWithEveryMessage) {
  Schedule schedule = Lowered("gpipe", 2, 1, 4);
  for (EdgePlan& plan : schedule.edges) plan.pool_slots = 0;
  const absl::Status status = Verify(schedule).ToStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("memory: w0: 0RECV_B0 needs"));
}

}  // namespace
}  // namespace stagecoach::schedule

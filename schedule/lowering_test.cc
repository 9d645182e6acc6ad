#include "schedule/lowering.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/testing/lists.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using testing::FindPlan;
using ::testing::HasSubstr;
using testing::Join;
using testing::LoopedBreadthFirst;
using testing::MakeSchedule;
using testing::SplitBackward;

LoweringOptions Budget(int send_budget) {
  LoweringOptions options;
  options.send_budget = send_budget;
  return options;
}

Schedule Lowered(const Schedule& compute, const LoweringOptions& options = {}) {
  auto schedule = Lower(compute, options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

Schedule Generated(absl::string_view kind, int p, int v, int m) {
  GenerateOptions options;
  options.workers = p;
  options.stages_per_worker = v;
  options.microbatches = m;
  return *Generate(kind, options);
}

TEST(LoweringTest, WrapsEachComputeActionInItsCommunication) {
  const Schedule schedule =
      Lowered(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0", "2F0 2B0"}));
  EXPECT_EQ(Join(schedule.actions[0]),
            "0F0 0AWAIT_RELEASE_F0 0SEND_F0 0RECV_B0 0B0");
  EXPECT_EQ(Join(schedule.actions[1]),
            "1RECV_F0 1F0 1AWAIT_RELEASE_F0 1SEND_F0 "
            "1RECV_B0 1B0 1AWAIT_RELEASE_B0 1SEND_B0");
  EXPECT_EQ(Join(schedule.actions[2]),
            "2RECV_F0 2F0 2B0 2AWAIT_RELEASE_B0 2SEND_B0");
}

TEST(LoweringTest, ASplitBackwardSendsAfterItsInputGradient) {
  const Schedule schedule =
      Lowered(MakeSchedule(1, 1, {"0F0 0I0 0W0", "1F0 1I0 1W0"}));
  EXPECT_EQ(Join(schedule.actions[0]),
            "0F0 0AWAIT_RELEASE_F0 0SEND_F0 0RECV_B0 0I0 0W0");
  EXPECT_EQ(Join(schedule.actions[1]),
            "1RECV_F0 1F0 1I0 1AWAIT_RELEASE_B0 1SEND_B0 1W0");
}

TEST(LoweringTest, HandsOverOnOneWorkerWithoutCommunication) {
  const Schedule one = Lowered(MakeSchedule(1, 2, {"0F0 1F0 1B0 0B0"}));
  EXPECT_EQ(Join(one.actions[0]), "0F0 1F0 1B0 0B0");
  EXPECT_TRUE(one.edges.empty());
  EXPECT_TRUE(one.lowered());
}

// Worker 0 sends microbatch 0 first, worker 1 wants 1 first: the RECV of 0
// moves up.
TEST(LoweringTest, ReceivesInTheOrderOfSendingThoughConsumersDiffer) {
  const Schedule schedule = Lowered(MakeSchedule(
      3, 1, {"0F0 0F1 0F2 0B0 0B1 0B2", "1F1 1F0 1F2 1B0 1B1 1B2"}));
  EXPECT_THAT(Join(schedule.actions[1]),
              HasSubstr("1RECV_F0 1RECV_F1 1F1 1F0 1RECV_F2 1F2"));
  EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus());
}

// Random but runnable orders: each worker's microbatches in its own order.
TEST(LoweringTest, AnyRunnableOrderIsLoweredToOneTheVerifierAccepts) {
  const uint32_t seed = 11;
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    const int p = std::uniform_int_distribution<int>(1, 5)(random);
    const int m = std::uniform_int_distribution<int>(1, 8)(random);
    Schedule compute = Generated("gpipe", p, 1, m);
    for (auto& list : compute.actions) {
      std::shuffle(list.begin(), list.begin() + m, random);
      std::shuffle(list.begin() + m, list.end(), random);
    }
    LoweringOptions options =
        Budget(std::uniform_int_distribution<int>(1, 3)(random));
    options.tied_embeddings = true;
    VerifyOptions demands;
    demands.tied_embeddings = true;
    ASSERT_EQ(Verify(Lowered(compute, options), demands).ToStatus(),
              absl::OkStatus())
        << "seed " << seed << ", case " << i;
    ASSERT_EQ(
        Verify(Lowered(SplitBackward(compute), options), demands).ToStatus(),
        absl::OkStatus())
        << "split, seed " << seed << ", case " << i;
  }
}

TEST(LoweringTest, DepthIsAtLeastTwoAndAtLeastTheBudget) {
  const Schedule compute = Generated("1f1b", 4, 1, 8);
  for (const EdgePlan& plan : Lowered(compute, Budget(1)).edges) {
    EXPECT_GE(plan.receive_depth, 2) << ToString(plan.edge);
  }
  for (const EdgePlan& plan : Lowered(compute, Budget(4)).edges) {
    EXPECT_GE(plan.receive_depth, 4) << ToString(plan.edge);
  }
}

// Worker 1 comes to the RECV of microbatch 1 only after two backwards; by
// then worker 0 has sent all four.
TEST(LoweringTest, DepthCountsTransfersSentBeforeTheirReceive) {
  Schedule schedule = Lowered(MakeSchedule(4, 1,
                                           {"0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3",
                                            "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"}),
                              Budget(1));
  // F = 1, B = 2: sent at 1, 2, 3, 4; reached at 0, 4, 7, 10. At 3 two are
  // ahead; at 4 RECV 1 is reached, so again two.
  EXPECT_EQ(FindPlan(&schedule, 0, 1, Direction::kActivation)->receive_depth,
            3);
  // Gradients arrive where the receiver waits for them.
  EXPECT_EQ(FindPlan(&schedule, 1, 0, Direction::kGradient)->receive_depth, 2);
}

TEST(LoweringTest, PoolHoldsFromReceiveToLastUsePlusTheDepth) {
  // 1F1B, two workers: worker 1 holds one activation at a time; worker 0 one
  // gradient.
  Schedule schedule = Lowered(Generated("1f1b", 2, 1, 4), Budget(2));
  EXPECT_EQ(
      FindPlan(&schedule, 0, 1, Direction::kActivation)->pool_slots,
      1 + FindPlan(&schedule, 0, 1, Direction::kActivation)->receive_depth);
  EXPECT_EQ(FindPlan(&schedule, 1, 0, Direction::kGradient)->pool_slots,
            1 + FindPlan(&schedule, 1, 0, Direction::kGradient)->receive_depth);
  // GPipe holds all of them.
  schedule = Lowered(Generated("gpipe", 2, 1, 5), Budget(2));
  EXPECT_EQ(
      FindPlan(&schedule, 0, 1, Direction::kActivation)->pool_slots,
      5 + FindPlan(&schedule, 0, 1, Direction::kActivation)->receive_depth);
  // Evaluation holds one.
  schedule = Lowered(Generated("forward-only", 2, 1, 5), Budget(2));
  EXPECT_EQ(
      FindPlan(&schedule, 0, 1, Direction::kActivation)->pool_slots,
      1 + FindPlan(&schedule, 0, 1, Direction::kActivation)->receive_depth);
}

// The weight gradient needs input and output gradient again.
TEST(LoweringTest, PoolHoldsToTheWeightGradientOfASplitBackward) {
  Schedule schedule = Lowered(MakeSchedule(
      2, 1, {"0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1I0 1F1 1I1 1W0 1W1"}));
  const EdgePlan* forth = FindPlan(&schedule, 0, 1, Direction::kActivation);
  EXPECT_EQ(forth->pool_slots, 2 + forth->receive_depth);
  const EdgePlan* back = FindPlan(&schedule, 1, 0, Direction::kGradient);
  EXPECT_EQ(back->pool_slots, 2 + back->receive_depth);
  EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus());
}

TEST(LoweringTest, TiedReductionsEndTheListsOfTheFirstAndTheLastStage) {
  LoweringOptions options;
  options.tied_embeddings = true;
  const Schedule three = Lowered(Generated("1f1b", 3, 1, 2), options);
  EXPECT_EQ(ToString(three.actions[0].back()), "0REDUCE_TIED0");
  EXPECT_EQ(three.actions[1].back().kind, ActionKind::kSendGradient);
  EXPECT_EQ(ToString(three.actions[2].back()), "2REDUCE_TIED0");
  const Schedule one = Lowered(Generated("interleaved", 1, 2, 2), options);
  EXPECT_EQ(Join({one.actions[0].end() - 2, one.actions[0].end()}),
            "0B1 0REDUCE_TIED0");
  // Nothing to reduce.
  const Schedule forward = Lowered(Generated("forward-only", 2, 1, 2), options);
  EXPECT_EQ(ToString(forward.actions[1].back()), "1F1");
}

TEST(LoweringTest, BreadthFirstGetsTheDepthItNeeds) {
  Schedule schedule = Lowered(LoopedBreadthFirst(2, 2, 16), Budget(1));
  EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus());
  EXPECT_GE(FindPlan(&schedule, 1, 0, Direction::kActivation)->receive_depth,
            16 / 2 - 1);
}

TEST(LoweringTest, ALimitBelowTheSmallestLiveDepthIsRefusedByNumber) {
  LoweringOptions options = Budget(1);
  options.max_receive_depth = 6;
  const auto refused = Lower(LoopedBreadthFirst(2, 2, 16), options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("the smallest that is live is 7"));
  options.max_receive_depth = 7;
  const Schedule schedule = Lowered(LoopedBreadthFirst(2, 2, 16), options);
  EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus());
  for (const EdgePlan& plan : schedule.edges) {
    EXPECT_LE(plan.receive_depth, 7);
  }
}

std::string Refusal(const Schedule& compute,
                    const LoweringOptions& options = {}) {
  const auto schedule = Lower(compute, options);
  EXPECT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(schedule.status().message());
}

TEST(LoweringTest, GradientsGoOnAfterTheInputGradientNotTheWeights) {
  const Schedule schedule =
      Lowered(MakeSchedule(1, 1, {"0F0 0I0 0W0", "1F0 1I0 1W0"}));
  EXPECT_EQ(Join(schedule.actions[1]),
            "1RECV_F0 1F0 1I0 1AWAIT_RELEASE_B0 1SEND_B0 1W0");
  EXPECT_EQ(Join(schedule.actions[0]),
            "0F0 0AWAIT_RELEASE_F0 0SEND_F0 0RECV_B0 0I0 0W0");
}

// Stages 1 and 2 are both on worker 1: nothing crosses a wire between them, in
// neither direction.
TEST(LoweringTest, TheTurnOfAVIsHandedOverInsideTheWorker) {
  const Schedule schedule = Lowered(Generated("zbv", 2, 2, 1));
  EXPECT_EQ(Join(schedule.actions[1]),
            "1RECV_F0 1F0 2F0 2AWAIT_RELEASE_F0 2SEND_F0 2RECV_B0 2I0 2W0 1I0 "
            "1AWAIT_RELEASE_B0 1SEND_B0 1W0");
  EXPECT_EQ(Join(schedule.actions[0]),
            "0F0 0AWAIT_RELEASE_F0 0SEND_F0 3RECV_F0 3F0 3I0 "
            "3AWAIT_RELEASE_B0 3SEND_B0 3W0 0RECV_B0 0I0 0W0");
}

// Between two workers of a V activations and gradients go both ways: four
// edges, each a FIFO of its own.
TEST(LoweringTest, DualPipeVUsesBothDirectionsBetweenNeighbours) {
  Schedule schedule = Lowered(Generated("dualpipe-v", 3, 2, 8));
  EXPECT_EQ(schedule.edges.size(), 8u);
  for (const Direction direction :
       {Direction::kActivation, Direction::kGradient}) {
    for (const auto& [from, to] :
         std::vector<std::pair<int, int>>{{0, 1}, {1, 0}, {1, 2}, {2, 1}}) {
      EXPECT_NE(FindPlan(&schedule, from, to, direction), nullptr);
    }
  }
  EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus());
}

TEST(LoweringTest, ListsWithTransfersKeepTheirOrder) {
  const Schedule schedule = *LowerWithTransfers(
      MakeSchedule(2, 1,
                   {"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECV_B1 0B0 0B1",
                    "1RECV_F0 1RECV_F1 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1"}),
      Budget(1));
  EXPECT_EQ(Join(schedule.actions[1]),
            "1RECV_F0 1RECV_F1 1F0 1F1 1B0 1AWAIT_RELEASE_B0 1SEND_B0 1B1 "
            "1AWAIT_RELEASE_B1 1SEND_B1");
  EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus());
  EXPECT_THAT(LowerWithTransfers(
                  MakeSchedule(1, 1, {"0F0 0AWAIT_RELEASE_F0", "1F0"}), {})
                  .status()
                  .message(),
              HasSubstr("neither computation nor a transfer"));
}

TEST(LoweringTest, ListsThatCannotRunInOrderAreRefused) {
  EXPECT_THAT(
      Refusal(MakeSchedule(2, 1, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"})),
      HasSubstr("cannot be run in order: w0 waits at its action"));
  EXPECT_THAT(Refusal(MakeSchedule(1, 1, {"0B0 0F0"})),
              HasSubstr("cannot be run in order"));
}

TEST(LoweringTest, WrongListsAreRefusedByName) {
  EXPECT_THAT(Refusal(MakeSchedule(1, 1, {"0F0 0F0 0B0"})),
              HasSubstr("w0: 0F0 is the second of its kind"));
  EXPECT_THAT(Refusal(MakeSchedule(1, 1, {"0F0 0B0", "1B0"})),
              HasSubstr("its F0 is missing"));
  EXPECT_THAT(Refusal(MakeSchedule(1, 1, {"1F0 0B0", "1F0 1B0"})),
              HasSubstr("w0: 1F0: stage 1 is on worker 1"));
  EXPECT_THAT(Refusal(MakeSchedule(1, 1, {"0F1", "1F0 1B0"})),
              HasSubstr("microbatch 1 is out of range"));
  EXPECT_THAT(Refusal(MakeSchedule(1, 1, {"0F0 0SEND_F0", "1F0"})),
              HasSubstr("is not a compute action"));
  EXPECT_THAT(Refusal(MakeSchedule(1, 1, {"0F0 0B0"}), Budget(0)),
              HasSubstr("send_budget is 0"));
  EXPECT_THAT(Refusal(Lowered(MakeSchedule(1, 1, {"0F0 0B0"}))),
              HasSubstr("lowered already"));
}

}  // namespace
}  // namespace stagecoach::schedule

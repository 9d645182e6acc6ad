#include "schedule/generator.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/lowering.h"
#include "schedule/simulator.h"
#include "schedule/testing/lists.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using ::testing::HasSubstr;
using testing::Join;

GenerateOptions Options(int workers, int stages_per_worker, int microbatches) {
  GenerateOptions options;
  options.workers = workers;
  options.stages_per_worker = stages_per_worker;
  options.microbatches = microbatches;
  return options;
}

std::vector<std::string> Lists(absl::string_view kind,
                               const GenerateOptions& options) {
  const auto schedule = Generate(kind, options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  std::vector<std::string> lists;
  for (const auto& list : schedule->actions) lists.push_back(Join(list));
  return lists;
}

// Huang et al., figure 2(c), with backwards ascending.
TEST(GeneratorTest, GPipeRunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(Lists("gpipe", Options(2, 1, 3)),
            (std::vector<std::string>{"0F0 0F1 0F2 0B0 0B1 0B2",
                                      "1F0 1F1 1F2 1B0 1B1 1B2"}));
}

// Narayanan et al. 2021 (Megatron-LM), figure 3: four devices, eight
// microbatches.
TEST(GeneratorTest, OneForwardOneBackwardIsThePublishedExample) {
  EXPECT_EQ(
      Lists("1f1b", Options(4, 1, 8)),
      (std::vector<std::string>{
          "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7",
          "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7",
          "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7",
          "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7"}));
}

// As Megatron-LM's forward_backward_pipelining_with_interleaving orders it.
TEST(GeneratorTest, InterleavedIsThePublishedExampleOfTwoWorkers) {
  EXPECT_EQ(
      Lists("interleaved", Options(2, 2, 4)),
      (std::vector<std::string>{
          "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
          "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 "
          "1B3"}));
}

// Narayanan et al. 2021 (Megatron-LM), figure 4, device 1: ten forwards before
// the first backward, which is of the second chunk.
TEST(GeneratorTest, InterleavedWarmsUpAsThePublishedExampleOfFourWorkers) {
  const std::string list = Lists("interleaved", Options(4, 2, 8))[0];
  EXPECT_THAT(list, HasSubstr("0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 "
                              "4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 0B0 4F7 0B1"));
}

// 7 microbatches for 3 workers: groups of 4 and 3, never 3, 3 and 1.
TEST(GeneratorTest, InterleavedBalancesGroupsWithTheLargerFirst) {
  EXPECT_THAT(Lists("interleaved", Options(3, 2, 7))[2],
              HasSubstr("2F0 2F1 2F2 2F3 5F0 5B0 5F1 5B1 5F2 5B2 5F3 5B3 "
                        "2F4 2B0 2F5 2B1 2F6 2B2 5F4 2B3 5F5 5B4"));
}

TEST(GeneratorTest, ForwardOnlyPassesEachMicrobatchThroughAllItsStages) {
  EXPECT_EQ(Lists("forward-only", Options(2, 2, 2)),
            (std::vector<std::string>{"0F0 1F0 0F1 1F1", "2F0 3F0 2F1 3F1"}));
}

// Zhuang et al., figure 5: 2(P-s)-1 forwards first.
TEST(GeneratorTest, EagerWarmsUpWithTwiceAsMany) {
  EXPECT_EQ(
      Lists("eager-1f1b", Options(2, 1, 5)),
      (std::vector<std::string>{"0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 0B3 0B4",
                                "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4"}));
}

// Qi et al. (zero bubble), figure 2: the later a worker, the more weight
// gradients it puts off.
TEST(GeneratorTest, ZbH1PutsOffAsManyWeightGradientsAsWorkersAreBefore) {
  EXPECT_EQ(Lists("zb-h1", Options(3, 1, 4)),
            (std::vector<std::string>{
                "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3",
                "1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3",
                "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3"}));
}

// Qi et al. (zero bubble), figure 3: 2(P-s)-1 forwards first.
TEST(GeneratorTest, ZbH2WarmsUpWithTwiceAsMany) {
  const auto lists = Lists("zb-h2", Options(3, 1, 7));
  EXPECT_THAT(lists[0],
              ::testing::StartsWith("0F0 0F1 0F2 0F3 0F4 0I0 0W0 0F5 "));
  EXPECT_THAT(lists[1], ::testing::StartsWith("1F0 1F1 1F2 1I0 1F3 1I1 1F4 "
                                              "1I2 1W0 1F5 "));
}

TEST(GeneratorTest, ZbH2KeepsWhateverLimitItIsGiven) {
  for (int p = 1; p <= 6; ++p) {
    for (int limit = 1; limit <= 2 * p + 1; ++limit) {
      GenerateOptions options = Options(p, 1, 14);
      options.max_in_flight = limit;
      const auto schedule = Generate("zb-h2", options);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      const Verdict verdict = Verify(*Lower(*schedule, {}));
      ASSERT_TRUE(verdict.ok) << verdict.ToStatus();
      EXPECT_THAT(verdict.peak_in_flight, ::testing::Each(::testing::Le(limit)))
          << "P=" << p;
    }
  }
  // The limit of ZB-H1 makes it ZB-H1.
  GenerateOptions options = Options(4, 1, 12);
  options.max_in_flight = 4;
  EXPECT_EQ(Generate("zb-h2", options)->actions,
            Generate("zb-h1", Options(4, 1, 12))->actions);
}

// Up to the input gradient, as section 2.3 of the paper counts.
TEST(GeneratorTest, ZbH1HoldsAsManyAs1F1BUpToTheInputGradient) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 14; ++m) {
      const Schedule schedule = *Generate("zb-h1", Options(p, 1, m));
      for (int w = 0; w < p; ++w) {
        int now = 0;
        int peak = 0;
        for (const Action& action : schedule.actions[static_cast<size_t>(w)]) {
          now += action.kind == ActionKind::kForward ? 1 : 0;
          now -= action.kind == ActionKind::kBackwardInput ? 1 : 0;
          peak = std::max(peak, now);
        }
        EXPECT_EQ(peak, std::min(m, p - w)) << "P=" << p << " M=" << m;
      }
    }
  }
}

// Of 2P chunks, what 1F1B's first worker holds.
TEST(GeneratorTest, ControllableMemoryKindsHoldAHalfAndAThird) {
  for (int p = 1; p <= 16; ++p) {
    const auto peak = [p](absl::string_view kind) {
      int most = 0;
      const SimulateResult run =
          *Simulate(*Generate(kind, Options(p, 2, 6 * p)));
      for (const WorkerTimes& worker : run.workers) {
        most = std::max(most, worker.peak_in_flight);
      }
      return most;
    };
    EXPECT_LE(peak("v-half"), p + 3) << "P=" << p;
    EXPECT_LE(peak("v-min"), (2 * p + 2) / 3 + 3) << "P=" << p;
  }
}

// Neither is slower than 1F1B, whose stages take twice as long.
TEST(GeneratorTest, ControllableMemoryKindsHaveALesserBubbleThan1F1B) {
  for (int p = 2; p <= 16; ++p) {
    for (const char* kind : {"v-half", "v-min"}) {
      const auto run = Simulate(*Generate(kind, Options(p, 2, 4 * p)));
      EXPECT_LE(run->workers[0].idle, 6 * (p - 1)) << kind << " P=" << p;
    }
  }
}

TEST(GeneratorTest, NoKindIsAnothersOrder) {
  std::set<std::string> seen;
  for (const Generator& generator : Generators()) {
    const int v = std::max(1, generator.only_stages_per_worker);
    for (const int stages : {v, std::max(2, v)}) {
      const bool any = generator.only_stages_per_worker == 0;
      if (!any && stages != v) continue;
      // With one stage per worker these are gpipe and 1f1b by definition.
      if (any && generator.trains && stages == 1) continue;
      std::string lists;
      for (const std::string& list :
           Lists(generator.kind, Options(4, stages, 12))) {
        lists += list + "\n";
      }
      EXPECT_TRUE(seen.insert(lists).second)
          << generator.kind << " V=" << stages;
      if (!any) break;
    }
  }
}

TEST(GeneratorTest, InterleavedTakesAnyGroupSize) {
  for (int p = 1; p <= 5; ++p) {
    for (int v = 1; v <= 3; ++v) {
      for (int m = 1; m <= 13; ++m) {
        for (int group = 1; group <= m + 1; ++group) {
          GenerateOptions options = Options(p, v, m);
          options.group_size = group;
          const Verdict verdict =
              Verify(*Lower(*Generate("interleaved", options), {}));
          ASSERT_TRUE(verdict.ok && verdict.ascending_accumulation)
              << "P=" << p << " V=" << v << " M=" << m << " group " << group
              << ": " << verdict.ToStatus();
        }
      }
    }
  }
  GenerateOptions options = Options(2, 2, 6);
  options.group_size = 3;
  EXPECT_THAT(Lists("interleaved", options)[0],
              ::testing::StartsWith("0F0 0F1 0F2 2F0 2F1 2F2 2B0"));
}

TEST(GeneratorTest, PublishedOrdersThatDescendAreAnOption) {
  GenerateOptions options = Options(2, 1, 3);
  options.published_order = true;
  EXPECT_EQ(Lists("gpipe", options),
            (std::vector<std::string>{"0F0 0F1 0F2 0B2 0B1 0B0",
                                      "1F0 1F1 1F2 1B2 1B1 1B0"}));
  options.stages_per_worker = 2;
  EXPECT_EQ(Lists("looped-bfs", options)[0],
            "0F0 0F1 0F2 2F0 2F1 2F2 2B2 2B1 2B0 0B2 0B1 0B0");
  const Verdict verdict = Verify(*Lower(*Generate("looped-bfs", options), {}));
  EXPECT_EQ(verdict.ToStatus(), absl::OkStatus());
  EXPECT_FALSE(verdict.ascending_accumulation);
}

std::string MessageOf(absl::string_view kind, const GenerateOptions& options) {
  const auto schedule = Generate(kind, options);
  EXPECT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(schedule.status().message());
}

TEST(GeneratorTest, UnknownKindSuggestsTheNearest) {
  EXPECT_THAT(MessageOf("1f1", Options(2, 1, 2)),
              HasSubstr("did you mean \"1f1b\"?"));
  EXPECT_THAT(MessageOf("interleaving", Options(2, 1, 2)),
              HasSubstr("did you mean \"interleaved\"?"));
  const std::string far = MessageOf("zzzzzzzzzzzz", Options(2, 1, 2));
  EXPECT_THAT(far, HasSubstr("known: gpipe, 1f1b, eager-1f1b, interleaved, "));
  EXPECT_THAT(far, ::testing::Not(HasSubstr("did you mean")));
}

TEST(GeneratorTest, RefusedShapesSayWhatWouldWork) {
  EXPECT_THAT(MessageOf("1f1b", Options(0, 1, 2)),
              HasSubstr("workers is 0; it must be at least 1"));
  EXPECT_THAT(MessageOf("1f1b", Options(2, 1, 0)),
              HasSubstr("microbatches is 0"));
  EXPECT_THAT(MessageOf("interleaved", Options(2, -1, 1)),
              HasSubstr("stages per worker is -1"));
  EXPECT_THAT(MessageOf("gpipe", Options(2, 3, 1)),
              HasSubstr("use stages_per_worker = 1"));
  EXPECT_THAT(MessageOf("gpipe", Options(2, 1, 2000000000)),
              HasSubstr("too many"));
}

TEST(GeneratorTest, OptionsOfOtherKindsAreRefused) {
  GenerateOptions options = Options(2, 1, 4);
  options.max_in_flight = 3;
  EXPECT_THAT(MessageOf("1f1b", options),
              HasSubstr("schedule \"1f1b\" takes no max_in_flight"));
  options.max_in_flight = -1;
  EXPECT_THAT(MessageOf("zb-h2", options), HasSubstr("max_in_flight is -1"));
  options.max_in_flight = 0;
  options.group_size = 2;
  EXPECT_THAT(MessageOf("zb-h2", options), HasSubstr("takes no group_size"));
}

TEST(GeneratorTest, FindsEachKindByItsName) {
  for (const Generator& generator : Generators()) {
    EXPECT_EQ(FindGenerator(generator.kind), &generator);
  }
  EXPECT_EQ(FindGenerator("nothing"), nullptr);
}

}  // namespace
}  // namespace stagecoach::schedule

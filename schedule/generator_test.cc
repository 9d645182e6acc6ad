#include "schedule/generator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/testing/lists.h"

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
  EXPECT_THAT(far, HasSubstr("known: gpipe, 1f1b, interleaved, forward-only"));
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

TEST(GeneratorTest, FindsEachKindByItsName) {
  for (const Generator& generator : Generators()) {
    EXPECT_EQ(FindGenerator(generator.kind), &generator);
  }
  EXPECT_EQ(FindGenerator("nothing"), nullptr);
}

}  // namespace
}  // namespace stagecoach::schedule

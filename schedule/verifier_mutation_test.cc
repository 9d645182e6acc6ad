// The verifier against a plain executor, on schedules that something was done
// to: both must say the same of every one. And for small ones against all
// orders in which things can happen: that order must not matter.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/property_cases.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/testing/all_interleavings.h"
#include "schedule/testing/mutator.h"
#include "schedule/testing/naive_executor.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using testing::Computations;
using testing::Interleavings;
using testing::Mutator;
using testing::RunNaively;
using testing::TryAllInterleavings;

std::vector<Generator> KindsThatTrain() {
  std::vector<Generator> kinds;
  for (const Generator& generator : Generators()) {
    if (generator.trains) kinds.push_back(generator);
  }
  return kinds;
}

class VerifierMutationTest : public ::testing::TestWithParam<Generator> {};

TEST_P(VerifierMutationTest, TheExecutorRunsWhatLoweringMakes) {
  const int cases = PropertyCases();
  for (int seed = 0; seed < cases; ++seed) {
    const Schedule schedule =
        Mutator(static_cast<uint32_t>(seed), Mutator::Shape())
            .Original(GetParam());
    ASSERT_EQ(RunNaively(schedule), "") << "seed " << seed;
    ASSERT_EQ(Verify(schedule).ToStatus(), absl::OkStatus()) << "seed " << seed;
  }
  PrintCases(absl::StrCat("originals of ", GetParam().kind), cases, 0);
}

TEST_P(VerifierMutationTest, VerifierAndExecutorAgree) {
  const int cases = PropertyCases(600);
  int accepted = 0;
  for (int seed = 0; seed < cases; ++seed) {
    Mutator mutator(static_cast<uint32_t>(seed), Mutator::Shape());
    Schedule schedule = mutator.Original(GetParam());
    const std::string what = mutator.Mutate(&schedule);
    const std::string wrong = RunNaively(schedule);
    const Verdict verdict = Verify(schedule);
    ASSERT_EQ(verdict.ok, wrong.empty())
        << "seed " << seed << ": " << what << "; executor: " << wrong
        << "; verifier: " << verdict.ToStatus();
    accepted += verdict.ok ? 1 : 0;
  }
  PrintCases(absl::StrCat("mutations of ", GetParam().kind, ", ", accepted,
                          " accepted"),
             cases, 0);
  EXPECT_GE(accepted, cases / 5);
  EXPECT_GE(cases - accepted, cases / 5);
}

// P, M <= 3. Of V > 1 there are too many orders to try them all, with each
// computation between any two other events, in so many cases.
TEST_P(VerifierMutationTest, NoOrderOfEventsGivesAnotherOutcome) {
  Mutator::Shape small;
  small.most_workers = 3;
  small.most_microbatches = 3;
  small.most_stages_per_worker = 1;
  small.most_send_budget = 2;
  const bool many_orders = GetParam().only_stages_per_worker > 1;
  const Computations computations =
      many_orders ? Computations::kAlone : Computations::kInterleaved;
  const int cases = many_orders ? 50 : PropertyCases(50);
  int64_t states = 0;
  int accepted = 0;
  for (int seed = 0; seed < cases; ++seed) {
    Mutator mutator(static_cast<uint32_t>(seed), small);
    Schedule schedule = mutator.Original(GetParam());
    const std::string what = mutator.Mutate(&schedule);
    const Interleavings all =
        TryAllInterleavings(schedule, 20'000'000, computations);
    ASSERT_TRUE(all.all_tried) << "seed " << seed;
    ASSERT_EQ(all.outcomes.size(), 1u) << "seed " << seed << ": " << what;
    const Verdict verdict = Verify(schedule);
    ASSERT_EQ(verdict.ok, all.ends_well)
        << "seed " << seed << ": " << what << ": " << verdict.ToStatus();
    states += all.states;
    accepted += verdict.ok ? 1 : 0;
  }
  PrintCases(absl::StrCat("all interleavings of mutated ", GetParam().kind,
                          ", ", accepted, " accepted, ", states, " states"),
             cases, 0);
  EXPECT_GE(accepted, cases / 10);
  EXPECT_GE(cases - accepted, cases / 10);
}

INSTANTIATE_TEST_SUITE_P(Kinds, VerifierMutationTest,
                         ::testing::ValuesIn(KindsThatTrain()),
                         [](const ::testing::TestParamInfo<Generator>& kind) {
                           std::string name(kind.param.kind);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(VerifierMutationSampleTest, ReachesEveryKindOfErrorThatNeedsNoOption) {
  std::map<std::string, int> refused;
  uint32_t seed = 0;
  for (int round = 0; round < 200; ++round) {
    for (const Generator& kind : KindsThatTrain()) {
      Mutator mutator(seed++, Mutator::Shape());
      Schedule schedule = mutator.Original(kind);
      mutator.Mutate(&schedule);
      for (const VerifyError& error : Verify(schedule).errors) {
        ++refused[error.kind];
      }
    }
  }
  for (const char* kind : {"placement", "missing", "duplicate", "order",
                           "edge_order", "deadlock", "release", "memory"}) {
    EXPECT_GT(refused[kind], 10) << kind;
  }
}

}  // namespace
}  // namespace stagecoach::schedule

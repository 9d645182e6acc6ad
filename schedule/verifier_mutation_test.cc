// The verifier against a plain executor, on schedules that something was done
// to: both must say the same of every one.

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"
#include "schedule/testing/naive_executor.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using testing::RunNaively;
using testing::SplitBackward;

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  int Pick(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }

  Schedule Original() {
    const int p = Pick(1, 5);
    const int m = Pick(1, 7);
    std::vector<Generator> kinds;
    for (const Generator& generator : Generators()) {
      if (generator.trains) kinds.push_back(generator);
    }
    const Generator& kind =
        kinds[static_cast<size_t>(Pick(0, static_cast<int>(kinds.size()) - 1))];
    GenerateOptions shape;
    shape.workers = p;
    shape.microbatches = m;
    shape.stages_per_worker = kind.only_stages_per_worker == 0
                                  ? Pick(1, 3)
                                  : kind.only_stages_per_worker;
    Schedule compute = *Generate(kind.kind, shape);
    if (Pick(0, 2) == 0) compute = SplitBackward(compute);
    LoweringOptions options;
    options.send_budget = Pick(1, 3);
    return *Lower(compute, options);
  }

  // Returns what it did.
  std::string Mutate(Schedule* schedule) {
    const int worker = Pick(0, schedule->workers - 1);
    std::vector<Action>& list = schedule->actions[static_cast<size_t>(worker)];
    const int last = static_cast<int>(list.size()) - 1;
    const int i = Pick(0, last);
    Action& action = list[static_cast<size_t>(i)];
    const std::string place = absl::StrCat(" w", worker, " ", ToString(action));
    switch (Pick(0, 9)) {
      case 0:
        std::swap(action, list[static_cast<size_t>(Pick(0, last))]);
        return "swap" + place;
      case 1:
        std::swap(action, list[static_cast<size_t>(std::min(i + 1, last))]);
        return "swap neighbours" + place;
      case 2:
        list.erase(list.begin() + i);
        return "drop" + place;
      case 3:
        list.insert(list.begin() + Pick(0, last), Action(action));
        return "duplicate" + place;
      case 4:
        action.stage = StageIndex(Pick(0, schedule->stages() - 1));
        return "wrong stage" + place;
      case 5:
        action.microbatch =
            MicrobatchIndex(Pick(0, schedule->microbatches - 1));
        return "wrong microbatch" + place;
      case 6:
        return Move(&list, i) + place;
      case 7:
        return Hand(schedule, &list, i) + place;
      case 8:
        for (EdgePlan& plan : schedule->edges) {
          plan.receive_depth = std::max(0, plan.receive_depth - Pick(1, 3));
        }
        schedule->send_budget = 1;
        return "small D, K = 1";
      default:
        if (!schedule->edges.empty()) {
          schedule
              ->edges[static_cast<size_t>(
                  Pick(0, static_cast<int>(schedule->edges.size()) - 1))]
              .pool_slots -= Pick(0, 2);
        }
        return "small pool";
    }
  }

 private:
  std::string Move(std::vector<Action>* list, int from) {
    const Action action = (*list)[static_cast<size_t>(from)];
    list->erase(list->begin() + from);
    const int to = std::min(static_cast<int>(list->size()),
                            std::max(0, from + Pick(-4, 4)));
    list->insert(list->begin() + to, action);
    return "move";
  }

  std::string Hand(Schedule* schedule, std::vector<Action>* list, int i) {
    const Action action = (*list)[static_cast<size_t>(i)];
    list->erase(list->begin() + i);
    std::vector<Action>& other =
        schedule->actions[static_cast<size_t>(Pick(0, schedule->workers - 1))];
    other.insert(other.begin() + Pick(0, static_cast<int>(other.size())),
                 action);
    return "hand over";
  }

  std::mt19937 random_;
};

TEST(VerifierMutationTest, TheExecutorRunsWhatLoweringMakes) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Schedule schedule = Mutator(seed).Original();
    ASSERT_EQ(RunNaively(schedule), "") << "seed " << seed;
    ASSERT_EQ(Verify(schedule).ToStatus(), absl::OkStatus()) << "seed " << seed;
  }
}

TEST(VerifierMutationTest, VerifierAndExecutorAgreeOnEveryMutation) {
  int accepted = 0;
  std::map<std::string, int> refused;
  for (uint32_t seed = 0; seed < 8000; ++seed) {
    Mutator mutator(seed);
    Schedule schedule = mutator.Original();
    std::string what = mutator.Mutate(&schedule);
    if (mutator.Pick(0, 3) == 0) {
      absl::StrAppend(&what, ", ", mutator.Mutate(&schedule));
    }
    const std::string wrong = RunNaively(schedule);
    const Verdict verdict = Verify(schedule);
    ASSERT_EQ(verdict.ok, wrong.empty())
        << "seed " << seed << ", " << schedule.kind << ": " << what
        << "; executor: " << wrong << "; verifier: " << verdict.ToStatus();
    accepted += verdict.ok ? 1 : 0;
    for (const VerifyError& error : verdict.errors) ++refused[error.kind];
  }
  // The sample reaches every kind of error that has no test option.
  EXPECT_GT(accepted, 400);
  for (const char* kind : {"placement", "missing", "duplicate", "order",
                           "edge_order", "deadlock", "release", "memory"}) {
    EXPECT_GT(refused[kind], 10) << kind;
  }
}

}  // namespace
}  // namespace stagecoach::schedule

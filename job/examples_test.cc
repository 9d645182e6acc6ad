// The specs in examples/ are what the manual says they are.
#include <string>

#include "gtest/gtest.h"
#include "job/parse.h"
#include "job/plan.h"

namespace stagecoach::job {
namespace {

TEST(ExamplesTest, TinyIsValidAndCanBePlanned) {
  const auto parsed = LoadJobSpec("examples/tiny.toml");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(Validate(*parsed).ok()) << Validate(*parsed);
  EXPECT_TRUE(PlanJob(parsed->spec, nullptr).ok());
}

TEST(ExamplesTest, TheQuickStartsJobIsValidOnceItsTextIsThere) {
  const auto parsed =
      LoadJobSpec("examples/gpt_on_text.toml", {"data.path=tiny.txt"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(Validate(*parsed).ok()) << Validate(*parsed);
  const auto plan = PlanJob(parsed->spec, nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->stages.size(), size_t{4});
  EXPECT_EQ(parsed->spec.recovery.max_failures, 0);
}

}  // namespace
}  // namespace stagecoach::job

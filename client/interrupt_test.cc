#include "client/interrupt.h"

#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

TEST(InterruptTest, StaysRaisedUntilTaken) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.IsRaised());
  interrupt.Raise(Interrupt::Reason::kUser);
  interrupt.Raise(Interrupt::Reason::kUser);
  EXPECT_TRUE(interrupt.IsRaised());
  EXPECT_FALSE(interrupt.Take(Interrupt::Reason::kChildEnded));
  EXPECT_TRUE(interrupt.Take(Interrupt::Reason::kUser));
  EXPECT_FALSE(interrupt.Take(Interrupt::Reason::kUser));
  EXPECT_FALSE(interrupt.IsRaised());
}

TEST(InterruptTest, RunsTheWakerOfTheMoment) {
  Interrupt interrupt;
  int first = 0;
  int second = 0;
  interrupt.SetWaker([&] { ++first; });
  interrupt.Raise(Interrupt::Reason::kUser);
  interrupt.SetWaker([&] { ++second; });
  interrupt.Raise(Interrupt::Reason::kChildEnded);
  interrupt.SetWaker(nullptr);
  interrupt.Raise(Interrupt::Reason::kUser);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(InterruptTest, TheWakerMayUseTheInterrupt) {
  Interrupt interrupt;
  bool raised = false;
  interrupt.SetWaker([&] { raised = interrupt.IsRaised(); });
  interrupt.Raise(Interrupt::Reason::kUser);
  EXPECT_TRUE(raised);
}

TEST(InterruptTest, EndsAWait) {
  Interrupt interrupt;
  std::thread raiser([&] { interrupt.Raise(Interrupt::Reason::kChildEnded); });
  EXPECT_TRUE(interrupt.WaitFor(kPatience));
  raiser.join();
  EXPECT_TRUE(interrupt.WaitFor(absl::ZeroDuration()));
  interrupt.Take(Interrupt::Reason::kChildEnded);
  EXPECT_FALSE(interrupt.WaitFor(absl::ZeroDuration()));
}

}  // namespace
}  // namespace stagecoach::client

#include "transport/progress_gate.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace stagecoach::transport {
namespace {

TEST(ProgressGateTest, PassesTheResultOn) {
  const auto bell = Doorbell::Create().value();
  ProgressGate gate;
  EXPECT_TRUE(gate.Run(bell.get(), [] { return true; }));
  EXPECT_FALSE(gate.Run(bell.get(), [] { return false; }));
  EXPECT_EQ(bell->Count(), 0u);
}

// Whoever was turned back may go to sleep with news unseen.
TEST(ProgressGateTest, RingsOnLeavingIfSomebodyWasTurnedBack) {
  const auto bell = Doorbell::Create().value();
  ProgressGate gate;
  bool inner = true;
  gate.Run(bell.get(), [&] {
    inner = gate.Run(bell.get(), [] { return true; });
    EXPECT_EQ(bell->Count(), 0u);
    return false;
  });
  EXPECT_FALSE(inner);
  EXPECT_EQ(bell->Count(), 1u);
}

TEST(ProgressGateTest, LetsOneThreadInAtATime) {
  const auto bell = Doorbell::Create().value();
  ProgressGate gate;
  std::atomic<int> inside{0};
  int entered = 0;  // guarded by the gate
  const auto enter = [&] {
    for (int i = 0; i < 10000; ++i) {
      gate.Run(bell.get(), [&] {
        EXPECT_EQ(++inside, 1);
        ++entered;
        --inside;
        return true;
      });
    }
  };
  std::thread first(enter);
  std::thread second(enter);
  first.join();
  second.join();
  EXPECT_GT(entered, 0);
}

}  // namespace
}  // namespace stagecoach::transport

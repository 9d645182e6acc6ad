#include "transport/two_sided/reactor.h"

#include <sys/eventfd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/notification.h"
#include "gtest/gtest.h"

namespace stagecoach::transport::two_sided {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);
// Far more than it would step in that time if nothing woke it.
constexpr int kManySteps = 5000;

Reactor::Work WorkOf(std::function<Activity()> step) {
  Reactor::Work work;
  work.name = "test";
  work.prepare = [] {};
  work.step = std::move(step);
  return work;
}

std::function<Activity()> Counting(Activity activity, Notification* many) {
  auto steps = std::make_shared<int>(0);
  return [activity, many, steps] {
    if (++*steps == kManySteps) many->Notify();
    return activity;
  };
}

TEST(ReactorTest, RunsTasksInOrderAndAllOfThemBeforeItStops) {
  Reactor reactor;
  std::vector<int> order;
  ASSERT_TRUE(reactor.Start(WorkOf([] { return Activity::kIdle; })).ok());
  for (int i = 0; i < 100; ++i) {
    reactor.Post([&order, i] { order.push_back(i); });
  }
  reactor.Stop();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  reactor.Post([&order] { order.clear(); });
  EXPECT_EQ(order.size(), 100u);
}

TEST(ReactorTest, PreparesOnItsThreadFirst) {
  Reactor reactor;
  Reactor::Work work = WorkOf([] { return Activity::kIdle; });
  std::thread::id prepared;
  work.prepare = [&prepared] { prepared = std::this_thread::get_id(); };
  std::thread::id ran;
  ASSERT_TRUE(reactor.Start(std::move(work)).ok());
  reactor.Post([&ran] { ran = std::this_thread::get_id(); });
  reactor.Stop();
  EXPECT_EQ(prepared, ran);
  EXPECT_NE(ran, std::this_thread::get_id());
}

TEST(ReactorTest, StepsOnWhileItIsBusy) {
  Reactor reactor;
  Notification many;
  ASSERT_TRUE(reactor.Start(WorkOf(Counting(Activity::kBusy, &many))).ok());
  EXPECT_TRUE(many.WaitForNotificationWithTimeout(kDeadline));
}

TEST(ReactorTest, AnEventThatItArmedWakesIt) {
  Reactor reactor;
  Notification many;
  const UniqueFd event(eventfd(1, EFD_CLOEXEC));
  Reactor::Work work = WorkOf(Counting(Activity::kIdle, &many));
  work.arm = [&event](std::vector<pollfd>* events) {
    events->push_back({event.get(), POLLIN, 0});
    return true;
  };
  ASSERT_TRUE(reactor.Start(std::move(work)).ok());
  EXPECT_TRUE(many.WaitForNotificationWithTimeout(kDeadline));
  reactor.Stop();
}

TEST(ReactorTest, DoesNotSleepWhereArmingFindsSomething) {
  Reactor reactor;
  Notification many;
  Reactor::Work work = WorkOf(Counting(Activity::kIdle, &many));
  work.arm = [](std::vector<pollfd>* /*events*/) { return false; };
  ASSERT_TRUE(reactor.Start(std::move(work)).ok());
  EXPECT_TRUE(many.WaitForNotificationWithTimeout(kDeadline));
}

// A wake-up and its step, one after the other.
TEST(ReactorTest, EveryWakeIsFollowedByAStep) {
  Reactor reactor;
  std::atomic<int> steps{0};
  ASSERT_TRUE(reactor
                  .Start(WorkOf([&steps] {
                    ++steps;
                    return Activity::kIdle;
                  }))
                  .ok());
  for (int i = 0; i < kManySteps; ++i) {
    const int before = steps;
    reactor.Wake();
    while (steps == before) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace stagecoach::transport::two_sided

#include "base/serial_executor.h"

#include <string>
#include <thread>
#include <vector>

#include "base/notification.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

TEST(SerialExecutorTest, RunsTasksInTheOrderGiven) {
  std::vector<int> order;
  SerialExecutor executor("order");
  for (int i = 0; i < 100; ++i)
    executor.Add([&order, i] { order.push_back(i); });
  executor.Drain();
  ASSERT_EQ(order.size(), size_t{100});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(SerialExecutorTest, RunsOneTaskAtATimeWhoeverAddsThem) {
  int count = 0;  // Touched by tasks only: needs no lock.
  SerialExecutor executor("serial");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 250; ++j) executor.Add([&count] { ++count; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  executor.Drain();
  EXPECT_EQ(count, 1000);
}

TEST(SerialExecutorTest, NeverRunsATaskOnTheCallersThread) {
  std::thread::id id;
  SerialExecutor executor("thread");
  executor.Add([&id] { id = std::this_thread::get_id(); });
  executor.Drain();
  EXPECT_NE(id, std::thread::id());
  EXPECT_NE(id, std::this_thread::get_id());
}

TEST(SerialExecutorTest, DestructorRunsWhatWasAdded) {
  Notification go;
  bool ran = false;
  {
    SerialExecutor executor("destroyed");
    executor.Add([&go] { go.WaitForNotification(); });
    executor.Add([&ran] { ran = true; });
    go.Notify();
  }
  EXPECT_TRUE(ran);
}

TEST(SerialExecutorTest, WhatIsUnhurriedKeepsItsPlace) {
  std::string ran;
  {
    SerialExecutor executor("test");
    executor.AddUnhurried([&ran] { ran += 'a'; });
    executor.Add([&ran] { ran += 'b'; });
    executor.Drain();
    EXPECT_EQ(ran, "ab");
    executor.AddUnhurried([&ran] { ran += 'c'; });
  }
  EXPECT_EQ(ran, "abc");
}

TEST(SerialExecutorTest, TakesANameThatIsTooLong) {
  bool ran = false;
  SerialExecutor executor("a name longer than the kernel takes");
  executor.Add([&ran] { ran = true; });
  executor.Drain();
  EXPECT_TRUE(ran);
}

TEST(ManualExecutorTest, RunsTasksWhenTold) {
  ManualExecutor executor;
  std::string order;
  executor.Add([&] { order += "a"; });
  executor.Add([&] {
    order += "b";
    executor.Add([&] { order += "d"; });
  });
  executor.Add([&] { order += "c"; });
  EXPECT_EQ(order, "");
  EXPECT_TRUE(executor.RunOne());
  EXPECT_EQ(order, "a");
  EXPECT_EQ(executor.RunAll(), 3);
  EXPECT_EQ(order, "abcd");
  EXPECT_FALSE(executor.RunOne());
}

}  // namespace
}  // namespace stagecoach

#include "base/failpoint.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/failpoint_server.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

int64_t Reached(const std::string& name) {
  for (const FailpointState& point : ListFailpoints()) {
    if (point.name == name) return point.reached;
  }
  return -1;
}

TEST(FailpointDeathTest, KillsTheProcessTheNthTime) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("STAGECOACH_FAILPOINT", "worker.commit@2", 1);
        ReachFailpoint("worker.applied").IgnoreError();
        ReachFailpoint("worker.commit").IgnoreError();
        setenv("STAGECOACH_FAILPOINT", "", 1);  // read once
        ReachFailpoint("worker.commit").IgnoreError();
        std::_Exit(0);
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(FailpointDeathTest, UnknownNamesAreMistakes) {
  EXPECT_DEATH(ReachFailpoint("worker.nowhere").IgnoreError(),
               "worker.nowhere");
}

TEST(FailpointTest, DoesNothingUnasked) {
  const int64_t before = Reached("worker.commit");
  EXPECT_TRUE(ReachFailpoint("worker.commit").ok());
  EXPECT_EQ(Reached("worker.commit"), before + 1);
  SC_FAILPOINT("worker.commit");
}

TEST(FailpointTest, APlaceFailsWhenItIsTold) {
  ASSERT_TRUE(SetFailpoint("worker.checkpoint.write", "error").ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        absl::IsResourceExhausted(ReachFailpoint("worker.checkpoint.write")));
  }
  ASSERT_TRUE(SetFailpoint("worker.checkpoint.write", "error@2").ok());
  EXPECT_TRUE(ReachFailpoint("worker.checkpoint.write").ok());
  EXPECT_FALSE(ReachFailpoint("worker.checkpoint.write").ok());
  EXPECT_TRUE(ReachFailpoint("worker.checkpoint.write").ok()) << "once";
}

TEST(FailpointTest, WhatNobodyUnderstandsIsRefused) {
  for (const char* action :
       {"", "explode", "kill@", "kill@0", "kill@x", "delay", "delay x"}) {
    EXPECT_FALSE(SetFailpoint("worker.send", action).ok()) << action;
  }
  ASSERT_TRUE(SetFailpoint("worker.send", "off").ok());
  EXPECT_FALSE(SetFailpoint("worker.nowhere", "off").ok());
}

TEST(FailpointTest, TheSocketSwitchesThem) {
  // Longer than a socket's address may be.
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/", std::string(120, 'f'));
  std::filesystem::create_directory(folder);
  const std::string path = absl::StrCat(folder, "/socket");
  const absl::Status served = ServeFailpointsAt(path);
  ASSERT_TRUE(served.ok()) << served;
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(AskFailpoints(path, "set worker.release error@1").value_or("?"),
            "");
  EXPECT_FALSE(ReachFailpoint("worker.release").ok());
  const std::string list = AskFailpoints(path, "list").value_or("");
  EXPECT_TRUE(absl::StrContains(list, "worker.release 1 off\n")) << list;
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'),
            static_cast<int64_t>(CoordinatorFailpoints().size() +
                                 WorkerFailpoints().size()));
  for (const char* line : {"set worker.nowhere off", "set worker.send", "x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(AskFailpoints(path, line).status()))
        << line;
  }
  EXPECT_TRUE(
      absl::IsUnavailable(AskFailpoints(path + "-not", "list").status()));
}

}  // namespace
}  // namespace stagecoach

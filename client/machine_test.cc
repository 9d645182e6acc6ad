#include "client/machine.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

MachineFacts GoodFacts() {
  MachineFacts facts;
  facts.shared_memory_bytes = kGiB;
  facts.cluster_folder = "/home/me/.local/state/stagecoach";
  facts.available_memory_bytes = 8 * kGiB;
  facts.cores = 4;
  facts.open_files = 4096;
  facts.wall_clock = absl::FromUnixSeconds(1'800'000'000);
  return facts;
}

Finding Find(const std::vector<Finding>& findings, const std::string& check) {
  for (const Finding& finding : findings) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "nothing about " << check;
  return Finding();
}

Verdict VerdictOf(const MachineFacts& facts, const std::string& check,
                  const Load& load = Load()) {
  const Finding finding = Find(JudgeMachine(facts, load), check);
  EXPECT_EQ(finding.remedy.empty(), finding.verdict == Verdict::kOk);
  EXPECT_FALSE(finding.detail.empty());
  return finding.verdict;
}

TEST(JudgeMachineTest, AGoodMachineIsOk) {
  for (const Finding& finding : JudgeMachine(GoodFacts(), Load())) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check;
    EXPECT_EQ(finding.remedy, "");
  }
}

TEST(JudgeMachineTest, WhatTheDataPathNeedsFails) {
  MachineFacts facts = GoodFacts();
  facts.memfd = absl::PermissionDeniedError("memfd_create: no");
  facts.abstract_socket = absl::InternalError("bind: no");
  facts.loopback = absl::InternalError("bind: no");
  EXPECT_EQ(VerdictOf(facts, "shared memory"), Verdict::kFail);
  EXPECT_EQ(VerdictOf(facts, "unix sockets"), Verdict::kFail);
  EXPECT_EQ(VerdictOf(facts, "loopback"), Verdict::kFail);
  EXPECT_EQ(Find(JudgeMachine(facts, Load()), "shared memory").detail,
            "memfd_create: no");
}

TEST(JudgeMachineTest, SmallSharedMemoryIsAWarning) {
  MachineFacts facts = GoodFacts();
  facts.shared_memory_bytes = 1 << 20;
  EXPECT_EQ(VerdictOf(facts, "/dev/shm"), Verdict::kWarn);
  facts.shared_memory_bytes = -1;
  EXPECT_EQ(VerdictOf(facts, "/dev/shm"), Verdict::kWarn);
}

TEST(JudgeMachineTest, MemoryIsComparedWithTheWorkers) {
  Load load;
  load.workers = 4;
  MachineFacts facts = GoodFacts();
  EXPECT_EQ(VerdictOf(facts, "memory", load), Verdict::kOk);
  facts.available_memory_bytes = 2 * kGiB;
  EXPECT_EQ(VerdictOf(facts, "memory", load), Verdict::kWarn);
  facts.available_memory_bytes = kGiB;
  EXPECT_EQ(VerdictOf(facts, "memory", load), Verdict::kFail);
}

TEST(JudgeMachineTest, CoresAreComparedWithAllThreads) {
  Load load;
  load.workers = 4;
  EXPECT_EQ(VerdictOf(GoodFacts(), "cores", load), Verdict::kOk);
  load.threads = 2;
  EXPECT_EQ(VerdictOf(GoodFacts(), "cores", load), Verdict::kWarn);
}

TEST(JudgeMachineTest, ASocketsPathEndsAt108Bytes) {
  MachineFacts facts = GoodFacts();
  // 17 bytes follow, and a zero.
  facts.cluster_folder = "/" + std::string(89, 'x');
  EXPECT_EQ(VerdictOf(facts, "socket paths"), Verdict::kOk);
  facts.cluster_folder += "x";
  EXPECT_EQ(VerdictOf(facts, "socket paths"), Verdict::kWarn);
}

TEST(JudgeMachineTest, ClocksAndLimits) {
  MachineFacts facts = GoodFacts();
  facts.wall_clock = absl::UnixEpoch();
  EXPECT_EQ(VerdictOf(facts, "clock"), Verdict::kFail);
  facts = GoodFacts();
  facts.steady_clock_moves = false;
  EXPECT_EQ(VerdictOf(facts, "clock"), Verdict::kFail);
  facts.open_files = 256;
  EXPECT_EQ(VerdictOf(facts, "open files"), Verdict::kWarn);
  facts.cluster_folder_writable = absl::PermissionDeniedError("/root");
  EXPECT_EQ(VerdictOf(facts, "state folder"), Verdict::kFail);
}

TEST(LookAtMachineTest, FindsThisOne) {
  const MachineFacts facts = LookAtMachine(testing::TempDir() + "/not/there");
  EXPECT_TRUE(facts.memfd.ok()) << facts.memfd;
  EXPECT_TRUE(facts.abstract_socket.ok()) << facts.abstract_socket;
  EXPECT_TRUE(facts.loopback.ok()) << facts.loopback;
  EXPECT_TRUE(facts.cluster_folder_writable.ok());
  EXPECT_GT(facts.available_memory_bytes, 0);
  EXPECT_GT(facts.cores, 0);
  EXPECT_GT(facts.open_files, 0);
  EXPECT_TRUE(facts.steady_clock_moves);
}

}  // namespace
}  // namespace stagecoach::client

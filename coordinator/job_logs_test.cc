#include "coordinator/job_logs.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

constexpr Incarnation kFirst(1);
constexpr Incarnation kSecond(2);
constexpr int64_t kMany = 1 << 30;

std::string All(const JobLogs& logs, const std::string& job,
                const std::string& worker) {
  auto it = logs.Of(job).find(worker);
  return it == logs.Of(job).end() ? "" : it->second.Read(0, kMany).data;
}

TEST(JobLogsTest, KeepsEachWorkersLogOfEachJobApart) {
  JobLogs logs;
  EXPECT_EQ(logs.Take("j1", "w0", kFirst, 0, "one\n"), 4);
  EXPECT_EQ(logs.Take("j1", "w1", kSecond, 0, "two\n"), 4);
  EXPECT_EQ(logs.Take("j2", "w0", kFirst, 0, "three\n"), 6);
  EXPECT_EQ(logs.Take("j1", "w0", kFirst, 4, "four\n"), 9);
  EXPECT_EQ(All(logs, "j1", "w0"), "one\nfour\n");
  EXPECT_EQ(All(logs, "j1", "w1"), "two\n");
  EXPECT_EQ(All(logs, "j2", "w0"), "three\n");
  EXPECT_TRUE(logs.Of("j3").empty());
}

TEST(JobLogsTest, WhatComesAgainIsNotWrittenAgain) {
  JobLogs logs;
  logs.Take("j1", "w0", kFirst, 0, "one\ntwo\n");
  EXPECT_EQ(logs.Take("j1", "w0", kFirst, 4, "two\n"), 8);
  EXPECT_EQ(logs.Take("j1", "w0", kFirst, 4, "two\nthree\n"), 14);
  EXPECT_EQ(logs.Take("j1", "w0", kFirst, 0, "one\n"), 14);
  EXPECT_EQ(All(logs, "j1", "w0"), "one\ntwo\nthree\n");
}

TEST(JobLogsTest, AnotherProcessOfTheNameContinuesTheLog) {
  JobLogs logs;
  logs.Take("j1", "w0", kFirst, 0, "first life\n");
  EXPECT_EQ(logs.Take("j1", "w0", kSecond, 0, "second life\n"), 12);
  EXPECT_EQ(All(logs, "j1", "w0"), "first life\nsecond life\n");
}

TEST(JobLogsTest, AGapIsSaid) {
  JobLogs logs;
  logs.Take("j1", "w0", kFirst, 0, "one\n");
  EXPECT_EQ(logs.Take("j1", "w0", kFirst, 1004, "two\n"), 1008);
  EXPECT_EQ(All(logs, "j1", "w0"),
            "one\n[1000 bytes of this log are lost: the worker could not keep "
            "them]\ntwo\n");
}

TEST(JobLogsTest, TheOldestJobGoesFirstAndItsOffsetsStay) {
  JobLogs::Limits limits;
  limits.worker_bytes = 1000;
  limits.total_bytes = 250;
  JobLogs logs(limits);
  const std::string line(99, 'x');
  logs.Take("j1", "w0", kFirst, 0, line + "\n");
  logs.Take("j2", "w0", kFirst, 0, line + "\n");
  EXPECT_EQ(All(logs, "j1", "w0").size(), 100u);
  logs.Take("j3", "w0", kFirst, 0, line + "\n");
  EXPECT_EQ(All(logs, "j1", "w0"), "");
  EXPECT_EQ(logs.Of("j1").at("w0").begin(), 100);
  EXPECT_EQ(All(logs, "j2", "w0").size(), 100u);
}

// A worker that sends from where it was acknowledged, over streams that break:
// whatever is lost or comes twice, the log is what was written.
TEST(JobLogsTest, EveryByteOnceWhateverIsSentAgain) {
  std::mt19937 random(11);
  JobLogs logs;
  std::string written;
  int64_t acknowledged = 0;
  for (int i = 0; i < 3000; ++i) {
    written += "line " + std::to_string(i) + "\n";
    const auto size = static_cast<int64_t>(written.size());
    const int64_t from =
        acknowledged - (acknowledged > 0
                            ? static_cast<int64_t>(random()) % acknowledged / 50
                            : 0);
    const int64_t count =
        std::min<int64_t>(size - from, static_cast<int64_t>(random() % 100));
    const int64_t wanted = logs.Take(
        "j1", "w0", kFirst, from,
        written.substr(static_cast<size_t>(from), static_cast<size_t>(count)));
    // The acknowledgement may be lost.
    if (random() % 2 == 0) acknowledged = wanted;
  }
  logs.Take("j1", "w0", kFirst, acknowledged,
            written.substr(static_cast<size_t>(acknowledged)));
  EXPECT_EQ(All(logs, "j1", "w0"), written);
}

}  // namespace
}  // namespace stagecoach::coordinator

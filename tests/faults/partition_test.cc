// A worker and its coordinator that do not hear each other, shorter and longer
// than `dead` (6 s); and workers that stand still. The job's placement changes
// exactly when it must, and its bits never.
//
//   PARTITION_LONG=1  also those that take more than half a minute; prints a
//                     table either way

#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"
#include "tests/faults/proxy.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

// A coordinator, two workers that reach it directly, w0 and a spare w9, and w1,
// which reaches it through a proxy.
class PartitionTest : public DisturbedJobTest {
 protected:
  void Start(bool spare, int steps = 12) {
    steps_ = steps;
    cluster_ = Cluster::Start(SlowWorkers(1, 20)).value();
    proxy_ = Proxy::Start(cluster_->address()).value();
    ASSERT_TRUE(WaitForIdleWorkers(1));
    Spawn("w1", proxy_->address());
    ASSERT_TRUE(WaitForIdleWorkers(2));
    id_ = cluster_->Submit(Spec(), {"recovery.neighbour_copy=true"});
    ASSERT_TRUE(WaitFor([](const json& job) {
                  return job["steps"].size() >= 2;
                }).is_object())
        << Logs();
    if (spare) {
      Spawn("w9", cluster_->address());
      ASSERT_TRUE(WaitForIdleWorkers(1));
    }
    begin_ = absl::Now();
  }
  void Spawn(const std::string& name, const std::string& coordinator) {
    SpawnOptions options;
    options.program = FaultyWorkerBinary();
    options.arguments = {"--coordinator", coordinator, "--name", name};
    options.environment = SlowWorkers(1, 20)[0].environment;
    options.stderr_file = folder() + "/" + name;
    spawned_.push_back(ChildProcess::Spawn(options).value());
  }
  void TearDown() override {
    if (HasFailure()) std::cout << Logs();
    for (ChildProcess& worker : spawned_) {
      worker.Signal(SIGCONT).IgnoreError();
      worker.Signal(SIGTERM).IgnoreError();
    }
    if (proxy_ != nullptr) proxy_->LetGoBoth();
    for (ChildProcess& worker : spawned_) worker.Stop(absl::Seconds(30));
  }
  std::string Spec() {
    TinyJob job = TwoStageJob(steps_);
    job.split = "[1, 1]";
    job.max_failures = 2;
    return WriteSpec(job);
  }
  std::string Logs() const { return cluster_->Logs(); }
  json WaitFor(const std::function<bool(const json&)>& done) {
    return WaitUntil(*cluster_, id_, done);
  }
  bool WaitForIdleWorkers(int count) { return WaitForIdle(*cluster_, count); }
  // Ends as an undisturbed job does, after so many changes of its placement.
  void ExpectEnd(size_t recoveries, const std::string& what) {
    const json job = Finished(*cluster_, id_);
    ExpectSame(job, InPeace());
    if (HasFatalFailure()) return;
    EXPECT_EQ(job["recoveries"].size(), recoveries) << job["recoveries"];
    int64_t redone = 0;
    for (const json& recovery : job["recoveries"]) {
      EXPECT_EQ(recovery["cause"]["worker"], "w1");
      redone += recovery["steps_redone"].get<int64_t>();
    }
    EXPECT_LE(redone, static_cast<int64_t>(recoveries));
    PrintRow(what, job["recoveries"].size(), redone);
  }
  void PrintRow(const std::string& what, size_t changes, int64_t redone) const {
    const json list = cluster_->Command({"worker", "list"}).json;
    ASSERT_TRUE(list.contains("refused_messages")) << list;
    int64_t refused = 0;
    for (const auto& [kind, count] : list["refused_messages"].items()) {
      refused += count.get<int64_t>();
    }
    std::cout << absl::StreamFormat(
                     "| %-46s | %d epoch changes | %d steps redone | %2d "
                     "messages refused | %5.1f s to the end | %s |\n",
                     what, changes, redone, refused,
                     absl::ToDoubleSeconds(absl::Now() - begin_),
                     HasFailure() ? "NOT as stated" : "bit-equal")
              << std::flush;
  }
  // Once for all tests of so many steps.
  json InPeace() {
    static auto* const jobs = new std::map<int, json>;
    if (jobs->count(steps_) == 0) (*jobs)[steps_] = Undisturbed(Spec());
    return jobs->at(steps_);
  }
  bool WaitForRecovery() {
    return WaitFor([](const json& job) { return !job["recoveries"].empty(); })
        .is_object();
  }
  static bool LongOnes() { return FromEnvironment("PARTITION_LONG", 0) > 0; }

  int steps_ = 0;
  absl::Time begin_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Proxy> proxy_;
  std::vector<ChildProcess> spawned_;  // w1, w9
  std::string id_;
};

// Stands for time that passes without a word.
void Stay(absl::Duration duration) { absl::SleepFor(duration); }

TEST_F(PartitionTest, ShorterThanDeadChangesNothing) {
  Start(/*spare=*/true);
  for (const auto way : {Proxy::Way::kToServer, Proxy::Way::kToClient}) {
    proxy_->Hold(way);
    Stay(absl::Milliseconds(1500));
    proxy_->LetGo(way);
    Stay(absl::Milliseconds(500));
  }
  proxy_->HoldBoth();
  Stay(absl::Milliseconds(2500));
  proxy_->LetGoBoth();
  ExpectEnd(0, "1.5 s one way, the other way, 2.5 s both ways");
}

struct Direction {
  const char* name;
  bool to_server;
  bool to_client;
};

class JustShorterTest : public PartitionTest,
                        public ::testing::WithParamInterface<Direction> {};

TEST_P(JustShorterTest, ThanDeadChangesNothing) {
  if (!LongOnes()) GTEST_SKIP() << "PARTITION_LONG is not set";
  Start(/*spare=*/true);
  if (GetParam().to_server) proxy_->Hold(Proxy::Way::kToServer);
  if (GetParam().to_client) proxy_->Hold(Proxy::Way::kToClient);
  Stay(absl::Seconds(4.5));
  proxy_->LetGoBoth();
  ExpectEnd(0, absl::StrCat("4.5 s, ", GetParam().name));
}
INSTANTIATE_TEST_SUITE_P(
    Ways, JustShorterTest,
    ::testing::Values(Direction{"NotHeard", true, false},
                      Direction{"DoesNotHear", false, true},
                      Direction{"BothWays", true, true}),
    [](const auto& direction) { return direction.param.name; });

TEST_F(PartitionTest, LongerThanDeadMovesTheJobOnce) {
  Start(/*spare=*/true);
  proxy_->HoldBoth();
  ASSERT_TRUE(WaitForRecovery());
  proxy_->LetGoBoth();
  ExpectEnd(1, "longer than dead (6 s), both ways");
  // It has let go of what it had, and is a spare now.
  EXPECT_TRUE(WaitForIdleWorkers(3));
}

TEST_F(PartitionTest, AWorkerThatIsNotHeardIsLost) {
  Start(/*spare=*/true);
  proxy_->Hold(Proxy::Way::kToServer);
  ASSERT_TRUE(WaitForRecovery());
  proxy_->LetGoBoth();
  ExpectEnd(1, "longer than dead (6 s), not heard");
  EXPECT_TRUE(WaitForIdleWorkers(3));
}

// Its heartbeats come: the job waits for it.
TEST_F(PartitionTest, AWorkerThatDoesNotHearIsWaitedFor) {
  Start(/*spare=*/true);
  proxy_->Hold(Proxy::Way::kToClient);
  Stay(absl::Seconds(9));
  proxy_->LetGoBoth();
  ExpectEnd(0, "9 s, does not hear");
}

// But not for ever: after 20 s it asks whether anybody is there, and after 10 s
// without an answer it ends the connection. Another 6 s later it is lost.
TEST_F(PartitionTest, AWorkerThatNeverHearsIsLostWithItsConnection) {
  if (!LongOnes()) GTEST_SKIP() << "PARTITION_LONG is not set";
  Start(/*spare=*/true);
  proxy_->Hold(Proxy::Way::kToClient);
  ASSERT_TRUE(WaitForRecovery());
  EXPECT_LE(absl::Now() - begin_, absl::Seconds(60));
  proxy_->LetGoBoth();
  ExpectEnd(1, "until it is lost, does not hear");
  EXPECT_TRUE(WaitForIdleWorkers(3));
}

TEST_F(PartitionTest, ACutConnectionIsMadeAgain) {
  Start(/*spare=*/false);
  int cut = 0;
  for (int i = 0; i < 5; ++i) {
    Stay(absl::Milliseconds(300));
    cut += proxy_->Cut();
  }
  EXPECT_GE(cut, 2);
  ExpectEnd(0, absl::StrCat(cut, " cuts, 300 ms apart"));
}

TEST_F(PartitionTest, ASlowConnectionOnlyCostsTime) {
  Start(/*spare=*/false);
  proxy_->Delay(40);
  ExpectEnd(0, "every piece 40 ms late");
}

TEST_F(PartitionTest, AWorkerThatStandsStillForASecondIsNotLost) {
  Start(/*spare=*/true);
  ASSERT_TRUE(spawned_[0].Signal(SIGSTOP).ok());
  Stay(absl::Seconds(1));
  ASSERT_TRUE(spawned_[0].Signal(SIGCONT).ok());
  ExpectEnd(0, "SIGSTOP for 1 s");
}

TEST_F(PartitionTest, AWorkerThatStandsStillForTenSecondsIsLostOnce) {
  Start(/*spare=*/true);
  ASSERT_TRUE(spawned_[0].Signal(SIGSTOP).ok());
  Stay(absl::Seconds(10));
  ASSERT_TRUE(spawned_[0].Signal(SIGCONT).ok());
  ExpectEnd(1, "SIGSTOP for 10 s");
  EXPECT_TRUE(WaitForIdleWorkers(3));
}

// The job has long been going on elsewhere when it wakes up.
TEST_F(PartitionTest, AWorkerThatStandsStillForAMinuteIsLostOnce) {
  if (!LongOnes()) GTEST_SKIP() << "PARTITION_LONG is not set";
  Start(/*spare=*/true, /*steps=*/800);
  ASSERT_TRUE(spawned_[0].Signal(SIGSTOP).ok());
  Stay(absl::Seconds(60));
  EXPECT_EQ(Show(*cluster_, id_)["state"], "RUNNING") << "too few steps";
  ASSERT_TRUE(spawned_[0].Signal(SIGCONT).ok());
  ExpectEnd(1, "SIGSTOP for 60 s");
  EXPECT_TRUE(WaitForIdleWorkers(3));
}

}  // namespace
}  // namespace stagecoach::testing

// A worker and its coordinator that do not hear each other, shorter and longer
// than `dead` (6 s); and workers that stand still. The job's placement changes
// exactly when it must, and its bits never.

#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
  void Start(bool spare) {
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
    TinyJob job = TwoStageJob(12);
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
  void ExpectEnd(size_t recoveries) {
    const json job = Finished(*cluster_, id_);
    ExpectSame(job, InPeace());
    if (HasFatalFailure()) return;
    EXPECT_EQ(job["recoveries"].size(), recoveries) << job["recoveries"];
    for (const json& recovery : job["recoveries"]) {
      EXPECT_EQ(recovery["cause"]["worker"], "w1");
      EXPECT_LE(recovery["steps_redone"].get<int64_t>(), 1);
    }
  }
  // Once for all tests.
  const json& InPeace() {
    static const json& job = *new json(Undisturbed(Spec()));
    return job;
  }
  bool WaitForRecovery() {
    return WaitFor([](const json& job) { return !job["recoveries"].empty(); })
        .is_object();
  }

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
  ExpectEnd(0);
}

TEST_F(PartitionTest, LongerThanDeadMovesTheJobOnce) {
  Start(/*spare=*/true);
  proxy_->HoldBoth();
  ASSERT_TRUE(WaitForRecovery());
  proxy_->LetGoBoth();
  ExpectEnd(1);
  // It has let go of what it had, and is a spare now.
  EXPECT_TRUE(WaitForIdleWorkers(3));
}

TEST_F(PartitionTest, AWorkerThatIsNotHeardIsLost) {
  Start(/*spare=*/true);
  proxy_->Hold(Proxy::Way::kToServer);
  ASSERT_TRUE(WaitForRecovery());
  proxy_->LetGoBoth();
  ExpectEnd(1);
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
  ExpectEnd(0);
}

TEST_F(PartitionTest, ASlowConnectionOnlyCostsTime) {
  Start(/*spare=*/false);
  proxy_->Delay(40);
  ExpectEnd(0);
}

TEST_F(PartitionTest, AWorkerThatStandsStillForASecondIsNotLost) {
  Start(/*spare=*/true);
  ASSERT_TRUE(spawned_[0].Signal(SIGSTOP).ok());
  Stay(absl::Seconds(1));
  ASSERT_TRUE(spawned_[0].Signal(SIGCONT).ok());
  ExpectEnd(0);
}

TEST_F(PartitionTest, AWorkerThatStandsStillForTenSecondsIsLostOnce) {
  Start(/*spare=*/true);
  ASSERT_TRUE(spawned_[0].Signal(SIGSTOP).ok());
  Stay(absl::Seconds(10));
  ASSERT_TRUE(spawned_[0].Signal(SIGCONT).ok());
  ExpectEnd(1);
  EXPECT_TRUE(WaitForIdleWorkers(3));
}

}  // namespace
}  // namespace stagecoach::testing

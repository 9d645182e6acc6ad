#include "coordinator/failure.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

const absl::Time kStart = absl::UnixEpoch();
const absl::Duration kMoment = absl::Milliseconds(5);

// Four workers w0 to w3, each with the stage of its number.
class JudgeFailureTest : public ::testing::Test {
 protected:
  JudgeFailureTest() {
    for (int i = 0; i < 4; ++i) {
      SuspectedWorker worker;
      worker.name = "w" + std::to_string(i);
      worker.lowest_stage = i;
      workers_.push_back(worker);
    }
  }

  FailureReport& Add(int worker) {
    FailureReport report;
    report.worker = worker;
    report.at = now_;
    report.message = "said by w" + std::to_string(worker);
    reports_.push_back(report);
    return reports_.back();
  }
  void Lost(int worker) {
    FailureReport& report = Add(worker);
    report.lost = true;
    report.kind = FailureKind::kWorkerLost;
  }
  void Blames(int worker, int blamed) {
    FailureReport& report = Add(worker);
    report.kind = FailureKind::kWorkerLost;
    report.blamed = blamed;
  }
  std::optional<FailureVerdict> Judge() {
    return JudgeFailure(workers_, reports_, FailureGrace(), now_);
  }
  // The name of the culprit, or "" while the verdict is held back.
  std::string Culprit() {
    const auto verdict = Judge();
    return verdict.has_value() ? verdict->cause.worker : "";
  }

  std::vector<SuspectedWorker> workers_;
  std::vector<FailureReport> reports_;
  absl::Time now_ = kStart;
};

TEST_F(JudgeFailureTest, NothingReportedIsNothing) {
  EXPECT_EQ(Judge(), std::nullopt);
}

TEST_F(JudgeFailureTest, ALostWorkerIsTheCauseAtOnce) {
  Lost(2);
  const auto verdict = Judge();
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->culprit, 2);
  EXPECT_EQ(verdict->cause.worker, "w2");
  EXPECT_EQ(verdict->cause.kind, FailureKind::kWorkerLost);
  EXPECT_EQ(verdict->cause.stage, 2);
  EXPECT_EQ(verdict->cause.step, -1);
  EXPECT_EQ(verdict->cause.microbatch, -1);
  EXPECT_EQ(verdict->cause.action, "");
  EXPECT_EQ(verdict->victims, std::vector<std::string>({"w0", "w1", "w3"}));
}

TEST_F(JudgeFailureTest, TheVictimsReportComesBeforeTheLoss) {
  Blames(1, 2);
  EXPECT_EQ(Culprit(), "");
  now_ += kMoment;
  Blames(3, 2);
  EXPECT_EQ(Culprit(), "");
  now_ += kMoment;
  Lost(2);
  EXPECT_EQ(Culprit(), "w2");
}

// w0 saw w1 end, because w1 aborted when it saw w2 end, because w2 died.
TEST_F(JudgeFailureTest, TheCascadeDoesNotHideTheLoss) {
  Blames(0, 1);
  Blames(1, 2);
  Lost(2);
  EXPECT_EQ(Culprit(), "w2");
}

TEST_F(JudgeFailureTest, ALossFarFromTheBlamedIsStillTheCause) {
  Blames(0, 1);
  Lost(3);
  EXPECT_EQ(Culprit(), "w3");
}

TEST_F(JudgeFailureTest, BlamedWorkerIsTheCauseAfterTheGrace) {
  Blames(1, 2);
  now_ += absl::Milliseconds(999);
  EXPECT_EQ(Culprit(), "");
  now_ += absl::Milliseconds(1);
  const auto verdict = Judge();
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->cause.worker, "w2");
  EXPECT_EQ(verdict->cause.message, "edge lost, reported by w1: said by w1");
  EXPECT_EQ(verdict->cause.kind, FailureKind::kWorkerLost);
}

TEST_F(JudgeFailureTest, EndOfTheChainIsTheCause) {
  Blames(0, 1);
  Blames(1, 2);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Culprit(), "w2");
}

TEST_F(JudgeFailureTest, ACircleOfBlameEnds) {
  Blames(0, 1);
  Blames(1, 2);
  Blames(2, 1);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Culprit(), "w1");
}

TEST_F(JudgeFailureTest, WaitsWhileTheBlamedIsSilent) {
  workers_[2].silent = true;
  Blames(1, 2);
  now_ += absl::Seconds(3);
  EXPECT_EQ(Culprit(), "");
  workers_[2].silent = false;  // it answers: the edge is what broke
  EXPECT_EQ(Culprit(), "w2");
}

TEST_F(JudgeFailureTest, SilentBystanderDoesNotHoldABlameBack) {
  workers_[0].silent = true;
  Blames(1, 2);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Culprit(), "w2");
}

TEST_F(JudgeFailureTest, OutOfMemoryNeedsNoSecondOpinion) {
  workers_[3].silent = true;
  Add(1).kind = FailureKind::kOutOfMemory;
  const auto verdict = Judge();
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->cause.kind, FailureKind::kOutOfMemory);
  EXPECT_EQ(verdict->cause.worker, "w1");
}

// A call to a dead peer failed before anybody noticed that the peer is dead.
TEST_F(JudgeFailureTest, ALossExplainsAnErrorThatBlamesNobody) {
  Add(1).kind = FailureKind::kInternal;
  EXPECT_EQ(Culprit(), "");
  now_ += kMoment;
  Lost(2);
  EXPECT_EQ(Culprit(), "w2");
}

TEST_F(JudgeFailureTest, OwnErrorIsTheCauseAfterAShortGrace) {
  Blames(0, 1);
  Add(1).kind = FailureKind::kInternal;
  EXPECT_EQ(Culprit(), "");
  now_ += absl::Milliseconds(250);
  const auto verdict = Judge();
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->cause.worker, "w1");
  EXPECT_EQ(verdict->cause.kind, FailureKind::kInternal);
  EXPECT_EQ(verdict->cause.message, "said by w1");
}

TEST_F(JudgeFailureTest, OwnErrorWaitsForASilentPeer) {
  workers_[2].silent = true;
  Add(1).kind = FailureKind::kInternal;
  now_ += absl::Seconds(3);
  EXPECT_EQ(Culprit(), "");
  Lost(2);
  EXPECT_EQ(Culprit(), "w2");
}

TEST_F(JudgeFailureTest, WhatTheWorkerSaidBeforeItDiedIsTheMessage) {
  FailureReport& report = Add(2);
  report.kind = FailureKind::kInternal;
  report.message = "device lost";
  Lost(2);
  const auto verdict = Judge();
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->cause.message, "device lost");
  EXPECT_EQ(verdict->cause.kind, FailureKind::kInternal);
}

TEST_F(JudgeFailureTest, TheFirstOfTwoLossesIsTheCause) {
  Lost(3);
  Lost(0);
  EXPECT_EQ(Culprit(), "w3");
}

TEST_F(JudgeFailureTest, BlamingOneselfOrNobodyKnownIsAnOwnFault) {
  Blames(1, 1);
  now_ += absl::Milliseconds(250);
  EXPECT_EQ(Culprit(), "w1");
  reports_.clear();
  Blames(2, 17);
  now_ += absl::Milliseconds(250);
  EXPECT_EQ(Culprit(), "w2");
}

TEST_F(JudgeFailureTest, PlaceIsTheReportsElseTheLastKnown) {
  Position heartbeat;
  heartbeat.step = 36;
  heartbeat.action = "6B1";
  heartbeat.stage = 6;
  heartbeat.microbatch = 1;
  workers_[2].last_position = heartbeat;
  Lost(2);
  FailureCause cause = Judge()->cause;
  EXPECT_EQ(cause.stage, 6);
  EXPECT_EQ(cause.step, 36);
  EXPECT_EQ(cause.action, "6B1");
  EXPECT_EQ(cause.microbatch, 1);

  Position own;
  own.step = 37;
  own.action = "2F0";
  own.stage = 2;
  own.microbatch = 0;
  reports_[0].position = own;
  cause = Judge()->cause;
  EXPECT_EQ(cause.stage, 2);
  EXPECT_EQ(cause.step, 37);
  EXPECT_EQ(DescribeCause(cause),
            "stage 2 (worker w2), step 37, 2F0, microbatch 0: said by w2");
}

TEST(DescribeCauseTest, SaysOnlyWhatIsKnown) {
  FailureCause cause;
  cause.message = "no";
  EXPECT_EQ(DescribeCause(cause), "no");
  cause.worker = "w1";
  cause.stage = 3;
  EXPECT_EQ(DescribeCause(cause), "stage 3 (worker w1): no");
}

}  // namespace
}  // namespace stagecoach::coordinator

#include "stage_worker/paths.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::worker {
namespace {

using ::testing::HasSubstr;

transport::Location On(const std::string& host) {
  transport::Location location;
  location.boot_id = host;
  return location;
}

// "near" within a host, "far" between hosts unless the receiver's detail says
// "deaf".
std::vector<Transport> Table() {
  Transport near;
  near.kind = "near";
  near.merit = "same host";
  near.check = [](const PathEnd& from, const PathEnd& to) {
    if (from.location.boot_id == to.location.boot_id) return absl::OkStatus();
    return absl::FailedPreconditionError("another host");
  };
  Transport far;
  far.kind = "far";
  far.merit = "over the network";
  far.check = [](const PathEnd&, const PathEnd& to) {
    if (to.detail != "deaf") return absl::OkStatus();
    return absl::FailedPreconditionError("far: the receiver is deaf");
  };
  return {near, far};
}

WorkerPaths At(const std::string& host) { return OffersOf(Table(), On(host)); }

TEST(ChoosePathTest, TakesTheFirstThatIsViableAndSaysWhy) {
  const PathChoice same = ChoosePath(Table(), At("a"), At("a"), "").value();
  EXPECT_EQ(same.kind, "near");
  EXPECT_EQ(same.why, "same host");
  const PathChoice other = ChoosePath(Table(), At("a"), At("b"), "").value();
  EXPECT_EQ(other.kind, "far");
  EXPECT_EQ(other.why, "near: another host");
}

TEST(ChoosePathTest, WhatIsThereOnlyIfAskedIsNotMentionedOtherwise) {
  std::vector<Transport> table = Table();
  table[0].only_if_asked = true;
  table[0].obstacle = "no library";
  const WorkerPaths paths = OffersOf(table, On("a"));
  const PathChoice choice = ChoosePath(table, paths, paths, "").value();
  EXPECT_EQ(choice.kind, "far");
  EXPECT_EQ(choice.why, "over the network");
  EXPECT_EQ(
      ChoosePath(table, paths, paths, "near").status().message(),
      "pipeline.transport = \"near\": near: not at the sender: no library");
}

TEST(ChoosePathTest, AForcedWayIsTakenThoughABetterOneIsThere) {
  const PathChoice choice =
      ChoosePath(Table(), At("a"), At("a"), "far").value();
  EXPECT_EQ(choice.kind, "far");
  EXPECT_THAT(choice.why, HasSubstr("pipeline.transport"));
}

TEST(ChoosePathTest, AForcedWayThatIsNotViableIsRefusedWithItsObstacle) {
  const auto choice = ChoosePath(Table(), At("a"), At("b"), "near");
  EXPECT_EQ(choice.status(),
            absl::FailedPreconditionError(
                "pipeline.transport = \"near\": near: another host"));
  EXPECT_EQ(ChoosePath(Table(), At("a"), At("a"), "pigeon").status().message(),
            "pipeline.transport = \"pigeon\": pigeon: this worker does not "
            "know it");
}

TEST(ChoosePathTest, AnObstacleOfEitherEndCounts) {
  for (const bool at_sender : {true, false}) {
    WorkerPaths from = At("a");
    WorkerPaths to = At("a");
    (at_sender ? from : to).offers[0].obstacle = "no library";
    const PathChoice choice = ChoosePath(Table(), from, to, "").value();
    EXPECT_EQ(choice.kind, "far");
    EXPECT_EQ(choice.why,
              absl::StrCat("near: not at the ",
                           at_sender ? "sender" : "receiver", ": no library"));
  }
}

TEST(ChoosePathTest, WithoutAnyWayEveryObstacleIsNamed) {
  WorkerPaths to = At("b");
  to.offers[1].detail = "deaf";
  EXPECT_EQ(ChoosePath(Table(), At("a"), to, "").status().message(),
            "no way to move tensors: near: another host; far: the receiver is "
            "deaf");
  to.offers.pop_back();
  EXPECT_THAT(
      std::string(ChoosePath(Table(), At("a"), to, "").status().message()),
      HasSubstr("far: the receiver does not know it"));
}

// The two ends of an edge choose with the same arguments, so with the same
// result; the edge back may go another way.
TEST(ChoosePathTest, TheDirectionsOfAPairAreChosenApart) {
  WorkerPaths deaf = At("b");
  deaf.offers[1].detail = "deaf";
  EXPECT_FALSE(ChoosePath(Table(), At("a"), deaf, "").ok());
  EXPECT_EQ(ChoosePath(Table(), deaf, At("a"), "")->kind, "far");
}

}  // namespace
}  // namespace stagecoach::worker

#include "client/output/schedule_output.h"

#include <string>

#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"

namespace stagecoach::client {
namespace {

schedule::Schedule TwoWorkers() {
  schedule::GenerateOptions shape;
  shape.workers = 2;
  shape.microbatches = 2;
  return *schedule::Lower(*schedule::Generate("1f1b", shape), {});
}

schedule::Verdict Refusal() {
  schedule::Verdict verdict;
  schedule::VerifyError error;
  error.kind = "deadlock";
  error.workers = {WorkerIndex(0), WorkerIndex(1)};
  error.actions = {"w0: 0RECV_B0 (waits for 1SEND_B0)"};
  error.message = "workers 0 and 1 wait for each other; swap them";
  verdict.errors.push_back(error);
  return verdict;
}

TEST(VerdictTest, AcceptedJson) {
  const schedule::Verdict verdict = schedule::Verify(TwoWorkers());
  EXPECT_EQ(VerdictJson(verdict).dump(),
            R"({"ok":true,"errors":[],"peak_in_flight":[2,1],)"
            R"("ascending_accumulation":true})");
}

TEST(VerdictTest, RefusedJson) {
  EXPECT_EQ(VerdictJson(Refusal()).dump(),
            R"({"ok":false,"errors":[{"kind":"deadlock","workers":[0,1],)"
            R"x("actions":["w0: 0RECV_B0 (waits for 1SEND_B0)"],)x"
            R"("message":"workers 0 and 1 wait for each other; swap them"}],)"
            R"("peak_in_flight":[],"ascending_accumulation":false})");
}

TEST(VerdictTest, Text) {
  const schedule::Schedule schedule = TwoWorkers();
  EXPECT_EQ(VerdictText(schedule, schedule::Verify(schedule)),
            "ok: 1f1b, 2 workers x 1 stage, 2 microbatches, send budget 2\n"
            "peak in flight by worker: 2, 1\n"
            "ascending accumulation: yes\n");
  EXPECT_EQ(VerdictText(schedule, Refusal()),
            "refused: 1f1b, 2 workers x 1 stage, 2 microbatches, send budget "
            "2\n"
            "deadlock: workers 0 and 1 wait for each other; swap them\n"
            "  w0: 0RECV_B0 (waits for 1SEND_B0)\n");
}

TEST(VerdictTest, AFileThatIsNoScheduleHasTheSameDocument) {
  EXPECT_EQ(VerdictJson(UnreadableVerdict("a.txt:1:1: no schedule")).dump(),
            R"({"ok":false,"errors":[{"kind":"parse","workers":[],)"
            R"("actions":[],"message":"a.txt:1:1: no schedule"}],)"
            R"("peak_in_flight":[],"ascending_accumulation":false})");
}

TEST(SimulationTest, JsonHasEveryKeyOfTheContract) {
  const schedule::SimulateResult result = *schedule::Simulate(TwoWorkers());
  const Json json = SimulationJson(result);
  // F = 1, B = 2; M + P - 1 = 3 times F + B.
  EXPECT_EQ(json["makespan"], 9.0);
  EXPECT_DOUBLE_EQ(json["bubble_ratio"].get<double>(), 1.0 / 3);
  EXPECT_EQ(json["workers"][0].dump(),
            R"({"busy":6.0,"idle":3.0,"peak_in_flight":2,)"
            R"("peak_held_outputs_never":2})");
}

TEST(SimulationTest, Text) {
  const schedule::Schedule schedule = TwoWorkers();
  EXPECT_EQ(SimulationText(schedule, *schedule::Simulate(schedule)),
            "1f1b, 2 workers x 1 stage, 2 microbatches, send budget 2\n"
            "makespan 9, bubble 33.3 %\n"
            "\n"
            "worker  busy  idle  peak in flight  outputs held, never\n"
            "w0         6     3               2                    2\n"
            "w1         6     3               1                    0\n");
}

TEST(TimelineTest, HasTheComputeActionsInTime) {
  const schedule::Schedule schedule = TwoWorkers();
  const Json json = TimelineJson(schedule, *schedule::Simulate(schedule));
  EXPECT_EQ(json["kind"], "1f1b");
  EXPECT_EQ(json["workers"][0]["timeline"][0].dump(),
            R"({"action":"0F0","start":0.0,"end":1.0})");
  EXPECT_EQ(json["workers"][1]["timeline"][0]["start"], 1.0);
  EXPECT_EQ(json["workers"][1]["timeline"].size(), 4u);
}

TEST(DifferenceTest, Equal) {
  EXPECT_EQ(DifferenceJson({}).dump(),
            R"({"equal":true,"header":[],"workers":[]})");
  EXPECT_EQ(DifferenceText({}), "equal\n");
}

TEST(DifferenceTest, TheEndOfAListIsNull) {
  schedule::ScheduleDifference difference;
  difference.header = {"microbatches: 4 and 8"};
  difference.lists.emplace_back();
  difference.lists[0].worker = WorkerIndex(2);
  difference.lists[0].position = 5;
  difference.lists[0].right = "2B4";
  EXPECT_EQ(DifferenceJson(difference).dump(),
            R"({"equal":false,"header":["microbatches: 4 and 8"],)"
            R"("workers":[{"worker":2,"position":5,"left":null,)"
            R"("right":"2B4"}]})");
  EXPECT_EQ(DifferenceText(difference),
            "microbatches: 4 and 8\nw2 action 5: nothing more and 2B4\n");
}

}  // namespace
}  // namespace stagecoach::client

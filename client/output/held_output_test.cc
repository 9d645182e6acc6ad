#include "client/output/held_output.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

constexpr int64_t kKiB = 1 << 10;

void Hold(int microbatch, const std::string& op, int64_t bytes,
          v1::WorkerMemory* worker) {
  v1::HeldBytes* held = worker->add_held();
  held->set_stage(1);
  held->set_microbatch(microbatch);
  held->set_op(op);
  held->set_tensors(2);
  held->set_bytes(bytes);
}

v1::GetMemoryStatsResponse Response() {
  v1::GetMemoryStatsResponse response;
  response.set_job_id("job-1");
  v1::WorkerMemory* worker = response.add_workers();
  worker->set_worker("w1");
  worker->set_step(7);
  worker->mutable_allocated_bytes()->set_current(7 * kKiB);
  worker->mutable_allocated_bytes()->set_peak(9 * kKiB);
  v1::CategoryBytes* activation = worker->add_categories();
  activation->set_category("activation");
  activation->mutable_bytes()->set_current(7 * kKiB);
  activation->mutable_bytes()->set_peak(9 * kKiB);
  v1::StageMemory* stage = worker->add_stages();
  stage->set_stage(1);
  stage->set_activation_bytes(7 * kKiB);
  v1::RetainedBytes* retained = stage->add_retained_by();
  retained->set_op("TanhBackward0");
  retained->set_bytes(kKiB);
  Hold(0, "GeluBackward0", 3 * kKiB, worker);
  Hold(0, "AddmmBackward0", kKiB, worker);
  Hold(1, "GeluBackward0", 2 * kKiB, worker);
  v1::MemoryPoint* point = worker->add_points();
  point->set_nanoseconds(5000);
  point->set_step(7);
  point->set_action("1F0");
  for (int i = 0; i < 8; ++i) point->add_categories(i);
  response.add_silent_workers("w2");
  return response;
}

TEST(HeldOutputTest, ListsOpsByMicrobatch) {
  const Json json = HeldJson(Response());
  EXPECT_EQ(json["workers"][0]["held_bytes"], 6 * kKiB);
  EXPECT_EQ(json["workers"][0]["activation_bytes"], 7 * kKiB);
  EXPECT_EQ(json["workers"][0]["held"][2]["microbatch"], 1);
  EXPECT_EQ(json["silent_workers"][0], "w2");
  EXPECT_THAT(HeldText(Response()), HasSubstr("w2 did not answer in time"));
}

TEST(MemoryGroupsTest, AddsUpByOpAndMicrobatchTheLargestFirst) {
  const Json ops = MemoryGroupsJson(Response(), MemoryGroup::kOp);
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0]["op"], "GeluBackward0");
  EXPECT_EQ(ops[0]["bytes"], 5 * kKiB);
  const Json microbatches =
      MemoryGroupsJson(Response(), MemoryGroup::kMicrobatch);
  EXPECT_EQ(microbatches[0]["microbatch"], "0");
  EXPECT_EQ(microbatches[0]["bytes"], 4 * kKiB);
  EXPECT_EQ(MemoryGroupsJson(Response(), MemoryGroup::kStage)[0]["bytes"],
            7 * kKiB);
  EXPECT_EQ(MemoryGroupsJson(Response(), MemoryGroup::kCategory)[0]["category"],
            "activation");
  EXPECT_THAT(MemoryGroupsText(Response(), MemoryGroup::kOp),
              HasSubstr("6.00 KiB"));
}

TEST(SnapshotTest, IsATraceWithACounterTrackForEachWorker) {
  const Json json = SnapshotJson(Response());
  ASSERT_EQ(json["traceEvents"].size(), 2u);
  EXPECT_EQ(json["traceEvents"][0]["args"]["name"], "w1");
  const Json& counter = json["traceEvents"][1];
  EXPECT_EQ(counter["ph"], "C");
  EXPECT_EQ(counter["ts"], 5.0);
  EXPECT_EQ(counter["args"]["activation"], 3);
  EXPECT_EQ(json["snapshot"]["workers"][0]["held"].size(), 3u);
  EXPECT_EQ(json["snapshot"]["workers"][0]["actions"][0]["action"], "1F0");
}

TEST(ExplainTest, SaysWhatIsPredictedAndWhatToDo) {
  v1::Job job;
  v1::JobWorker* worker = job.add_workers();
  worker->set_worker("w1");
  worker->mutable_predicted()->mutable_low()->set_total(8 * kKiB);
  worker->mutable_predicted()->mutable_high()->set_total(10 * kKiB);
  const std::string text = ExplainText(Response(), job);
  EXPECT_THAT(text, HasSubstr("9.00 KiB at most; predicted before the first "
                              "step: 8.00 KiB to 10.00 KiB"));
  EXPECT_THAT(text, HasSubstr("kept by TanhBackward0 for its backward"));
  EXPECT_THAT(text, HasSubstr("pipeline.send_budget"));
}

}  // namespace
}  // namespace stagecoach::client

#include "client/output/prediction_output.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

constexpr int64_t kMiB = 1 << 20;

void Fill(int64_t activation, v1::BytesByCategory* bytes) {
  // 10 MiB of parameters, and activations.
  bytes->set_total(10 * kMiB + activation);
  for (int i = 0; i < 8; ++i) {
    bytes->add_categories(i == 0 ? 10 * kMiB : i == 3 ? activation : 0);
  }
}

v1::Job JobWith(int64_t measured_activation) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  v1::JobWorker* worker = job.add_workers();
  worker->set_worker("w0");
  Fill(90 * kMiB, worker->mutable_predicted()->mutable_low());
  Fill(94 * kMiB, worker->mutable_predicted()->mutable_high());
  Fill(measured_activation, worker->mutable_measured());
  return job;
}

TEST(MemoryWarningsTest, OnePercentOutsideTheIntervalIsNoSurprise) {
  EXPECT_TRUE(MemoryWarnings(JobWith(92 * kMiB)).empty());
  EXPECT_TRUE(MemoryWarnings(JobWith(89 * kMiB)).empty());
  EXPECT_TRUE(MemoryWarnings(JobWith(95 * kMiB)).empty());
}

TEST(MemoryWarningsTest, NamesTheCategoryThatIsFurthestOff) {
  const std::vector<std::string> warnings = MemoryWarnings(JobWith(110 * kMiB));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "worker w0: the measured peak of 120.00 MiB is outside the "
            "predicted 100.00 MiB to 104.00 MiB; furthest off is activation "
            "with 110.00 MiB for 90.00 MiB to 94.00 MiB");
}

TEST(MemoryWarningsTest, AJobThatFailedMayHaveStayedBelow) {
  v1::Job job = JobWith(10 * kMiB);
  EXPECT_EQ(MemoryWarnings(job).size(), 1u);
  job.set_state(v1::JOB_STATE_FAILED);
  EXPECT_TRUE(MemoryWarnings(job).empty());
}

TEST(AddPredictionTest, PutsPredictedAndMeasuredSideBySide) {
  const v1::Job job = JobWith(91 * kMiB);
  Json json;
  AddPrediction(job.workers(0), &json);
  EXPECT_EQ(json["predicted_low_bytes"], 100 * kMiB);
  EXPECT_EQ(json["predicted_peak_bytes"], 104 * kMiB);
  EXPECT_EQ(json["categories"]["activation"]["predicted_low_bytes"], 90 * kMiB);
  EXPECT_EQ(json["categories"]["activation"]["measured_peak_bytes"], 91 * kMiB);
  EXPECT_EQ(json["categories"]["parameter"]["predicted_peak_bytes"], 10 * kMiB);
  EXPECT_EQ(PredictionText(job.workers(0)), "100.00 MiB to 104.00 MiB");
}

TEST(AddPredictionTest, AddsNothingWhereNothingWasPredicted) {
  Json json = Json::object();
  AddPrediction(v1::JobWorker(), &json);
  EXPECT_TRUE(json.empty());
  EXPECT_EQ(PredictionText(v1::JobWorker()), "");
}

}  // namespace
}  // namespace stagecoach::client

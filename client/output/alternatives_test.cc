#include "client/output/alternatives.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

job::JobSpec Spec(int64_t layers) {
  job::JobSpec spec;
  spec.name = "tiny";
  spec.model.layers = layers;
  spec.model.hidden = 32;
  spec.model.heads = 2;
  spec.data.sequence_length = 16;
  spec.pipeline.workers = 4;
  return spec;
}

std::vector<Alternative> Find(const job::JobSpec& spec) {
  const absl::StatusOr<job::JobPlan> plan = job::PlanJob(spec, nullptr);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return FindAlternatives(spec, *plan, nullptr);
}

const Alternative& Row(const std::vector<Alternative>& all,
                       const std::string& schedule, int v) {
  const auto row = std::find_if(all.begin(), all.end(), [&](const auto& one) {
    return one.schedule == schedule && one.stages_per_worker == v;
  });
  if (row != all.end()) return *row;
  static const auto* const none = new Alternative;
  ADD_FAILURE() << "no " << schedule << " with V = " << v;
  return *none;
}

TEST(AlternativesTest, TimesAreOfTheSameWorkWhateverV) {
  const std::vector<Alternative> all = Find(Spec(16));
  // (M + P - 1) (F + I + W), M = 8, P = 4.
  EXPECT_EQ(Row(all, "1f1b", 1).time, 33);
  EXPECT_EQ(Row(all, "1f1b", 1).peak_in_flight, 4);
  EXPECT_TRUE(Row(all, "1f1b", 1).this_job);
  EXPECT_EQ(Row(all, "gpipe", 1).time, 33);
  EXPECT_FALSE(Row(all, "gpipe", 1).this_job);
  // The bubble of P - 1 microbatches shrinks by V.
  EXPECT_EQ(Row(all, "interleaved", 2).time, 24 + 9.0 / 2);
  EXPECT_EQ(Row(all, "interleaved", 4).time, 24 + 9.0 / 4);
  // ZBV keeps as much as 1F1B: 2 P chunks of half a worker's layers.
  EXPECT_EQ(Row(all, "zbv", 2).activations(), 4);
  for (const Alternative& row : all) {
    EXPECT_EQ(row.refused, "") << row.schedule;
    EXPECT_GE(row.time, 24) << row.schedule;
  }
}

TEST(AlternativesTest, AutoIsNeverSlower) {
  for (const int64_t layers : {4, 8, 12}) {
    const std::vector<Alternative> all = Find(Spec(layers));
    const Alternative& automatic = all.back();
    EXPECT_EQ(automatic.schedule, "auto");
    EXPECT_NE(automatic.takes, "");
    for (const Alternative& row : all) {
      if (!row.verified()) continue;
      EXPECT_LE(automatic.time, row.time) << row.schedule;
    }
  }
}

TEST(AlternativesTest, AKindWithoutLayersForItsStagesSaysSo) {
  const std::vector<Alternative> all = Find(Spec(6));
  EXPECT_EQ(Row(all, "zbv", 2).refused,
            "needs 8 stages, but the model has 6 layers");
  EXPECT_THAT(AlternativesText(all, false),
              HasSubstr("needs 8 stages, but the model has 6 layers\n"));
  for (const Alternative& row : all) {
    if (!row.verified()) continue;
    EXPECT_EQ(row.stages_per_worker, 1) << row.schedule;
  }
}

TEST(AlternativesTest, TheJobsOwnStagesPerWorkerAreAmongThem) {
  job::JobSpec spec = Spec(24);
  spec.pipeline.schedule = "interleaved";
  spec.pipeline.stages_per_worker = 6;
  const std::vector<Alternative> all = Find(spec);
  EXPECT_TRUE(Row(all, "interleaved", 6).this_job);
  EXPECT_FALSE(Row(all, "interleaved", 4).this_job);
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const auto& row) { return row.this_job; }),
            1);
}

TEST(AlternativesTest, AScheduleFileComesFirst) {
  job::JobSpec spec = Spec(4);
  spec.training.microbatches = 1;
  spec.pipeline.schedule = testing::TempDir() + "/lists.csv";
  std::ofstream(spec.pipeline.schedule)
      << "0F0,0B0\r\n1F0,1B0\r\n2F0,2B0\r\n3F0,3B0\r\n";
  const std::vector<Alternative> all = Find(spec);
  EXPECT_EQ(all[0].schedule, spec.pipeline.schedule);
  EXPECT_TRUE(all[0].this_job);
  EXPECT_EQ(all[0].time, 12);
}

TEST(AlternativesTest, TooLargeAJobIsNotSearched) {
  job::JobSpec spec = Spec(16);
  spec.training.microbatches = 4096;
  const std::vector<Alternative> all = Find(spec);
  EXPECT_THAT(all.back().refused, HasSubstr("that are searched"));
  EXPECT_EQ(Row(all, "1f1b", 1).refused, "");
}

// ---- output -----------------------------------------------------------------

std::vector<Alternative> Rows() {
  std::vector<Alternative> rows(3);
  rows[0].schedule = "1f1b";
  rows[0].this_job = true;
  rows[0].ascending_accumulation = true;
  rows[0].time = 33;
  rows[0].bubble_ratio = 0.25;
  rows[0].peak_in_flight = 4;
  rows[1].schedule = "zbv";
  rows[1].stages_per_worker = 2;
  rows[1].refused = "needs 8 stages, but the model has 6 layers";
  rows[2].schedule = "auto";
  rows[2].stages_per_worker = 2;
  rows[2].takes = "auto";
  rows[2].max_in_flight = 5;
  rows[2].time = 27.5;
  rows[2].bubble_ratio = 0.125;
  rows[2].peak_in_flight = 5;
  return rows;
}

TEST(AlternativesJsonTest, HasEveryKey) {
  const Json json = AlternativesJson(Rows(), false);
  EXPECT_EQ(json[0].dump(),
            R"({"schedule":"1f1b","stages_per_worker":1,"this_job":true,)"
            R"("verified":true,"refused":null,"ascending_accumulation":true,)"
            R"("time":33.0,"bubble_ratio":0.25,"peak_in_flight":4,)"
            R"("activations":4.0})");
  EXPECT_EQ(json[1].dump(),
            R"({"schedule":"zbv","stages_per_worker":2,"this_job":false,)"
            R"("verified":false,)"
            R"("refused":"needs 8 stages, but the model has 6 layers",)"
            R"("ascending_accumulation":null,"time":null,)"
            R"("bubble_ratio":null,"peak_in_flight":null,"activations":null})");
  EXPECT_EQ(json[2]["takes"], "auto");
  EXPECT_EQ(json[2]["max_in_flight"], 5);
}

TEST(AlternativesTextTest, IsOneTable) {
  EXPECT_EQ(
      AlternativesText(Rows(), false),
      "schedule  V   time  bubble  peak in flight  activations  verdict\n"
      "1f1b *    1  33.00  25.0 %               4         4.00  verified\n"
      "zbv       2      -       -               -            -  needs 8 "
      "stages, but the model has 6 layers\n"
      "auto      2  27.50  12.5 %               5         2.50  verified, does "
      "not add up in ascending order; takes a list of its own with at most 5 "
      "in flight\n"
      "* this job. V: stages per worker. Time at equal costs: 1 is the forward "
      "of one\nmicrobatch through a worker's layers. In flight: stage and "
      "microbatch pairs;\nactivations: 1 is what one microbatch keeps on a "
      "worker.\n");
}

}  // namespace
}  // namespace stagecoach::client

#include "client/output/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "client/testing/sample_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CompareTest, TheSameNumbersAreEqual) {
  const Comparison comparison = Compare(SucceededJob(), SucceededJob());
  EXPECT_TRUE(comparison.equal) << comparison.difference;
  EXPECT_EQ(comparison.steps.size(), 2u);
  EXPECT_EQ(comparison.parameters, 1);
}

TEST(CompareTest, OneBitOfALossIsADifference) {
  v1::Job job = SucceededJob();
  job.mutable_steps(1)->set_loss(std::nextafter(0.1, 1.0));
  const Comparison comparison = Compare(job, SucceededJob());
  EXPECT_FALSE(comparison.equal);
  EXPECT_TRUE(comparison.steps[0].equal);
  EXPECT_FALSE(comparison.steps[1].equal);
  EXPECT_EQ(comparison.difference,
            "step 1 differs first: loss 0.10000000000000002 and "
            "0.10000000000000001, gradient norm 1.5 and 1.5");
}

TEST(CompareTest, OneBitOfAGradientNormIsADifference) {
  v1::Job job = SucceededJob();
  job.mutable_steps(0)->set_grad_norm(std::nextafter(1.5, 2.0));
  EXPECT_THAT(Compare(job, SucceededJob()).difference,
              HasSubstr("step 0 differs first"));
}

TEST(CompareTest, ZerosOfOtherSignsDifferAndTheSameNanDoesNot) {
  v1::Job job = SucceededJob();
  v1::Job reference = SucceededJob();
  job.mutable_steps(0)->set_loss(0.0);
  reference.mutable_steps(0)->set_loss(-0.0);
  EXPECT_FALSE(Compare(job, reference).equal);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  job.mutable_steps(0)->set_loss(nan);
  reference.mutable_steps(0)->set_loss(nan);
  EXPECT_TRUE(Compare(job, reference).equal);
}

TEST(CompareTest, AParameterOfOtherBytesIsNamed) {
  v1::Job job = SucceededJob();
  job.mutable_parameters(0)->set_sha256("bb");
  const Comparison comparison = Compare(job, SucceededJob());
  EXPECT_THAT(comparison.unequal_parameters,
              ElementsAre("transformer.wte.weight"));
  EXPECT_EQ(comparison.difference,
            "after step 1 parameter transformer.wte.weight differs (1 of 1 "
            "do), all losses equal");
}

TEST(CompareTest, AMissingParameterOrAnotherShapeIsADifference) {
  v1::Job job = SucceededJob();
  v1::ParameterDigest* extra = job.add_parameters();
  extra->set_name("lm_head.weight");
  EXPECT_THAT(Compare(job, SucceededJob()).unequal_parameters,
              ElementsAre("lm_head.weight"));
  job = SucceededJob();
  job.mutable_parameters(0)->set_shape(0, 32);
  job.mutable_parameters(0)->set_shape(1, 256);
  EXPECT_FALSE(Compare(job, SucceededJob()).equal);
}

TEST(CompareTest, TheStepNamesTheParameterToo) {
  v1::Job job = SucceededJob();
  job.mutable_steps(1)->set_loss(7);
  job.mutable_parameters(0)->set_sha256("bb");
  EXPECT_THAT(Compare(job, SucceededJob()).difference,
              HasSubstr("; parameter transformer.wte.weight differs"));
}

// A check that saw nothing proves nothing.
TEST(CompareTest, NothingToCompareIsNotEqual) {
  EXPECT_EQ(Compare(v1::Job(), v1::Job()).difference, "no step was reported");
  v1::Job job = SucceededJob();
  job.clear_parameters();
  EXPECT_EQ(Compare(job, job).difference, "no parameter was reported");
  v1::Job shorter = SucceededJob();
  shorter.mutable_steps()->RemoveLast();
  EXPECT_EQ(Compare(SucceededJob(), shorter).difference,
            "the job has 2 steps, the single process 1");
}

TEST(CompareTest, TheHashOfAllParametersCountsToo) {
  v1::Job job = SucceededJob();
  job.set_parameters_sha256("def");
  EXPECT_FALSE(Compare(job, SucceededJob()).equal);
}

TEST(ComparisonOutputTest, Text) {
  v1::Job job = SucceededJob();
  EXPECT_EQ(ComparisonText(Compare(job, job), job, job),
            "job             1f1b, 2 workers, release ack, transport shm, 0.75 "
            "s, parameters_sha256 abc123\n"
            "single process  1f1b, 2 workers, release ack, transport shm, 0.75 "
            "s, parameters_sha256 abc123\n"
            "\n"
            "step        loss  single process  gradient norm  single process  "
            "bits\n"
            "   0  5.54517746      5.54517746            1.5             1.5  "
            "equal\n"
            "   1         0.1             0.1            1.5             1.5  "
            "equal\n"
            "\n"
            "equal to the last bit: 2 steps, 1 parameter\n");
}

TEST(ComparisonOutputTest, LongTablesAreCutButTheDifferenceIsShown) {
  v1::Job job = SucceededJob();
  job.clear_steps();
  for (int i = 0; i < 100; ++i) *job.add_steps() = SampleStep(i, 1.0);
  v1::Job other = job;
  other.mutable_steps(50)->set_loss(2.0);
  const std::string text = ComparisonText(Compare(other, job), other, job);
  EXPECT_THAT(text, HasSubstr("  50     2               1            1.5"));
  EXPECT_THAT(text, HasSubstr(" ..."));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40);
  EXPECT_THAT(text, HasSubstr("NOT equal: step 50 differs first"));
}

TEST(ComparisonOutputTest, Json) {
  v1::Job job = SucceededJob();
  Json json = ComparisonJson(Compare(job, job), job, job);
  EXPECT_EQ(json["equal"], true);
  EXPECT_TRUE(json["difference"].is_null());
  EXPECT_TRUE(json["first_unequal_step"].is_null());
  EXPECT_EQ(json["parameters"], 1);
  EXPECT_EQ(json["steps"].size(), 2u);
  v1::Job other = job;
  other.mutable_steps(1)->set_loss(7);
  json = ComparisonJson(Compare(other, job), other, job);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["first_unequal_step"], 1);
  EXPECT_EQ(json["steps"][1]["reference_loss"], 0.1);
}

}  // namespace
}  // namespace stagecoach::client

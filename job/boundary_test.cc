#include "job/boundary.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::job {
namespace {

using ::testing::HasSubstr;

JobSpec Spec() {
  JobSpec spec;
  spec.training.microbatch_size = 2;
  spec.data.sequence_length = 32;
  spec.model.hidden = 64;
  return spec;
}

TEST(BoundaryTest, IsTheHiddenStateUnlessSaidOtherwise) {
  JobSpec spec = Spec();
  EXPECT_EQ(BoundaryOf(spec).ToString(), "float32[2, 32, 64]");
  EXPECT_EQ(BoundaryOf(spec).bytes(), 2 * 32 * 64 * 4);
  spec.training.precision = Precision::kBFloat16;
  EXPECT_EQ(BoundaryOf(spec).ToString(), "bfloat16[2, 32, 64]");
  spec.training.precision = Precision::kFloat32;
  spec.model.boundary = {5};
  EXPECT_EQ(BoundaryOf(spec).ToString(), "float32[2, 5]");
  EXPECT_EQ(BoundaryOf(spec).bytes(), 40);
}

TEST(BoundaryTest, SeveralTensorsBeginAtMultiplesOf64) {
  JobSpec spec = Spec();
  spec.model.boundaries = {"float32[3,7]", "int64[ 9 ]", "bool[]"};
  const Boundary boundary = BoundaryOf(spec);
  EXPECT_EQ(boundary.ToString(), "float32[2, 3, 7], int64[2, 9], bool[2]");
  EXPECT_EQ(boundary.OffsetOf(0), 0u);
  EXPECT_EQ(boundary.OffsetOf(1), 192u);        // 168 of the first
  EXPECT_EQ(boundary.OffsetOf(2), 192u + 192);  // 144 of the second
  EXPECT_EQ(boundary.bytes(), 192 + 192 + 2);
}

TEST(ParseBoundaryRowTest, SaysWhatIsWrong) {
  const auto error = [](const char* text) {
    return std::string(ParseBoundaryRow(text).status().message());
  };
  EXPECT_EQ(error("float32"),
            "\"float32\" has no sizes; write a tensor as \"float32[128, "
            "256]\", without its rows");
  EXPECT_THAT(error("float32[3"), HasSubstr("has no sizes"));
  EXPECT_THAT(error("[3]"), HasSubstr("begins with no type"));
  EXPECT_THAT(error("float31[3]"), HasSubstr("begins with no type"));
  for (const char* text : {"int64[0]", "int64[-1]", "int64[3,]", "int64[x]",
                           "int64[1048577]", "int64[[3]]"}) {
    EXPECT_THAT(error(text), HasSubstr("a size that is not from 1 to 1048576"))
        << text;
  }
}

}  // namespace
}  // namespace stagecoach::job

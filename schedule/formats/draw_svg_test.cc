#include "schedule/formats/draw_svg.h"

#include <string>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"

namespace stagecoach::schedule {
namespace {

using ::testing::HasSubstr;
using testing::MakeSchedule;

size_t Count(const std::string& text, const std::string& part) {
  return static_cast<size_t>(
      std::vector<std::string>(absl::StrSplit(text, part)).size() - 1);
}

TEST(DrawSvgTest, DrawsARowPerWorkerAndABoxPerAction) {
  const auto svg =
      DrawSvg(MakeSchedule(2, 1, {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"}));
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_EQ(Count(*svg, "<title>"), 8u);
  EXPECT_EQ(Count(*svg, "fill=\"url(#wait)\""), 2u);
  EXPECT_EQ(Count(*svg, "<path "), 2u);
  EXPECT_THAT(*svg, HasSubstr("<title>1B1, 5 to 7</title>"));
  EXPECT_THAT(*svg, HasSubstr("step 9,"));
  EXPECT_THAT(*svg, HasSubstr("custom, 2 workers, 1 stage each"));
}

// One colour per microbatch, its backward darker, W lighter.
TEST(DrawSvgTest, ColoursByMicrobatch) {
  const auto svg = DrawSvg(MakeSchedule(2, 1, {"0F0 0F1 0I0 0W0 0B1"}));
  ASSERT_TRUE(svg.ok()) << svg.status();
  for (const char* colour :
       {"hsl(0,75%,74%)", "hsl(138,75%,74%)", "hsl(0,75%,58%)",
        "hsl(0,75%,88%)", "hsl(138,75%,52%)"}) {
    EXPECT_EQ(Count(*svg, colour), 1u) << colour;
  }
}

// One microbatch in flight from 0 to the end: no dent where one backward ends
// and the next forward starts.
TEST(DrawSvgTest, TheCurveShowsWhatIsInFlight) {
  SvgOptions options;
  options.width = 668;  // 100 pixels per unit
  const auto svg = DrawSvg(MakeSchedule(2, 1, {"0F0 0B0 0F1 0B1"}), options);
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_THAT(*svg, HasSubstr("H52.00V142.0H352.00V142.0H652.00V262.0H652.00"));
}

TEST(DrawSvgTest, DrawsEveryKind) {
  for (const Generator& generator : Generators()) {
    GenerateOptions shape;
    shape.workers = 3;
    shape.stages_per_worker = generator.only_stages_per_worker == 0
                                  ? 2
                                  : generator.only_stages_per_worker;
    shape.microbatches = 7;
    const auto svg = DrawSvg(*Lower(*Generate(generator.kind, shape), {}));
    ASSERT_TRUE(svg.ok()) << svg.status();
    EXPECT_THAT(*svg, ::testing::EndsWith("</svg>\n"));
    EXPECT_EQ(Count(*svg, "nan"), 0u);
  }
}

TEST(DrawSvgTest, EscapesTheTitle) {
  SvgOptions options;
  options.title = "<b> & co";
  EXPECT_THAT(*DrawSvg(MakeSchedule(1, 1, {"0F0 0B0"}), options),
              HasSubstr("&lt;b&gt; &amp; co"));
}

TEST(DrawSvgTest, RefusesWhatIsNoPicture) {
  GenerateOptions shape;
  shape.workers = 64;
  shape.microbatches = 2000;
  EXPECT_THAT(DrawSvg(*Generate("gpipe", shape)).status().message(),
              HasSubstr("256000 actions"));
  EXPECT_EQ(DrawSvg(MakeSchedule(2, 1, {"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}))
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace stagecoach::schedule

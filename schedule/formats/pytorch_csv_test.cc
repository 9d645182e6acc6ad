// testdata/ was written by PyTorch 2.11.0's own schedules (make_csv.py there):
// 4 workers, 8 microbatches.

#include "schedule/formats/pytorch_csv.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/formats/formats.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/simulator.h"
#include "schedule/testing/lists.h"
#include "schedule/verifier.h"

namespace stagecoach::schedule {
namespace {

using ::testing::HasSubstr;
using testing::Join;
using testing::MakeSchedule;

std::string ReadFile(const std::string& name) {
  const char* root = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  const std::string path = absl::StrCat(
      root == nullptr ? "" : absl::StrCat(root, "/", workspace, "/"),
      "schedule/formats/testdata/", name, ".csv");
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

Schedule Read(const std::string& name) {
  auto schedule = ParsePytorchCsv(ReadFile(name));
  EXPECT_TRUE(schedule.ok()) << name << ": " << schedule.status();
  return *std::move(schedule);
}

Schedule Generated(absl::string_view kind, int v, bool published = false) {
  GenerateOptions options;
  options.workers = 4;
  options.stages_per_worker = v;
  options.microbatches = 8;
  options.published_order = published;
  return *Generate(kind, options);
}

class WrittenByPytorchTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WrittenByPytorchTest, ComputeOnlyIsReadVerifiedAndRun) {
  const Schedule schedule = Read(absl::StrCat(GetParam(), ".compute"));
  EXPECT_EQ(schedule.workers, 4);
  EXPECT_EQ(schedule.stages_per_worker, 2);
  EXPECT_EQ(schedule.microbatches, 8);
  EXPECT_FALSE(schedule.lowered());
  EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus());
  const auto lowered = Lower(schedule, {});
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Verify(*lowered).ToStatus(), absl::OkStatus());
  EXPECT_TRUE(Simulate(*lowered).ok());
}

TEST_P(WrittenByPytorchTest, WithCommunicationItIsReadVerifiedAndRun) {
  const Schedule schedule = Read(absl::StrCat(GetParam(), ".comms"));
  EXPECT_TRUE(schedule.lowered());
  EXPECT_EQ(schedule.placement,
            Read(absl::StrCat(GetParam(), ".compute")).placement);
  EXPECT_EQ(Verify(schedule).ToStatus(), absl::OkStatus());
  EXPECT_TRUE(Simulate(schedule).ok());
}

TEST_P(WrittenByPytorchTest, BothFormsComputeInTheSameOrder) {
  Schedule compute = Read(absl::StrCat(GetParam(), ".comms"));
  const auto csv = ToPytorchCsv(compute, PytorchCsvForm::kCompute);
  ASSERT_TRUE(csv.ok()) << csv.status();
  EXPECT_EQ(ParsePytorchCsv(*csv)->actions,
            Read(absl::StrCat(GetParam(), ".compute")).actions);
}

// What was read is written as it was, but for waits, overlap and parameters.
TEST_P(WrittenByPytorchTest, ReadsBackWhatItWrote) {
  for (const char* form : {".compute", ".comms"}) {
    const Schedule schedule = Read(absl::StrCat(GetParam(), form));
    const auto csv = ToPytorchCsv(schedule, schedule.lowered()
                                                ? PytorchCsvForm::kCommunication
                                                : PytorchCsvForm::kCompute);
    ASSERT_TRUE(csv.ok()) << csv.status();
    const auto again = ParsePytorchCsv(*csv);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(ToText(*again), ToText(schedule));
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, WrittenByPytorchTest,
                         ::testing::Values("looped_bfs", "interleaved_1f1b",
                                           "interleaved_zero_bubble",
                                           "zbv_zero_bubble", "dualpipe_v"));

// The generators' orders are those that PyTorch runs.
TEST(PytorchCsvTest, PublishedOrdersAreTheGenerators) {
  EXPECT_EQ(Read("looped_bfs.compute").actions,
            Generated("looped-bfs", 2, /*published=*/true).actions);
  EXPECT_EQ(Read("interleaved_1f1b.compute").actions,
            Generated("interleaved", 2).actions);
  EXPECT_EQ(Read("zbv_zero_bubble.compute").actions,
            Generated("zbv", 2).actions);
  EXPECT_EQ(Read("dualpipe_v.compute").actions,
            Generated("dualpipe-v", 2).actions);
  EXPECT_EQ(Read("gpipe.compute").actions, Generated("gpipe", 1).actions);
}

// Schedule1F1B.pipeline_order, last row: 3F1,3B0,3F2,...,3F8,3B7.
TEST(PytorchCsvTest, TheWrongLastRankOf1F1BIsRefusedWithTheReason) {
  const std::string csv = ReadFile("1f1b.compute");
  const auto refused = ParsePytorchCsv(csv);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("4:57: the last rank runs microbatches 1 to 8 where "
                        "the others run 0 to 7: microbatch 8 does not exist"));
  EXPECT_THAT(refused.status().message(),
              HasSubstr("Schedule1F1B.pipeline_order"));
  // Numbered rightly it is 1F1B.
  std::string right = csv;
  for (int m = 1; m <= 8; ++m) {
    right = absl::StrReplaceAll(
        right, {{absl::StrCat("3F", m), absl::StrCat("3F", m - 1)}});
  }
  EXPECT_EQ(ParsePytorchCsv(right)->actions, Generated("1f1b", 1).actions);
}

TEST(PytorchCsvTest, EveryGeneratorIsWrittenAndReadBack) {
  for (const Generator& generator : Generators()) {
    if (!generator.trains) continue;
    const int v = generator.only_stages_per_worker == 0
                      ? 2
                      : generator.only_stages_per_worker;
    const Schedule lowered = *Lower(Generated(generator.kind, v), {});
    const auto csv = ToPytorchCsv(lowered, PytorchCsvForm::kCommunication);
    ASSERT_TRUE(csv.ok()) << csv.status();
    const auto read = ParsePytorchCsv(*csv);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->actions, lowered.actions) << generator.kind;
    EXPECT_EQ(read->placement, lowered.placement) << generator.kind;
    EXPECT_EQ(Verify(*read).ToStatus(), absl::OkStatus()) << generator.kind;
  }
}

TEST(PytorchCsvTest, RowsAreWrittenAsPythonsCsvWriterDoes) {
  const Schedule schedule =
      *Lower(MakeSchedule(1, 1, {"0F0 0I0 0W0", "1F0 1B0"}), {});
  EXPECT_EQ(*ToPytorchCsv(schedule, PytorchCsvForm::kCompute),
            "0F0,0I0,0W0\r\n1F0,1B0\r\n");
  EXPECT_EQ(*ToPytorchCsv(schedule, PytorchCsvForm::kCommunication),
            "0F0,0SEND_F0,0RECV_B0,0I0,0W0\r\n"
            "1RECV_F0,1F0,1B0,1SEND_B0\r\n");
  EXPECT_EQ(ToPytorchCsv(MakeSchedule(1, 1, {"0F0 0B0"}),
                         PytorchCsvForm::kCommunication)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PytorchCsvTest, OverlapIsItsTwoActionsAndWaitsAreNone) {
  const auto schedule = ParsePytorchCsv(
      "0UNSHARD,0F0,,0F1,(0F2;0B0)OVERLAP_F_B, 0B1,0B2,0REDUCE_GRAD,0RESHARD");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(Join(schedule->actions[0]), "0F0 0F1 0F2 0B0 0B1 0B2");
}

TEST(PytorchCsvTest, IsRecognisedByItsFirstBytes) {
  const auto schedule = ParseAny(ReadFile("zbv_zero_bubble.comms"), "zbv.csv");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->workers, 4);
  EXPECT_THAT(ParseAny("0F0,0B0\n0X0", "f.csv").status().message(),
              HasSubstr("f.csv:2:1: \"0X0\" is not an action"));
}

std::string Refusal(absl::string_view csv) {
  const auto schedule = ParsePytorchCsv(csv);
  EXPECT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument)
      << csv;
  return std::string(schedule.status().message());
}

TEST(PytorchCsvTest, BadInputIsRefusedWithItsPlace) {
  EXPECT_THAT(Refusal(""), HasSubstr("1:1: there is no row"));
  EXPECT_THAT(Refusal("0F0,0B0\r\n\r\n1F0"),
              HasSubstr("2:1: the row has no action"));
  EXPECT_THAT(Refusal("0F0,0B0\n0F1"),
              HasSubstr("2:1: 0F1: stage 0 is on worker 0 (line 1) already"));
  EXPECT_THAT(Refusal("0F0,0B0,2F0,2B0"), HasSubstr("stage 1 is on no row"));
  EXPECT_THAT(Refusal("0F0,1F0\n2F0"),
              HasSubstr("row 2 has 1 stages and row 1 has 2"));
  EXPECT_THAT(Refusal("0F0,2147483647F0"), HasSubstr("1:5: "));
  EXPECT_THAT(Refusal("0F0,0F2147483647"), HasSubstr("out of range"));
  EXPECT_THAT(Refusal("0F0,0AWAIT_RELEASE_F0"),
              HasSubstr("1:5: \"0AWAIT_RELEASE_F0\" is not an action of "
                        "PyTorch's"));
  EXPECT_THAT(Refusal("0F0,(0F1;0B0)OVERLAP"), HasSubstr("is not an action"));
  EXPECT_THAT(Refusal("0F0,(0F1;0B0"), HasSubstr("is not an action"));
  EXPECT_THAT(Refusal("0F0,()OVERLAP_F_B"), HasSubstr("is not an action"));
  EXPECT_THAT(Refusal("0F0,\"0B0\""), HasSubstr("is not an action"));
  // A receive without its send.
  EXPECT_THAT(Refusal("0F0,0RECV_B0,0B0\n1F0,1B0"),
              HasSubstr("w0 waits at its action 1, 0RECV_B0"));
}

// Cut anywhere: refused, or read without harm; never a crash.
TEST(PytorchCsvTest, CutFilesDoNoHarm) {
  const std::string csv = ReadFile("dualpipe_v.comms");
  for (size_t size = 0; size < csv.size(); size += 7) {
    const auto schedule = ParsePytorchCsv(csv.substr(0, size));
    if (schedule.ok()) Verify(*schedule);
  }
}

}  // namespace
}  // namespace stagecoach::schedule

#include "schedule/formats/formats.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "schedule/testing/lists.h"
#include "stagecoach/v1/schedule.pb.h"

namespace stagecoach::schedule {
namespace {

using testing::MakeSchedule;
using testing::SplitBackward;

void ExpectSame(const Schedule& a, const Schedule& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.workers, b.workers);
  EXPECT_EQ(a.stages_per_worker, b.stages_per_worker);
  EXPECT_EQ(a.microbatches, b.microbatches);
  EXPECT_EQ(a.placement, b.placement);
  EXPECT_EQ(a.actions, b.actions);
  EXPECT_EQ(a.send_budget, b.send_budget);
  ASSERT_EQ(a.edges.size(), b.edges.size());
  for (size_t e = 0; e < a.edges.size(); ++e) {
    EXPECT_EQ(a.edges[e].edge, b.edges[e].edge);
    EXPECT_EQ(a.edges[e].receive_depth, b.edges[e].receive_depth);
    EXPECT_EQ(a.edges[e].pool_slots, b.edges[e].pool_slots);
  }
}

// Generated ones before and after lowering, a split backward, empty lists.
std::vector<Schedule> Samples() {
  std::vector<Schedule> samples;
  LoweringOptions lower;
  lower.tied_embeddings = true;
  for (const Generator& generator : Generators()) {
    for (const int workers : {1, 3}) {
      GenerateOptions options;
      options.workers = workers;
      options.stages_per_worker = generator.only_stages_per_worker == 0
                                      ? 2
                                      : generator.only_stages_per_worker;
      options.microbatches = 12;
      samples.push_back(*Generate(generator.kind, options));
      samples.push_back(*Lower(samples.back(), lower));
    }
  }
  samples.push_back(
      *Lower(SplitBackward(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"})), lower));
  samples.push_back(MakeSchedule(1, 1, {"", ""}));
  samples.push_back(MakeSchedule(1, 1, {""}));
  samples.back().kind = "";
  return samples;
}

struct Form {
  std::string name;
  std::function<std::string(const Schedule&)> write;
  std::function<absl::StatusOr<Schedule>(absl::string_view)> read;
};

class FormatsTest : public ::testing::TestWithParam<Form> {};

TEST_P(FormatsTest, ReadsBackExactlyWhatItWrote) {
  for (const Schedule& sample : Samples()) {
    const std::string written = GetParam().write(sample);
    const auto read = GetParam().read(written);
    ASSERT_TRUE(read.ok()) << read.status() << "\n" << written;
    ExpectSame(*read, sample);
    EXPECT_EQ(GetParam().write(*read), written);
  }
}

TEST_P(FormatsTest, IsRecognisedByItsFirstBytes) {
  for (const Schedule& sample : Samples()) {
    const auto read = ParseAny(GetParam().write(sample), "file");
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSame(*read, sample);
  }
}

TEST_P(FormatsTest, CutAnywhereItIsRefused) {
  for (const Schedule& sample : Samples()) {
    const std::string written = GetParam().write(sample);
    if (written.size() > 2500) continue;  // the time is quadratic
    // Both of these forms may end in white space.
    const size_t whole = written.find_last_not_of('\n') + 1;
    const size_t end = GetParam().name == "Protobuf" ? written.size() : whole;
    for (size_t size = 0; size < end; ++size) {
      ASSERT_FALSE(GetParam().read(written.substr(0, size)).ok())
          << size << " of " << written.size() << " bytes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, FormatsTest,
    ::testing::Values(Form{"Text", ToText, ParseText},
                      Form{"Json", ToJson, ParseJson},
                      Form{"Protobuf", ToProtoBytes, ParseProtoBytes}),
    [](const ::testing::TestParamInfo<Form>& form) { return form.param.name; });

TEST(TextFormatTest, IsReadable) {
  const Schedule schedule =
      *Lower(MakeSchedule(1, 1, {"0F0 0B0", "1F0 1B0"}), {});
  EXPECT_EQ(ToText(schedule),
            "stagecoach-schedule 1 kind=custom workers=2 stages_per_worker=1 "
            "microbatches=1 send_budget=2\n"
            "placement 0 1\n"
            "edge 0->1 activation receive_depth=2 pool_slots=3\n"
            "edge 1->0 gradient receive_depth=2 pool_slots=3\n"
            "worker 0: 0F0 0AWAIT_RELEASE_F0 0SEND_F0 0RECV_B0 0B0\n"
            "worker 1: 1RECV_F0 1F0 1B0 1AWAIT_RELEASE_B0 1SEND_B0\n"
            "end\n");
}

TEST(TextFormatTest, SkipsCommentsEmptyLinesAndCarriageReturns) {
  const auto schedule = ParseText(
      "stagecoach-schedule 1 kind=custom workers=1 stages_per_worker=1 "
      "microbatches=1 send_budget=0\r\n"
      "# where the stages are\r\n"
      "\n"
      "  placement\t0\r\n"
      "worker 0:   0F0\t0B0  \r\n"
      "end\r\n"
      "# that was it\n");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->actions[0].size(), 2u);
}

TEST(ProtobufFormatTest, MessageAndBytesCarryTheSame) {
  for (const Schedule& sample : Samples()) {
    v1::Schedule proto;
    ToProto(sample, &proto);
    EXPECT_EQ(proto.version(), 1);
    const auto schedule = FromProto(proto);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    ExpectSame(*schedule, sample);
    // As another program would write it.
    const auto bytes = ParseAny(proto.SerializeAsString(), "file");
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ExpectSame(*bytes, sample);
  }
}

}  // namespace
}  // namespace stagecoach::schedule

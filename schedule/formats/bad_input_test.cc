#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/formats/check.h"
#include "schedule/formats/formats.h"
#include "schedule/formats/testing/check_parsed.h"
#include "schedule/generator.h"
#include "schedule/lowering.h"
#include "stagecoach/v1/schedule.pb.h"

namespace stagecoach::schedule {
namespace {

using ::testing::HasSubstr;

Schedule Sample() {
  GenerateOptions options;
  options.workers = 2;
  options.microbatches = 2;
  return *Lower(*Generate("1f1b", options), {});
}

std::string Refusal(const absl::StatusOr<Schedule>& schedule) {
  EXPECT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(schedule.status().message());
}

// One place in a good schedule is replaced; the error's place and words.
struct BadCase {
  const char* from;
  const char* to;
  const char* error;
};

class BadTextTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadTextTest, IsRefusedWithItsPlace) {
  const std::string good = ToText(Sample());
  const std::string bad =
      absl::StrReplaceAll(good, {{GetParam().from, GetParam().to}});
  ASSERT_NE(bad, good) << GetParam().from;
  EXPECT_THAT(Refusal(ParseText(bad)), HasSubstr(GetParam().error)) << bad;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadTextTest,
    ::testing::Values(
        BadCase{"stagecoach-schedule 1", "stagecoach-schedule 2",
                "1:21: version \"2\" is not known; this program reads version "
                "1"},
        BadCase{"stagecoach-schedule", "schedule",
                "1:1: expected \"stagecoach-schedule\""},
        BadCase{"kind=1f1b", "kind=a/b",
                "1:23: a schedule's kind has at most 64"},
        BadCase{"kind=1f1b ", "", "1:23: expected \"kind=...\""},
        BadCase{"workers=2", "workers=0", "1:33: workers is \"0\""},
        BadCase{"workers=2", "workers=70000", "1:33: at most 65536 workers"},
        BadCase{"microbatches=2", "microbatches=two",
                "microbatches is \"two\"; it must be a whole number, 1 or"},
        BadCase{"send_budget=2", "send_budget=2 color=red",
                "unexpected \"color=red\""},
        BadCase{"send_budget=2", "send_budget=-1", "send_budget is \"-1\""},
        BadCase{"placement 0 1", "placement 0 2",
                "2:13: \"2\" is not a worker; workers are 0 to 1"},
        BadCase{"placement 0 1", "placement 0", "2:12: placement has 1 stages"},
        BadCase{"edge 0->1", "edge 0-1", "3:6: expected two workers"},
        BadCase{"edge 0->1", "edge 0->7", "worker 7 is out of range"},
        BadCase{"activation", "forward",
                "3:11: expected \"activation\" or \"gradient\""},
        BadCase{"edge 1->0 gradient", "edge 0->1 activation",
                "4:11: edges must ascend"},
        BadCase{"edge 1->0 gradient receive_depth=2 pool_slots=3\n", "",
                "4:73: 0RECV_B0: uses edge 1->0 gradient, which is not among"},
        BadCase{"worker 0:", "worker 1:", "5:8: expected \"0:\""},
        BadCase{"worker 0: 0F0", "worker 0: 0X0",
                "5:11: \"0X0\" is not an action"},
        BadCase{"worker 0: 0F0", "worker 0: 2F0",
                "5:11: 2F0: stage 2 is out of range; stages are 0 to 1"},
        BadCase{"worker 0: 0F0", "worker 0: 0F2",
                "5:11: 0F2: microbatch 2 is out of range"},
        BadCase{"worker 0: 0F0", "worker 0: 1SEND_F0",
                "5:11: 1SEND_F0: stage 1 has no neighbour"},
        BadCase{"worker 1:", "helper 1:", "6:1: \"helper\" is not known"},
        BadCase{"end\n", "", "7:1: the text ends before its \"end\" line"},
        BadCase{"end\n", "end\nend\n", "8:1: nothing may follow"},
        BadCase{"end\n", "worker 2: \nend\n",
                "7:1: all 2 workers have a line already"}));

class BadJsonTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadJsonTest, IsRefusedWithItsPlace) {
  const std::string good = ToJson(Sample());
  const std::string bad =
      absl::StrReplaceAll(good, {{GetParam().from, GetParam().to}});
  ASSERT_NE(bad, good) << GetParam().from;
  EXPECT_THAT(Refusal(ParseJson(bad)), HasSubstr(GetParam().error)) << bad;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadJsonTest,
    ::testing::Values(
        BadCase{"\"version\": 1", "\"version\": 2",
                "3:14: this version is not known"},
        BadCase{"\"version\": 1", "\"version\": 1.0",
                "3:14: this version is not known"},
        BadCase{"\"stagecoach-schedule\"", "\"other\"",
                "2:13: \"format\" must be"},
        BadCase{"\"kind\": \"1f1b\"", "\"kind\": 7", "4:11: \"kind\" must be"},
        BadCase{"\"workers\": 2", "\"workers\": \"2\"",
                "5:14: \"workers\" must be a whole number from 1 to 65536"},
        BadCase{"\"workers\": 2", "\"workers\": 18446744073709551615",
                "5:14: \"workers\" must be"},
        BadCase{"\"workers\": 2", "\"workers\": 2, \"colour\": [[1]]",
                "5:17: unknown member; known are format, version"},
        BadCase{"\"workers\": 2", "\"workers\": 2, \"workers\": 2",
                "5:17: \"workers\" is there twice"},
        BadCase{"\"microbatches\": 2,", "", "1:1: \"microbatches\" is missing"},
        BadCase{"\"placement\": [0, 1]", "\"placement\": [0, 5]",
                "9:20: not a worker; workers are 0 to 1"},
        BadCase{"\"placement\": [0, 1]", "\"placement\": {}",
                "9:16: \"placement\" must be an array"},
        BadCase{"\"direction\": \"gradient\"", "\"direction\": \"back\"",
                "\"direction\" must be \"activation\" or \"gradient\""},
        BadCase{"\"from\": 1", "\"from\": 2",
                "12:14: \"from\" must be a whole number from 0 to 1"},
        BadCase{"\"1F1\"", "\"1G1\"", "not an action"},
        BadCase{"[\"0F0\"", "[\"0F9\"",
                "14:6: 0F9: microbatch 9 is out of range"},
        BadCase{"[\"0F0\"", "[null", "14:6: not an action"},
        BadCase{"[\"0F0\"", "[[\"0F0\"]", "14:6: not an action"},
        BadCase{"[\"0F0\"", "[{\"0F0\": [1]}", "14:6: not an action"},
        BadCase{"\"actions\": [", "\"actions\": [7,",
                "13:15: expected a list of actions"},
        BadCase{"\"actions\": [", "\"actions\": [{\"a\": [\"0F0\"]},",
                "13:15: expected a list of actions"},
        BadCase{"\"actions\": [", "\"actions\": {}, \"lists\": [",
                "unknown member"},
        BadCase{"\"actions\": [", "\"actions\": [[],",
                "\"actions\" must be an array of 2 lists"},
        BadCase{"\"send_budget\": 2", "\"send_budget\": 0",
                "an edge, but send_budget is 0"},
        BadCase{"\"version\": 1", "\"version\": 1e999",
                "1:1: not JSON: [json.exception.out_of_range.406] number "
                "overflow parsing '1e999'"},
        BadCase{"\n}", "\n} x", "not JSON"}));

TEST(BadJsonTest, DeepNestingIsRefusedNotOverflowed) {
  EXPECT_THAT(Refusal(ParseJson("{\"workers\":" + std::string(200000, '[') +
                                std::string(200000, ']') + "}")),
              HasSubstr("is missing"));
  EXPECT_THAT(Refusal(ParseJson(std::string(200000, '['))),
              HasSubstr("not JSON"));
}

TEST(BadProtobufTest, IsRefusedByField) {
  v1::Schedule good;
  ToProto(Sample(), &good);
  const auto refusal = [&good](auto change) {
    v1::Schedule bad = good;
    change(&bad);
    return Refusal(FromProto(bad));
  };
  using P = v1::Schedule*;
  EXPECT_THAT(refusal([](P p) { p->set_version(2); }),
              HasSubstr("version: 2 is not known"));
  EXPECT_THAT(refusal([](P p) { p->set_workers(3); }),
              HasSubstr("placement has 2 stages"));
  EXPECT_THAT(refusal([](P p) { p->set_placement(1, -1); }),
              HasSubstr("puts stage 1 on worker -1"));
  EXPECT_THAT(refusal([](P p) { p->mutable_actions()->RemoveLast(); }),
              HasSubstr("actions: 1 lists for 2 workers"));
  EXPECT_THAT(refusal([](P p) {
                p->mutable_actions(1)->set_kind(
                    0, static_cast<v1::ActionKind>(12));
              }),
              HasSubstr("actions[1].kind[0]: 12 is not known"));
  EXPECT_THAT(refusal([](P p) { p->mutable_actions(1)->set_stage(0, -1); }),
              HasSubstr("actions[1] action 0: -1RECV_F0: stage -1 is out"));
  EXPECT_THAT(refusal([](P p) { p->mutable_actions(0)->add_stage(0); }),
              HasSubstr("actions[0]: kind, stage and microbatch differ"));
  EXPECT_THAT(refusal([](P p) {
                p->mutable_edges(0)->mutable_edge()->set_direction(
                    v1::DIRECTION_UNSPECIFIED);
              }),
              HasSubstr("edges[0].edge.direction: not known"));
  EXPECT_THAT(refusal([](P p) { p->mutable_edges()->RemoveLast(); }),
              HasSubstr("is not among the edges"));
  EXPECT_THAT(refusal([](P p) {
                p->GetReflection()->MutableUnknownFields(p)->AddVarint(99, 1);
              }),
              HasSubstr("field number 99 is not known"));
}

TEST(BadFileTest, IsRefusedWithTheFilesName) {
  EXPECT_THAT(Refusal(ParseAny("hello\n", "my.sched")),
              HasSubstr("my.sched:1:1: not a schedule: expected a line"));
  EXPECT_THAT(Refusal(ParseAny("", "my.sched")), HasSubstr("my.sched:1:1:"));
  EXPECT_THAT(Refusal(ParseAny("stagecoach-schedule 9\n", "a.txt")),
              HasSubstr("a.txt:1:21: version"));
  EXPECT_THAT(Refusal(ParseAny("{}", "a.json")), HasSubstr("a.json:1:1:"));
  EXPECT_THAT(Refusal(ParseAny(std::string("\x08\x01\x12\xff", 4), "a.pb")),
              HasSubstr("a.pb:1:1: not a protobuf schedule, or not all of it"));
}

// The limit is found out where the list exceeds it: no input is as large in
// memory as it claims to be.
TEST(TooLongTest, OneActionTooManyIsRefused) {
  Schedule header = Sample();
  header.actions.clear();
  formats::ActionCheck check(header);
  Action action;
  action.stage = StageIndex(0);
  action.microbatch = MicrobatchIndex(0);
  int64_t accepted = 0;
  while (check.Problem(action).empty()) ++accepted;
  EXPECT_EQ(accepted, kMaxActions);
  EXPECT_THAT(check.Problem(action),
              HasSubstr("0F0: one action more than the limit of 64000000"));
}

TEST(TooLongTest, NumbersOfAMessageAreCountedBeforeItIsParsed) {
  const std::string bytes(3 * kMaxActions + (size_t{1} << 24) + 1, '\x08');
  EXPECT_THAT(Refusal(ParseProtoBytes(bytes)), HasSubstr("more numbers"));
}

TEST(TooLongTest, APlacementLongerThanItsStagesIsNotReadToItsEnd) {
  EXPECT_THAT(Refusal(ParseText("stagecoach-schedule 1 kind=custom workers=2 "
                                "stages_per_worker=1 microbatches=1 "
                                "send_budget=0\nplacement 0 1 0 x")),
              HasSubstr("2:15: placement has 3 stages"));
}

// What fuzz targets demand, of damaged schedules of each form.
TEST(BadFileTest, RandomDamageIsRefusedOrStillASchedule) {
  const uint32_t seed = 3;
  std::mt19937 random(seed);
  for (const std::string& good :
       {ToText(Sample()), ToJson(Sample()), ToProtoBytes(Sample())}) {
    for (int i = 0; i < 3000; ++i) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", case " << i);
      std::string bad = good;
      for (int n = std::uniform_int_distribution<int>(1, 3)(random); n > 0;
           --n) {
        const size_t at = random() % bad.size();
        if (random() % 2 == 0) {
          bad[at] = static_cast<char>(random());
        } else {
          bad.erase(at, random() % 8);
        }
        if (bad.empty()) break;
      }
      testing::CheckParsed(ParseAny(bad, "damaged"));
    }
  }
}

}  // namespace
}  // namespace stagecoach::schedule

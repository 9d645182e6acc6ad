// `schedule verify` on files that are broken on purpose, each in the one way
// that its name says.

#include <ostream>
#include <string>

#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

struct BrokenFile {
  const char* file;
  const char* kind;     // of the error
  const char* message;  // part of it: worker, action, what it waits for
};

std::ostream& operator<<(std::ostream& out, const BrokenFile& broken) {
  return out << broken.file;
}

class BrokenScheduleTest : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenScheduleTest, IsRefusedInWords) {
  const std::string file = GetParam().file;
  const ClientResult result =
      RunClient({"schedule", "verify", file, "-o", "json"});
  EXPECT_EQ(result.exit_code, 2);
  const Json errors = result.document()["errors"];
  ASSERT_EQ(errors.size(), 1u) << errors;
  EXPECT_EQ(errors[0]["kind"], GetParam().kind);
  EXPECT_THAT(errors[0]["message"].get<std::string>(),
              HasSubstr(GetParam().message));
  // What people read: the file, and where in it if it cannot be read.
  EXPECT_THAT(result.error, HasSubstr(file + ":"));
  EXPECT_THAT(result.error, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    WhatTheVerifierFinds, BrokenScheduleTest,
    ::testing::Values(
        BrokenFile{"schedule/testdata/broken/receives_swapped_on_one_edge.txt",
                   "edge_order",
                   "edge 0->1 activation: transfer 0 is sent by w0: 0SEND_F0 "
                   "but received by w1: 1RECV_F1; receive in the order of "
                   "sending"},
        BrokenFile{
            "schedule/testdata/broken/receives_swapped_between_neighbours.txt",
            "deadlock",
            "w0 at 2RECV_B0 waits for w1 to come to 3SEND_B0, "
            "w1 at 1RECV_B0 waits for w0 to come to 2SEND_B0; "
            "no send_budget or receive_depth gets past this; reorder"},
        BrokenFile{"schedule/testdata/broken/receive_after_its_use.txt",
                   "order", "w1: 1F1 comes before 1RECV_F1, which it needs"},
        BrokenFile{"schedule/testdata/broken/receive_depth_too_small.txt",
                   "deadlock",
                   "w0 at 0AWAIT_RELEASE_F3 waits for w1 to come to 1RECV_F2, "
                   "w1 at 1AWAIT_RELEASE_F1 waits for w0 to come to 2RECV_F0; "
                   "the smallest that is live: receive_depth 1 on every edge "
                   "with send_budget 1, or send_budget 2 with the depths as "
                   "they are"},
        BrokenFile{"schedule/testdata/broken/send_budget_too_small.txt",
                   "deadlock",
                   "w0 at 0AWAIT_RELEASE_F7 waits for w1 to come to 1RECV_F4, "
                   "w1 at 1AWAIT_RELEASE_F3 waits for w0 to come to 2RECV_F0; "
                   "the smallest that is live: receive_depth 3 on every edge "
                   "with send_budget 1, or send_budget 2"}));

INSTANTIATE_TEST_SUITE_P(
    WhatCannotBeRead, BrokenScheduleTest,
    ::testing::Values(
        BrokenFile{"schedule/testdata/broken/one_edge_for_both_directions.txt",
                   "parse",
                   ".txt:7:166: 2AWAIT_RELEASE_B0: uses edge 0->1 gradient, "
                   "which is not among the edges"},
        BrokenFile{"schedule/testdata/broken/one_edge_planned_twice.txt",
                   "parse", ".txt:5:11: edges must ascend"},
        BrokenFile{"schedule/testdata/broken/cut_short.txt", "parse",
                   ".txt:7:1: the text ends before its \"end\" line"},
        BrokenFile{"schedule/testdata/broken/cut_short.json", "parse",
                   ".json:15:112: not JSON: "},
        BrokenFile{"schedule/testdata/broken/unknown_version.txt", "parse",
                   ".txt:1:21: version \"9\" is not known"},
        BrokenFile{"schedule/testdata/broken/unknown_action.txt", "parse",
                   ".txt:7:68: \"1Q1\" is not an action"},
        BrokenFile{"schedule/testdata/broken/stage_out_of_range.json", "parse",
                   ".json:15:77: 4F1: stage 4 is out of range; stages are 0 "
                   "to 1"},
        BrokenFile{"schedule/testdata/broken/worker_out_of_range.txt", "parse",
                   ".txt:3:13: \"2\" is not a worker; workers are 0 to 1"},
        BrokenFile{"schedule/formats/testdata/1f1b.compute.csv", "parse",
                   ".csv:4:57: the last rank runs microbatches 1 to 8 where "
                   "the others run 0 to 7: microbatch 8 does not exist"}));

}  // namespace
}  // namespace stagecoach::client

#include "client/output/memory_output.h"

#include "client/testing/sample_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

constexpr char kFirstWorker[] = R"({
  "worker": "w0",
  "step": 37,
  "allocated_bytes": {
    "current": 4194304,
    "peak": 8388608,
    "allocated": 41943040,
    "freed": 37748736
  },
  "reserved_bytes": {
    "current": 8388608,
    "peak": 16777216,
    "allocated": 83886080,
    "freed": 75497472
  },
  "active_bytes": {
    "current": 4194304,
    "peak": 8388608,
    "allocated": 41943040,
    "freed": 37748736
  },
  "cached_bytes": 4194304,
  "categories": {
    "parameter": {
      "current": 3145728,
      "peak": 6291456
    },
    "activation": {
      "current": 1048576,
      "peak": 2097152
    }
  },
  "stages": [
    {
      "stage": 0,
      "activation_bytes": 1048576,
      "sent_bytes": 16777216,
      "released_bytes": 10485760,
      "retained_bytes": 4194304,
      "discarded_bytes": 1048576,
      "pending_bytes": 1048576,
      "retained": [
        {
          "op": "TanhBackward0",
          "bytes": 4194304
        }
      ],
      "outputs_held_bytes": 2097152,
      "outputs_held_peak_bytes": 3145728
    }
  ],
  "pending_acknowledgement": {
    "transfers": 1,
    "bytes": 1048576,
    "oldest_seconds": 0.125
  },
  "acknowledgements": {
    "accepted": 1200,
    "duplicate": 1,
    "stale_epoch": 2,
    "unknown": 3
  },
  "outputs_held_peak_bytes": 3145728,
  "receive_pool_bytes": 2097152,
  "retained_now_bytes": 1048576
}
)";

TEST(MemoryStatsJsonTest, HasEveryKeyOfTheContract) {
  const Json json = MemoryStatsJson(SampleMemoryStats());
  EXPECT_EQ(json["job_id"], "j-1");
  ASSERT_EQ(json["workers"].size(), 2u);
  EXPECT_EQ(Dump(json["workers"][0]), kFirstWorker);
  EXPECT_EQ(json["silent_workers"].dump(), R"(["w2"])");
}

TEST(MemoryStatsJsonTest, UnknownFiguresAreAbsentAndNotZero) {
  const Json worker = MemoryStatsJson(SampleMemoryStats())["workers"][1];
  EXPECT_TRUE(worker["step"].is_null());
  EXPECT_TRUE(worker.contains("allocated_bytes"));
  EXPECT_FALSE(worker.contains("reserved_bytes"));
  EXPECT_FALSE(worker.contains("active_bytes"));
  EXPECT_FALSE(worker.contains("cached_bytes"));
  EXPECT_FALSE(worker["categories"].contains("activation"));
}

constexpr char kText[] =
    R"(job j-1

worker  step  allocated      peak  reserved    cached  receive pool  retained now
w0        37   4.00 MiB  8.00 MiB  8.00 MiB  4.00 MiB      2.00 MiB      1.00 MiB
w1         -   1.00 MiB  2.00 MiB         -         -           0 B           0 B
---------------------------------------------------------------------------------
total          5.00 MiB                                    2.00 MiB      1.00 MiB

worker  parameter  gradient  optimizer  activation  wire_send  wire_receive  workspace  other
w0       3.00 MiB         -          -    1.00 MiB          -             -          -      -
w1       1.00 MiB         -          -           -          -             -          -      -
---------------------------------------------------------------------------------------------
total    4.00 MiB       0 B        0 B    1.00 MiB        0 B           0 B        0 B    0 B

worker  stage  activations       sent   released  retained  discarded   pending      held  held peak  retained by
w0          0     1.00 MiB  16.00 MiB  10.00 MiB  4.00 MiB   1.00 MiB  1.00 MiB  2.00 MiB   3.00 MiB  TanhBackward0 4.00 MiB
----------------------------------------------------------------------------------------------------------------------------
total             1.00 MiB  16.00 MiB  10.00 MiB  4.00 MiB   1.00 MiB  1.00 MiB  2.00 MiB

worker  unacknowledged     bytes  oldest  accepted  duplicate  stale epoch  unknown
w0                   1  1.00 MiB  0.12 s     1,200          1            2        3
w1                   0       0 B       -         0          0            0        0
-----------------------------------------------------------------------------------
total                1  1.00 MiB             1,200          1            2        3

no answer from w2
)";

TEST(MemoryStatsTextTest, FourTablesWithTotals) {
  EXPECT_EQ(MemoryStatsText(SampleMemoryStats()), kText);
}

TEST(MemoryStatsTextTest, WithoutWorkersNothingFails) {
  v1::GetMemoryStatsResponse response;
  response.set_job_id("j-9");
  EXPECT_THAT(MemoryStatsText(response), HasSubstr("job j-9"));
}

}  // namespace
}  // namespace stagecoach::client

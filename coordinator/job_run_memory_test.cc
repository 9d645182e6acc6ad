#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/job_run.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"
#include "job/memory_proto.h"

namespace stagecoach::coordinator {
namespace {

constexpr int64_t kResident = 5000;
constexpr int64_t kRetained = 100000;

// A worker that holds one stage.
v1::WorkerMemoryProfile ProfileOf(int stage) {
  job::WorkerMemoryProfile profile;
  profile.resident.Add(MemoryCategory::kParameter, kResident);
  job::StageMemory memory;
  memory.stage = StageIndex(stage);
  memory.retained.Add(MemoryCategory::kActivation, kRetained);
  memory.forward_peak = memory.retained;
  profile.stages.push_back(memory);
  v1::WorkerMemoryProfile proto;
  job::ToProto(profile, &proto);
  return proto;
}

// Two workers under 1F1B: the first has two microbatches in flight.
class JobRunMemoryTest : public ::testing::Test {
 protected:
  void Make(int64_t limit) {
    job::JobSpec spec = TinyJob(2);
    spec.memory.limit_bytes = limit;
    auto planned = PlanForWorkers(spec, nullptr, job::PlanJob);
    ASSERT_TRUE(planned.ok()) << planned.status();
    std::vector<JobRun::Member> members(2);
    members[0] = {"a", Incarnation(10), "127.0.0.1:1"};
    members[1] = {"b", Incarnation(11), "127.0.0.1:2"};
    run_ = std::make_unique<JobRun>(
        "job-1", Epoch(1), TinySpec(2),
        std::make_shared<const PlannedJob>(*std::move(planned)),
        std::move(members));
  }
  JobRun::Output Say(int worker, const v1::WorkerMessage& message) {
    return run_->OnMessage(worker, message, absl::UnixEpoch());
  }
  // Up to the last Connected, whose output is returned.
  JobRun::Output Connect(bool measured) {
    run_->Start();
    for (int w = 0; w < 2; ++w) {
      v1::WorkerMessage message;
      message.mutable_assigned()->set_receive_pool_bytes(100);
      if (measured) {
        *message.mutable_assigned()->mutable_memory_profile() = ProfileOf(w);
      }
      Say(w, message);
    }
    v1::WorkerMessage connected;
    connected.mutable_connected();
    Say(0, connected);
    return Say(1, connected);
  }

  std::unique_ptr<JobRun> run_;
};

TEST_F(JobRunMemoryTest, RecordsThePredictionBeforeTheFirstStep) {
  Make(0);
  const JobRun::Output output = Connect(true);
  ASSERT_TRUE(output.status.ok()) << output.status;
  ASSERT_EQ(output.events.size(), 2u);
  const auto* predicted = std::get_if<MemoryPredicted>(&output.events[0]);
  ASSERT_NE(predicted, nullptr);
  EXPECT_TRUE(std::holds_alternative<JobRunning>(output.events[1]));
  ASSERT_EQ(predicted->workers.size(), 2u);
  EXPECT_EQ(predicted->workers[0].low().total(),
            kResident + 100 + 2 * kRetained);
  EXPECT_EQ(predicted->workers[1].low().total(), kResident + 100 + kRetained);
  EXPECT_EQ(run_->phase(), JobRun::Phase::kStepping);
}

TEST_F(JobRunMemoryTest, WorkersThatMeasureNothingGetNoPrediction) {
  Make(1);
  const JobRun::Output output = Connect(false);
  ASSERT_EQ(output.events.size(), 1u);
  EXPECT_FALSE(output.over_limit.has_value());
  EXPECT_EQ(run_->phase(), JobRun::Phase::kStepping);
}

TEST_F(JobRunMemoryTest, BeginsNoStepThatCannotKeepTheLimit) {
  Make(kResident + 100 + 2 * kRetained - 1);
  const JobRun::Output output = Connect(true);
  ASSERT_TRUE(output.over_limit.has_value());
  EXPECT_EQ(output.over_limit->worker, 0);
  EXPECT_TRUE(output.messages.empty());
  ASSERT_EQ(output.events.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<MemoryPredicted>(output.events[0]));
  EXPECT_EQ(run_->phase(), JobRun::Phase::kConnecting);
  // It is said once.
  v1::WorkerMessage other;
  other.mutable_released();
  EXPECT_FALSE(Say(1, other).over_limit.has_value());
}

// GPipe has no fewer in flight than 1F1B on the first worker, and more on the
// last.
TEST_F(JobRunMemoryTest, AnotherScheduleMustKeepTheLimitToo) {
  Make(kResident + 50000 + 2 * kRetained);
  ASSERT_FALSE(Connect(true).over_limit.has_value());
  job::JobSpec spec = TinyJob(2);
  spec.pipeline.schedule = "gpipe";
  spec.training.microbatches = 3;
  auto gpipe = PlanForWorkers(spec, nullptr, job::PlanJob);
  ASSERT_TRUE(gpipe.ok()) << gpipe.status();
  const absl::Status status = run_->CheckMemory(*gpipe);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(run_->CheckMemory(run_->planned()).ok());
}

TEST_F(JobRunMemoryTest, ALimitAtTheLowEndIsTried) {
  Make(kResident + 100 + 2 * kRetained);
  EXPECT_FALSE(Connect(true).over_limit.has_value());
  EXPECT_EQ(run_->phase(), JobRun::Phase::kStepping);
}

}  // namespace
}  // namespace stagecoach::coordinator

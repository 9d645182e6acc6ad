// Registration, fences and silence.
#include <memory>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/controller_fixture.h"
#include "coordinator/scripted_worker.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

class ControllerSessionsTest : public ControllerTest {
 protected:
  v1::ListWorkersResponse List() {
    v1::ListWorkersResponse result;
    controller_->ListWorkers(Versioned<v1::ListWorkersRequest>(),
                             [&](auto reply) { result = *reply; });
    RunAll();
    return result;
  }
};

TEST_F(ControllerSessionsTest, WelcomesWithTermAndHeartbeat) {
  JoinMany(1);
  ASSERT_EQ(Received(worker(0)), "welcome");
  EXPECT_EQ(worker(0).received[0].welcome().term(), 1);
  EXPECT_EQ(worker(0).received[0].welcome().heartbeat_milliseconds(), 500);
  EXPECT_FALSE(worker(0).closed.has_value());
}

TEST_F(ControllerSessionsTest, NameOfALiveWorkerIsRefused) {
  Join("w0");
  auto second = Join("w0");
  ASSERT_TRUE(second->closed.has_value());
  EXPECT_EQ(second->closed->code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(absl::StrContains(second->closed->message(), "4711"));
  EXPECT_TRUE(second->received.empty());
  EXPECT_FALSE(worker(0).closed.has_value());
}

TEST_F(ControllerSessionsTest, NameOfALostWorkerIsFree) {
  Join("w0");
  Disconnect(worker(0));
  EXPECT_EQ(List().workers(0).state(), v1::WORKER_STATE_DEAD);
  auto second = Join("w0");
  EXPECT_EQ(Received(*second), "welcome");
  EXPECT_EQ(List().workers_size(), 1);
  EXPECT_EQ(List().workers(0).state(), v1::WORKER_STATE_IDLE);
  EXPECT_EQ(List().workers(0).incarnation(), second->incarnation);
}

// A process that was stopped, counted as dead, and goes on.
TEST_F(ControllerSessionsTest, AWokenProcessMayRegisterAgainButSaysNothingOld) {
  JoinMany(1);
  Submit(TinySpec(1));
  Serve("begin");
  Pass(absl::Seconds(6));
  ASSERT_TRUE(worker(0).closed.has_value());
  // What was on its way on the old stream.
  Say(worker(0), *AnswerTo(worker(0), worker(0).received.back()));
  EXPECT_EQ(controller_->refused().unregistered, 1);
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_FAILED);
  auto again = Connect();
  again->name = "w0";
  again->incarnation = worker(0).incarnation;
  again->epoch = 1;
  // What it had not said yet may come first on the new stream.
  v1::WorkerMessage released;
  released.mutable_released();
  Say(*again, released);
  EXPECT_EQ(controller_->refused().unregistered, 2);
  SayUnfenced(*again, ScriptedRegistration("w0", again->incarnation, "2.11"));
  EXPECT_EQ(Received(*again), "welcome");
  Say(*again, released);
  EXPECT_EQ(controller_->refused().stale_epoch, 1);
  EXPECT_TRUE(controller_->state().FindWorker("w0")->idle());
}

TEST_F(ControllerSessionsTest, ReplacedProcessCannotComeBackUnderItsName) {
  JoinMany(1);
  Pass(absl::Seconds(6));
  Join("w0");
  auto old = Connect();
  SayUnfenced(*old, ScriptedRegistration("w0", worker(0).incarnation, "2.11"));
  EXPECT_EQ(old->closed->code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ControllerSessionsTest, AnotherProtocolIsRefusedWithBothVersions) {
  auto link = Connect();
  v1::WorkerMessage message = ScriptedRegistration("w0", 5, "2.11");
  message.mutable_register_()->mutable_version()->set_version("7.0.0");
  message.mutable_register_()->mutable_version()->set_protocol(7);
  SayUnfenced(*link, message);
  ASSERT_TRUE(link->closed.has_value());
  EXPECT_EQ(link->closed->code(), absl::StatusCode::kFailedPrecondition);
  const std::string ours = absl::StrCat("protocol ", kProtocolVersion, ")");
  for (const std::string& words :
       {std::string("7.0.0"), std::string("protocol 7"), ours,
        std::string("w0")}) {
    EXPECT_TRUE(absl::StrContains(link->closed->message(), words))
        << *link->closed;
  }
}

TEST_F(ControllerSessionsTest, BadNamesAndMissingIncarnationsAreRefused) {
  for (const std::string& name : {std::string(), std::string("a b"),
                                  std::string("a\n"), std::string(129, 'x')}) {
    auto link = Connect();
    SayUnfenced(*link, ScriptedRegistration(name, 5, ""));
    EXPECT_EQ(link->closed->code(), absl::StatusCode::kInvalidArgument);
  }
  auto link = Connect();
  SayUnfenced(*link, ScriptedRegistration("w0", 0, ""));
  EXPECT_EQ(link->closed->code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ControllerSessionsTest, RegisteringTwiceInOneSessionEndsIt) {
  JoinMany(1);
  SayUnfenced(worker(0),
              ScriptedRegistration("w0", worker(0).incarnation, "2.11"));
  EXPECT_TRUE(worker(0).closed.has_value());
  EXPECT_TRUE(controller_->state().FindWorker("w0")->dead);
}

TEST_F(ControllerSessionsTest, MessagesOfAnotherFenceChangeNothing) {
  JoinMany(2);
  Submit(TinySpec(2));
  const std::string before = controller_->state().DebugString();
  v1::WorkerMessage message = *AnswerTo(worker(0), worker(0).received.back());
  const auto fence = [&](int64_t term, int64_t epoch, uint64_t incarnation) {
    message.mutable_fence()->set_term(term);
    message.mutable_fence()->set_epoch(epoch);
    message.mutable_fence()->set_incarnation(incarnation);
    SayUnfenced(worker(0), message);
  };
  const uint64_t incarnation = worker(0).incarnation;
  fence(0, 1, incarnation);
  fence(2, 1, incarnation);
  EXPECT_EQ(controller_->refused().stale_term, 2);
  fence(1, 0, incarnation);
  fence(1, 2, incarnation);
  EXPECT_EQ(controller_->refused().stale_epoch, 2);
  fence(1, 1, incarnation + 1);
  fence(1, 1, 0);
  EXPECT_EQ(controller_->refused().stale_incarnation, 2);
  EXPECT_EQ(List().refused().old_term(), 2);
  EXPECT_EQ(List().refused().other_epoch(), 2);
  EXPECT_EQ(List().refused().other_incarnation(), 2);
  EXPECT_EQ(controller_->state().DebugString(), before);
  // With the right one it counts.
  Serve();
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerSessionsTest, AnswersOfAnEarlierPlacementAreRefused) {
  JoinMany(1);
  Submit(TinySpec(1));
  Submit(TinySpec(1));
  Serve("begin:1");
  Cancel("job-1");
  worker(0).answered = worker(0).received.size() - 1;
  Serve("begin");  // job-2 has begun
  EXPECT_EQ(worker(0).epoch, 2);
  v1::WorkerMessage late;
  late.mutable_prepared()->set_step(1);
  worker(0).epoch = 1;
  Say(worker(0), late);
  EXPECT_EQ(controller_->refused().stale_epoch, 1);
  worker(0).epoch = 2;
  Serve();
  EXPECT_EQ(StateOf("job-2"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(ControllerSessionsTest, ListsTheWaysThatAWorkerHasAndWhyNotTheOthers) {
  JoinMany(1);
  const v1::ListWorkersResponse workers = List();
  ASSERT_EQ(workers.workers(0).paths_size(), 2);
  EXPECT_EQ(workers.workers(0).paths(0).transport(), "nccl");
  EXPECT_EQ(workers.workers(0).paths(0).obstacle(), "no GPU");
  EXPECT_EQ(workers.workers(0).paths(1).transport(), "shm");
  EXPECT_EQ(workers.workers(0).paths(1).obstacle(), "");
  Disconnect(worker(0));
  EXPECT_EQ(List().workers(0).paths_size(), 0);
}

TEST_F(ControllerSessionsTest, SuspectWorkersGetNoJobUntilTheyAnswer) {
  JoinMany(1);
  Pass(absl::Seconds(2));
  EXPECT_EQ(List().workers(0).state(), v1::WORKER_STATE_SUSPECT);
  EXPECT_DOUBLE_EQ(List().workers(0).seconds_since_heartbeat(), 2);
  Submit(TinySpec(1));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_QUEUED);
  Beat(worker(0));
  EXPECT_EQ(StateOf("job-1"), v1::JOB_STATE_PLACING);
}

TEST_F(ControllerSessionsTest, IdleWorkersDieOfSilenceToo) {
  JoinMany(2);
  Pass(absl::Seconds(6), AllBut({0}));
  EXPECT_TRUE(worker(0).closed.has_value());
  EXPECT_FALSE(worker(1).closed.has_value());
  EXPECT_EQ(List().workers(0).state(), v1::WORKER_STATE_DEAD);
  EXPECT_EQ(List().workers(0).reason(), "no heartbeat for 6s");
  EXPECT_EQ(List().workers(1).state(), v1::WORKER_STATE_IDLE);
}

TEST_F(ControllerSessionsTest, AnyMessageIsASignOfLife) {
  JoinMany(1);
  v1::WorkerMessage report;
  report.mutable_memory_report();
  for (int i = 0; i < 5; ++i) {
    Pass(absl::Seconds(1.9));
    Say(worker(0), report);
  }
  EXPECT_FALSE(worker(0).closed.has_value());
}

// The coordinator itself was stopped for a minute: nobody was silent.
TEST_F(ControllerSessionsTest, AStandstillOfTheCoordinatorKillsNobody) {
  JoinMany(1);
  clock_.Advance(absl::Minutes(1));
  Pass(absl::Seconds(1));
  EXPECT_FALSE(worker(0).closed.has_value());
  EXPECT_FALSE(controller_->state().FindWorker("w0")->suspect);
  Pass(absl::Seconds(6));
  EXPECT_TRUE(worker(0).closed.has_value());
}

// Stands still like SimulatedClock; the calendar's time is another one each
// time it is asked for, by up to ten years.
class JumpingClock final : public Clock {
 public:
  explicit JumpingClock(const Clock* steady) : steady_(steady) {}
  absl::Time Now() const override { return steady_->Now(); }
  absl::Time WallNow() const override {
    return absl::FromUnixSeconds(1'700'000'000) +
           absl::Hours(static_cast<int>(random_() % 175'200) - 87'600);
  }

 private:
  const Clock* const steady_;
  mutable std::mt19937 random_{1};
};

TEST_F(ControllerSessionsTest, JumpsOfTheCalendarsClockChangeNothing) {
  JumpingClock jumping(&clock_);
  controller_ = std::make_unique<Controller>(options_, &jumping, &executor_,
                                             &planning_, &journal_);
  JoinMany(3);
  Submit(TinySpec(2, 6));
  for (int step = 0; step < 5; ++step) {
    Serve(absl::StrCat("begin:", step));
    Pass(absl::Seconds(3), AllBut({}));
    ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_RUNNING);
  }
  // Who is silent is found as always, and nobody else.
  Pass(absl::Seconds(5.9), AllBut({2}));
  EXPECT_FALSE(worker(2).closed.has_value());
  Pass(absl::Seconds(0.2), AllBut({2}));
  EXPECT_TRUE(worker(2).closed.has_value());
  Serve();
  ASSERT_EQ(StateOf("job-1"), v1::JOB_STATE_SUCCEEDED);
  const v1::Job job = *Get("job-1");
  ASSERT_EQ(job.steps_size(), 6);
  for (const v1::StepResult& step : job.steps()) {
    EXPECT_GE(step.seconds(), 0);
    EXPECT_LE(step.seconds(), 10);
  }
  controller_.reset();
}

TEST_F(ControllerSessionsTest, ConnectionThatNeverRegistersIsEnded) {
  auto link = Connect();
  Pass(absl::Seconds(9.9));
  EXPECT_FALSE(link->closed.has_value());
  Pass(absl::Seconds(0.1));
  EXPECT_EQ(link->closed->code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ControllerSessionsTest, UnregisteredConnectionMayJustEnd) {
  auto link = Connect();
  Disconnect(*link);
  EXPECT_TRUE(List().workers().empty());
  Beat(*link);
  EXPECT_EQ(controller_->refused().unregistered, 1);
}

TEST_F(ControllerSessionsTest, UnknownMessagesAreIgnored) {
  JoinMany(1);
  Say(worker(0), v1::WorkerMessage());
  EXPECT_FALSE(worker(0).closed.has_value());
}

TEST_F(ControllerSessionsTest, WorkersAreListedWithWhatTheyHold) {
  JoinMany(3);
  Submit(TinySpec(2));
  const v1::ListWorkersResponse workers = List();
  ASSERT_EQ(workers.workers_size(), 3);
  EXPECT_EQ(workers.workers(1).id(), "w1");
  EXPECT_EQ(workers.workers(1).state(), v1::WORKER_STATE_BUSY);
  EXPECT_EQ(workers.workers(1).job_id(), "job-1");
  ASSERT_EQ(workers.workers(1).stages_size(), 1);
  EXPECT_EQ(workers.workers(1).stages(0), 1);
  EXPECT_EQ(workers.workers(1).host(), "host");
  EXPECT_EQ(workers.workers(1).process_id(), 4711);
  EXPECT_EQ(workers.workers(2).state(), v1::WORKER_STATE_IDLE);
}

TEST_F(ControllerSessionsTest, CoordinatorTellsItsVersionToAnyClient) {
  v1::GetCoordinatorResponse response;
  controller_->GetCoordinator(v1::GetCoordinatorRequest(),
                              [&](auto reply) { response = *reply; });
  RunAll();
  EXPECT_EQ(response.protocol(), kProtocolVersion);
  EXPECT_EQ(response.term(), 1);
  EXPECT_FALSE(response.version().empty());
}

TEST_F(ControllerSessionsTest, StopEndsSessionsAndAnswersRequests) {
  JoinMany(1);
  Submit(TinySpec(1));
  Serve("begin");
  const std::string before = controller_->state().DebugString();
  controller_->Stop(absl::UnavailableError("going down"));
  RunAll();
  EXPECT_EQ(worker(0).closed->code(), absl::StatusCode::kUnavailable);
  Disconnect(worker(0));
  auto late = Connect();
  EXPECT_EQ(late->closed->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Get("job-1").status().code(), absl::StatusCode::kUnavailable);
  Pass(absl::Seconds(20));
  // The job is not lost by it: the next life may go on with it.
  EXPECT_EQ(controller_->state().DebugString(), before);
}

TEST(ValidateTimesTest, TimesMustIncrease) {
  EXPECT_TRUE(ValidateTimes(ControllerOptions()).ok());
  const auto check = [](int heartbeat, int suspect, int dead) {
    ControllerOptions options;
    options.heartbeat = absl::Milliseconds(heartbeat);
    options.suspect = absl::Milliseconds(suspect);
    options.dead = absl::Milliseconds(dead);
    return ValidateTimes(options).code();
  };
  EXPECT_EQ(check(1, 2, 3), absl::StatusCode::kOk);
  EXPECT_EQ(check(2, 2, 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check(1, 3, 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check(0, 2, 3), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stagecoach::coordinator

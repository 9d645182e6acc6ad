#include "stage_worker/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "job/plan.h"
#include "job/spec_proto.h"
#include "memory/accounting_allocator.h"
#include "schedule/formats/formats.h"
#include "stage_worker/engine/synthetic/synthetic_engine.h"
#include "stage_worker/testing/placement_rig.h"
#include "transport/loopback/loopback.h"

namespace stagecoach::worker {
namespace {

constexpr int64_t kTerm = 5;
constexpr int64_t kEpoch = 2;
constexpr uint64_t kIncarnation = 77;

class OneTokenData final : public DataSource {
 public:
  absl::StatusOr<TokenBatch> Read(StepIndex, MicrobatchIndex) override {
    TokenBatch batch;
    batch.rows = 2;
    batch.sequence_length = 4;
    batch.inputs.assign(8, 1);
    batch.targets.assign(8, 2);
    return batch;
  }
  int64_t samples() const override { return 1; }
};

// A session whose two executors run when the test says, one worker, no peers.
class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : spec_(RigSpec(1, "gpipe", 2)) {
    SessionOptions options;
    options.worker = "w0";
    options.incarnation = Incarnation(kIncarnation);
    options.parts.allocator = &allocator_;
    options.parts.clock = &clock_;
    Transport loopback;
    loopback.kind = "loopback";
    loopback.factory = [this](const transport::EndpointOptions& endpoint) {
      return hub_.NewEndpoint(endpoint);
    };
    options.parts.transports = {loopback};
    options.parts.data_factory =
        [](const job::JobSpec&) -> absl::StatusOr<std::unique_ptr<DataSource>> {
      return std::make_unique<OneTokenData>();
    };
    options.parts.engine_factory = [this](const EngineOptions& engine)
        -> absl::StatusOr<std::unique_ptr<StageEngine>> {
      if (!build_status_.ok()) return build_status_;
      SyntheticOptions synthetic = synthetic_;
      if (!synthetic.before_action) {
        synthetic.before_action = [this](const schedule::Action& action) {
          if (synthetic_order_ != nullptr) {
            *synthetic_order_ += schedule::ToString(action) + " ";
          }
          return absl::OkStatus();
        };
      }
      return NewSyntheticEngine(synthetic, &allocator_, engine);
    };
    options.executor = &executor_;
    options.engine = &engine_;
    options.files = &files_;
    options.directory = &directory_;
    options.logs = &logs_;
    options.send = [this](v1::WorkerMessage message) {
      sent_.push_back(std::move(message));
    };
    options.on_welcome = [this](int64_t milliseconds) {
      heartbeat_ = milliseconds;
    };
    options.on_shutdown = [this](const std::string&) { shutdown_ = true; };
    session_ = std::make_shared<Session>(options);
    Deliver([](v1::CoordinatorMessage* message) {
      message->mutable_fence()->set_epoch(0);
      message->mutable_welcome()->set_term(kTerm);
      message->mutable_welcome()->set_heartbeat_milliseconds(250);
    });
  }

  // Fills in the fence before `fill` may change it.
  void Deliver(const std::function<void(v1::CoordinatorMessage*)>& fill) {
    v1::CoordinatorMessage message;
    message.mutable_fence()->set_term(kTerm);
    message.mutable_fence()->set_epoch(kEpoch);
    message.mutable_fence()->set_incarnation(kIncarnation);
    fill(&message);
    delivered_.push_back(message);
    session_->OnMessage(message);
  }
  // All that has come so far comes again, in any order, but for Welcome, which
  // begins another session.
  void DeliverAgain(std::mt19937* random) {
    std::vector<v1::CoordinatorMessage> again = delivered_;
    std::shuffle(again.begin(), again.end(), *random);
    for (const v1::CoordinatorMessage& message : again) {
      if (!message.has_welcome()) session_->OnMessage(message);
    }
  }
  void RunEverything() {
    while (engine_.RunAll() + executor_.RunAll() + files_.RunAll() > 0) {
    }
  }
  void Assign(int64_t epoch = kEpoch) {
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_fence()->set_epoch(epoch);
      v1::Assign* assign = message->mutable_assign();
      assign->set_job_id("j1");
      job::ToProto(spec_, assign->mutable_spec());
      const job::JobPlan plan = job::PlanJob(spec_, nullptr).value();
      assign->set_schedule_id("s1");
      schedule::ToProto(plan.schedule, assign->mutable_schedule());
      if (plan.evaluation.workers > 0) {
        schedule::ToProto(plan.evaluation, assign->mutable_evaluation());
      }
      v1::AssignedStage* stage = assign->add_stages();
      stage->set_layer_end(spec_.model.layers);
      v1::JobPeer* peer = assign->add_peers();
      peer->set_worker("w0");
      peer->set_incarnation(kIncarnation);
      assign->set_checkpoint(checkpoint_);
      assign->set_slot_bytes(plan.boundary.bytes());
    });
  }
  void Profile(bool measure) {
    Deliver([&](v1::CoordinatorMessage* message) {
      v1::Profile* profile = message->mutable_profile();
      profile->set_job_id("j1");
      profile->set_measure(measure);
      job::ToProto(spec_, profile->mutable_spec());
    });
  }
  void Connect() {
    Deliver([](v1::CoordinatorMessage* message) {
      message->mutable_connect()->set_job_id("j1");
    });
  }
  void StepBegin(int64_t step) {
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_step_begin()->set_step(step);
      message->mutable_step_begin()->set_target_tokens(16);
    });
  }
  static v1::StepCommit OutcomeOf(int64_t step) {
    v1::StepCommit outcome;
    outcome.set_step(step);
    outcome.set_clip_factor(1);
    outcome.set_learning_rate(0.1);
    return outcome;
  }
  void Commit(int64_t step) {
    Deliver([&](v1::CoordinatorMessage* message) {
      *message->mutable_step_commit() = OutcomeOf(step);
    });
  }
  // With the outcome of the step before.
  void CommitAndBegin(int64_t step) {
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_step_begin()->set_step(step);
      message->mutable_step_begin()->set_target_tokens(16);
      *message->mutable_step_begin()->mutable_outcome() = OutcomeOf(step - 1);
    });
  }
  void Abort() {
    Deliver([](v1::CoordinatorMessage* message) {
      message->mutable_abort()->set_reason("test");
    });
  }
  // The next message to the coordinator; MESSAGE_NOT_SET if there is none.
  v1::WorkerMessage Next() {
    if (sent_.empty()) return v1::WorkerMessage();
    v1::WorkerMessage message = std::move(sent_.front());
    sent_.pop_front();
    return message;
  }
  // Ends the job; the hashes of its parameters.
  std::string Finish() {
    Deliver([](v1::CoordinatorMessage* message) { message->mutable_finish(); });
    RunEverything();
    const v1::WorkerMessage finished = Next();
    EXPECT_GT(finished.finished().parameters_size(), 0);
    std::string digests;
    for (const auto& parameter : finished.finished().parameters()) {
      absl::StrAppend(&digests, parameter.name(), " ", parameter.sha256(),
                      "\n");
    }
    return digests;
  }
  // A session in which another job may begin.
  void Welcome() {
    Deliver([](v1::CoordinatorMessage* message) {
      message->mutable_fence()->set_epoch(0);
      message->mutable_welcome()->set_term(kTerm);
    });
  }
  void GetReady() {
    Assign();
    RunEverything();
    ASSERT_TRUE(Next().has_assigned());
    Connect();
    RunEverything();
    ASSERT_TRUE(Next().has_connected());
    ASSERT_EQ(session_->state(), SessionState::kReady);
  }

  job::JobSpec spec_;
  std::string checkpoint_;
  SyntheticOptions synthetic_;
  std::string* synthetic_order_ = nullptr;  // actions are appended if set
  absl::Status build_status_;
  SimulatedClock clock_;
  memory::AccountingAllocator allocator_;
  transport::LoopbackHub hub_;
  ManualExecutor executor_;
  ManualExecutor engine_;
  ManualExecutor files_;
  PeerDirectory directory_;
  JobLogs logs_;
  std::vector<v1::CoordinatorMessage> delivered_;
  std::deque<v1::WorkerMessage> sent_;
  int64_t heartbeat_ = 0;
  bool shutdown_ = false;
  std::shared_ptr<Session> session_;
};

TEST_F(SessionTest, TakesTheHeartbeatOfTheWelcome) {
  EXPECT_EQ(heartbeat_, 250);
}

TEST_F(SessionTest, RunsAJobFromAssignToFinish) {
  GetReady();
  for (int64_t step = 0; step < 2; ++step) {
    StepBegin(step);
    RunEverything();
    const v1::WorkerMessage prepared = Next();
    ASSERT_TRUE(prepared.has_prepared());
    EXPECT_EQ(prepared.prepared().step(), step);
    EXPECT_EQ(prepared.prepared().losses_size(), 2);
    EXPECT_EQ(prepared.fence().epoch(), kEpoch);
    EXPECT_EQ(prepared.fence().term(), kTerm);
    EXPECT_EQ(prepared.fence().incarnation(), kIncarnation);
    Commit(step);
    RunEverything();
    ASSERT_TRUE(Next().has_applied());
  }
  Deliver([](v1::CoordinatorMessage* message) { message->mutable_finish(); });
  RunEverything();
  const v1::WorkerMessage finished = Next();
  ASSERT_TRUE(finished.has_finished());
  EXPECT_GT(finished.finished().memory().allocated_bytes().peak(), 0);
  EXPECT_EQ(session_->state(), SessionState::kIdle);
  EXPECT_FALSE(directory_.Find("j1", Epoch(kEpoch)).ok());
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

TEST_F(SessionTest, TheNextStepMayComeBeforeTheUpdateIsApplied) {
  GetReady();
  StepBegin(0);
  RunEverything();
  ASSERT_TRUE(Next().has_prepared());
  Commit(0);
  StepBegin(1);
  RunEverything();
  EXPECT_EQ(Next().prepared().step(), 1) << "which says that 0 is applied";
  EXPECT_TRUE(sent_.empty());
}

TEST_F(SessionTest, AStepMayBringTheOutcomeOfTheOneBefore) {
  GetReady();
  for (int64_t step = 0; step < 3; ++step) {
    StepBegin(step);
    RunEverything();
    ASSERT_TRUE(Next().has_prepared());
    Commit(step);
    RunEverything();
    ASSERT_TRUE(Next().has_applied());
  }
  const std::string apart = Finish();
  Welcome();
  GetReady();
  StepBegin(0);
  RunEverything();
  ASSERT_TRUE(Next().has_prepared());
  for (int64_t step = 1; step < 3; ++step) {
    CommitAndBegin(step);
    RunEverything();
    EXPECT_EQ(Next().prepared().step(), step);
    EXPECT_TRUE(sent_.empty()) << "what is prepared is applied before";
  }
  Commit(2);
  RunEverything();
  EXPECT_EQ(Next().applied().step(), 2);
  EXPECT_EQ(Finish(), apart);
}

TEST_F(SessionTest, TakesAnotherScheduleBetweenTwoSteps) {
  GetReady();
  StepBegin(0);
  RunEverything();
  ASSERT_TRUE(Next().has_prepared());
  Commit(0);
  RunEverything();
  ASSERT_TRUE(Next().has_applied());
  job::JobSpec other = spec_;
  other.pipeline.schedule = "1f1b";
  const job::JobPlan plan = job::PlanJob(other, nullptr).value();
  Deliver([&](v1::CoordinatorMessage* message) {
    message->mutable_reschedule()->set_job_id("j1");
    message->mutable_reschedule()->set_schedule_id("s2");
    schedule::ToProto(plan.schedule,
                      message->mutable_reschedule()->mutable_schedule());
  });
  EXPECT_EQ(session_->state(), SessionState::kBuilding);
  RunEverything();
  EXPECT_TRUE(Next().has_assigned());
  Connect();
  RunEverything();
  ASSERT_TRUE(Next().has_connected());
  // Each microbatch's backward follows its forward now.
  std::string actions;
  synthetic_order_ = &actions;
  StepBegin(1);
  RunEverything();
  ASSERT_TRUE(Next().has_prepared());
  EXPECT_EQ(actions, "0F0 0B0 0F1 0B1 ");
}

TEST_F(SessionTest, EvaluatesBeforeAStepAndBeforeTheEnd) {
  spec_.evaluation.path = "/held-out.txt";
  spec_.evaluation.microbatches = 3;
  std::string actions;
  synthetic_order_ = &actions;
  GetReady();
  Deliver([](v1::CoordinatorMessage* message) {
    message->mutable_step_begin()->set_target_tokens(16);
    message->mutable_step_begin()->set_evaluate(true);
  });
  RunEverything();
  const v1::WorkerMessage prepared = Next();
  ASSERT_TRUE(prepared.has_prepared());
  EXPECT_EQ(prepared.prepared().evaluation_losses_size(), 3);
  EXPECT_EQ(prepared.prepared().losses_size(), 2);
  EXPECT_EQ(actions.substr(0, 16), "0F0 0F1 0F2 0F0 ");
  Commit(0);
  RunEverything();
  ASSERT_TRUE(Next().has_applied());
  Deliver([](v1::CoordinatorMessage* message) {
    message->mutable_finish()->set_evaluate(true);
  });
  RunEverything();
  const v1::WorkerMessage finished = Next();
  ASSERT_TRUE(finished.has_finished());
  EXPECT_EQ(finished.finished().evaluation_losses_size(), 3);
  EXPECT_NE(finished.finished().evaluation_losses(0).loss_sum(),
            prepared.prepared().evaluation_losses(0).loss_sum())
      << "the update lies between them";
}

class SessionCheckpointTest : public SessionTest {
 protected:
  SessionCheckpointTest() {
    spec_.checkpoint.directory = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(spec_.checkpoint.directory);
  }
  void RunStep(int64_t step) {
    StepBegin(step);
    RunEverything();
    ASSERT_TRUE(Next().has_prepared());
    Commit(step);
  }
  void WriteCheckpoint(int64_t step) {
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_write_checkpoint()->set_step(step);
    });
  }
  // Writes and seals one; its path.
  std::string Store(int64_t step) {
    WriteCheckpoint(step);
    RunEverything();
    EXPECT_TRUE(Next().has_applied());
    const v1::WorkerMessage written = Next();
    EXPECT_TRUE(written.has_checkpoint_written());
    EXPECT_EQ(written.checkpoint_written().error(), "");
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_seal_checkpoint()->set_step(step);
      *message->mutable_seal_checkpoint()->mutable_files() =
          written.checkpoint_written().files();
    });
    RunEverything();
    const v1::WorkerMessage sealed = Next();
    EXPECT_TRUE(sealed.has_checkpoint_sealed());
    EXPECT_EQ(sealed.checkpoint_sealed().error(), "");
    EXPECT_EQ(sealed.checkpoint_sealed().step(), step);
    return sealed.checkpoint_sealed().path();
  }
};

TEST_F(SessionCheckpointTest, AJobGoesOnFromWhatWasStored) {
  GetReady();
  RunStep(0);
  checkpoint_ = Store(1);
  RunStep(1);
  RunEverything();
  ASSERT_TRUE(Next().has_applied());
  const std::string undisturbed = Finish();
  Welcome();
  GetReady();
  RunStep(1);
  RunEverything();
  ASSERT_TRUE(Next().has_applied());
  EXPECT_EQ(Finish(), undisturbed);
}

TEST_F(SessionCheckpointTest, TheCopyIsOfItsBoundaryThoughStepsGoOn) {
  GetReady();
  RunStep(0);
  WriteCheckpoint(1);
  StepBegin(1);
  while (engine_.RunAll() + executor_.RunAll() > 0) {
  }
  ASSERT_TRUE(Next().has_prepared()) << "no waiting for the disk";
  Commit(1);
  while (engine_.RunAll() + executor_.RunAll() > 0) {
  }
  ASSERT_TRUE(Next().has_applied());
  EXPECT_TRUE(sent_.empty());
  RunEverything();
  const v1::WorkerMessage late = Next();
  ASSERT_TRUE(late.has_checkpoint_written());

  // The same, written before the next step.
  Abort();
  RunEverything();
  ASSERT_TRUE(Next().has_released());
  Welcome();
  GetReady();
  RunStep(0);
  WriteCheckpoint(1);
  RunEverything();
  ASSERT_TRUE(Next().has_applied());
  const v1::WorkerMessage early = Next();
  ASSERT_EQ(late.checkpoint_written().files_size(),
            early.checkpoint_written().files_size());
  for (int i = 0; i < late.checkpoint_written().files_size(); ++i) {
    EXPECT_EQ(late.checkpoint_written().files(i).sha256(),
              early.checkpoint_written().files(i).sha256());
  }
}

TEST_F(SessionCheckpointTest, AnAbortedJobWritesNoMore) {
  GetReady();
  RunStep(0);
  WriteCheckpoint(1);
  while (engine_.RunAll() + executor_.RunAll() > 0) {
  }
  ASSERT_TRUE(Next().has_applied());
  Abort();
  RunEverything();
  EXPECT_TRUE(Next().has_released());
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

TEST_F(SessionCheckpointTest, SaysWhyItCouldNotWrite) {
  std::ofstream(spec_.checkpoint.directory) << "a file";
  GetReady();
  RunStep(0);
  WriteCheckpoint(1);
  RunEverything();
  ASSERT_TRUE(Next().has_applied());
  const v1::WorkerMessage written = Next();
  ASSERT_TRUE(written.has_checkpoint_written());
  EXPECT_TRUE(absl::StrContains(written.checkpoint_written().error(),
                                "cannot make the folder"))
      << written.checkpoint_written().error();
  EXPECT_EQ(session_->state(), SessionState::kReady) << "the job goes on";
}

TEST_F(SessionCheckpointTest, ACheckpointThatIsNotThereFailsTheBuild) {
  checkpoint_ = spec_.checkpoint.directory + "/step-00000001";
  Assign();
  RunEverything();
  const v1::WorkerMessage failed = Next();
  ASSERT_TRUE(failed.has_failed());
  EXPECT_TRUE(absl::StrContains(failed.failed().message(), "step-00000001"))
      << failed.failed().message();
}

TEST_F(SessionTest, PublishesItsDescriptorWhilePlaced) {
  Assign();
  RunEverything();
  const auto entry = directory_.Find("j1", Epoch(kEpoch));
  ASSERT_TRUE(entry.ok());
  EXPECT_TRUE(entry->endpoints.empty());  // one worker has no edges
  EXPECT_TRUE(absl::IsFailedPrecondition(
      directory_.Find("j1", Epoch(kEpoch - 1)).status()));
  EXPECT_TRUE(
      absl::IsNotFound(directory_.Find("j1", Epoch(kEpoch + 1)).status()));
}

TEST_F(SessionTest, RefusesAndCountsMessagesOfOtherLives) {
  GetReady();
  Deliver([](v1::CoordinatorMessage* message) {
    message->mutable_fence()->set_term(kTerm - 1);
    message->mutable_step_begin();
  });
  Deliver([](v1::CoordinatorMessage* message) {
    message->mutable_fence()->set_epoch(kEpoch + 1);
    message->mutable_step_begin();
  });
  Deliver([](v1::CoordinatorMessage* message) {
    message->mutable_fence()->set_incarnation(kIncarnation + 1);
    message->mutable_step_begin();
  });
  Assign(kEpoch);  // not newer than what is held
  RunEverything();
  EXPECT_EQ(session_->state(), SessionState::kReady);
  EXPECT_EQ(session_->refused().old_term, 1);
  EXPECT_EQ(session_->refused().other_epoch, 2);
  EXPECT_EQ(session_->refused().other_incarnation, 1);
  EXPECT_TRUE(sent_.empty());
}

// Duplicates and old messages out of order, at every moment of a job.
TEST_F(SessionTest, MessagesThatComeAgainCountOnce) {
  std::string order;
  synthetic_order_ = &order;
  std::mt19937 random(1);
  const auto settle = [&] {
    DeliverAgain(&random);
    RunEverything();
    DeliverAgain(&random);
    RunEverything();
  };
  Assign();
  settle();
  ASSERT_TRUE(Next().has_assigned());
  Connect();
  settle();
  ASSERT_TRUE(Next().has_connected());
  std::string of_one_step;
  for (int64_t step = 0; step < 3; ++step) {
    order.clear();
    StepBegin(step);
    settle();
    const v1::WorkerMessage prepared = Next();
    ASSERT_TRUE(prepared.has_prepared());
    EXPECT_EQ(prepared.prepared().step(), step);
    Commit(step);
    settle();
    const v1::WorkerMessage applied = Next();
    ASSERT_TRUE(applied.has_applied());
    EXPECT_EQ(applied.applied().step(), step);
    if (step == 0) of_one_step = order;
    EXPECT_EQ(order, of_one_step) << "step " << step;
    EXPECT_TRUE(sent_.empty());
  }
  StepBegin(3);
  settle();
  ASSERT_TRUE(Next().has_prepared());
  for (int64_t step = 4; step < 6; ++step) {
    CommitAndBegin(step);
    settle();
    EXPECT_EQ(Next().prepared().step(), step);
    EXPECT_TRUE(sent_.empty());
  }
  Commit(5);
  settle();
  EXPECT_EQ(Next().applied().step(), 5);
  Deliver([](v1::CoordinatorMessage* message) { message->mutable_finish(); });
  settle();
  EXPECT_TRUE(Next().has_finished());
  while (!sent_.empty()) EXPECT_TRUE(Next().has_register_());
  EXPECT_EQ(session_->state(), SessionState::kIdle);
}

TEST_F(SessionTest, ReportsABuildThatFailsAndLetsGoOnAbort) {
  build_status_ = absl::ResourceExhaustedError("no memory for stage 0");
  Assign();
  RunEverything();
  const v1::WorkerMessage failed = Next();
  ASSERT_TRUE(failed.has_failed());
  EXPECT_EQ(failed.failed().kind(), v1::FAILURE_KIND_OUT_OF_MEMORY);
  EXPECT_EQ(failed.failed().message(), "no memory for stage 0");
  Abort();
  RunEverything();
  EXPECT_TRUE(Next().has_released());
  EXPECT_EQ(session_->state(), SessionState::kIdle);
}

TEST_F(SessionTest, ReportsWhereAStepFailed) {
  synthetic_.before_action = [](const schedule::Action& action) {
    return schedule::ToString(action) == "0B1"
               ? absl::InternalError("scripted failure")
               : absl::OkStatus();
  };
  GetReady();
  StepBegin(0);
  RunEverything();
  const v1::WorkerMessage failed = Next();
  ASSERT_TRUE(failed.has_failed());
  EXPECT_EQ(failed.failed().position().action(), "0B1");
  EXPECT_EQ(failed.failed().position().microbatch(), 1);
  EXPECT_EQ(failed.failed().blamed_worker(), "");
  // A commit that crossed the report changes nothing.
  Commit(0);
  RunEverything();
  EXPECT_TRUE(sent_.empty());
  Abort();
  RunEverything();
  EXPECT_TRUE(Next().has_released());
}

TEST_F(SessionTest, MeasuresTheModelThenTakesTheAssignmentOfItsEpoch) {
  synthetic_.before_action = [this](const schedule::Action&) {
    clock_.Advance(absl::Milliseconds(3));
    return absl::OkStatus();
  };
  Profile(/*measure=*/true);
  EXPECT_EQ(session_->state(), SessionState::kProfiling);
  RunEverything();
  const v1::WorkerMessage profiled = Next();
  ASSERT_TRUE(profiled.has_profiled());
  EXPECT_EQ(profiled.profiled().job_id(), "j1");
  EXPECT_EQ(profiled.fence().epoch(), kEpoch);
  const v1::ModelProfile& profile = profiled.profiled().profile();
  EXPECT_EQ(profile.layers_size(), spec_.model.layers);
  EXPECT_NEAR(profile.head().backward_seconds(), 0.003, 1e-9);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
  GetReady();
}

TEST_F(SessionTest, HoldsTheEpochWhileAnotherWorkerMeasures) {
  Profile(/*measure=*/false);
  EXPECT_EQ(session_->state(), SessionState::kProfiled);
  const v1::WorkerMessage profiled = Next();
  ASSERT_TRUE(profiled.has_profiled());
  EXPECT_FALSE(profiled.profiled().has_profile());
  session_->SendHeartbeat();
  EXPECT_EQ(Next().heartbeat().job_id(), "j1");
  Abort();
  RunEverything();
  EXPECT_TRUE(Next().has_released());
  EXPECT_EQ(session_->state(), SessionState::kIdle);
}

TEST_F(SessionTest, AnAbortEndsAProfileBetweenTwoActions) {
  int actions = 0;
  synthetic_.before_action = [&](const schedule::Action&) {
    if (++actions == 5) Abort();
    return absl::OkStatus();
  };
  Profile(/*measure=*/true);
  RunEverything();
  EXPECT_EQ(actions, 5);
  EXPECT_TRUE(Next().has_released());
  EXPECT_EQ(session_->state(), SessionState::kIdle);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(SessionTest, ReportsAProfileThatFails) {
  build_status_ = absl::ResourceExhaustedError("no memory");
  Profile(/*measure=*/true);
  RunEverything();
  const v1::WorkerMessage failed = Next();
  ASSERT_TRUE(failed.has_failed());
  EXPECT_EQ(failed.failed().kind(), v1::FAILURE_KIND_OUT_OF_MEMORY);
  EXPECT_EQ(failed.failed().message(), "profiling the embedding: no memory");
  Abort();
  RunEverything();
  EXPECT_TRUE(Next().has_released());
}

TEST_F(SessionTest, AbortInEveryStateEndsIdle) {
  // While building.
  Assign();
  Abort();
  RunEverything();
  EXPECT_TRUE(Next().has_released());
  EXPECT_EQ(session_->state(), SessionState::kIdle);
  // Twice while stepping, before the engine has begun.
  Deliver([](v1::CoordinatorMessage*) {});
  const int64_t next = kEpoch + 1;
  Assign(next);
  RunEverything();
  ASSERT_TRUE(Next().has_assigned());
  for (int i = 0; i < 2; ++i) {
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_fence()->set_epoch(next);
      message->mutable_abort();
    });
  }
  RunEverything();
  EXPECT_TRUE(Next().has_released());
  EXPECT_EQ(session_->state(), SessionState::kIdle);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

TEST_F(SessionTest, ACoordinatorThatDisownsThePlacementEndsIt) {
  GetReady();
  session_->OnDisconnected(absl::AbortedError("not mine"));
  RunEverything();
  EXPECT_EQ(session_->state(), SessionState::kIdle);
  EXPECT_EQ(allocator_.Stats().allocated_bytes.current, 0);
}

// Else a coordinator might place a job on a worker that cannot take it yet.
TEST_F(SessionTest, ADisownedWorkerRegistersOnlyOnceThePlacementIsGone) {
  GetReady();
  session_->OnDisconnected(absl::AbortedError("not mine"));
  session_->OnConnected();
  EXPECT_EQ(session_->state(), SessionState::kReleasing);
  EXPECT_TRUE(sent_.empty());
  RunEverything();
  const v1::WorkerMessage registration = Next();
  EXPECT_TRUE(registration.has_register_());
  EXPECT_EQ(registration.register_().holds_epoch(), 0);
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(session_->state(), SessionState::kIdle);
  // And at once when idle.
  session_->OnConnected();
  EXPECT_TRUE(Next().has_register_());
}

// ---- a coordinator that goes and comes back ---------------------------------

class ResumingSessionTest : public SessionTest {
 protected:
  void Disconnect() {
    session_->OnDisconnected(absl::UnavailableError("gone"));
  }
  // A new life of the coordinator, which has `recorded` steps; what the worker
  // tells it.
  v1::Resumed Reconnect(int64_t recorded, int64_t epoch = kEpoch) {
    session_->OnConnected();
    const v1::WorkerMessage registration = Next();
    EXPECT_TRUE(registration.has_register_());
    holds_ = registration.register_();
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_fence()->set_term(kTerm + 1);
      message->mutable_fence()->set_epoch(0);
      v1::Welcome* welcome = message->mutable_welcome();
      welcome->set_term(kTerm + 1);
      welcome->set_job_id("j1");
      welcome->set_epoch(epoch);
      welcome->set_recorded_steps(recorded);
    });
    kept_.clear();
    while (!sent_.empty() && sent_.front().has_kept_step()) {
      kept_.push_back(Next().kept_step());
    }
    const v1::WorkerMessage resumed = Next();
    EXPECT_TRUE(resumed.has_resumed()) << resumed.ShortDebugString();
    EXPECT_EQ(resumed.fence().term(), kTerm + 1);
    EXPECT_EQ(resumed.fence().epoch(), epoch);
    return resumed.resumed();
  }
  void RunStep(int64_t step) {
    StepBegin(step);
    RunEverything();
    ASSERT_TRUE(Next().has_prepared());
  }
  void DeliverAgain(const std::function<void(v1::CoordinatorMessage*)>& fill) {
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_fence()->set_term(kTerm + 1);
      fill(message);
    });
  }

  v1::Register holds_;
  std::vector<v1::KeptStep> kept_;
};

TEST_F(ResumingSessionTest, KeepsWhatIsPreparedAndTellsItAgain) {
  GetReady();
  RunStep(0);
  Disconnect();
  EXPECT_EQ(session_->state(), SessionState::kPrepared);
  const v1::Resumed resumed = Reconnect(0);
  EXPECT_EQ(holds_.holds_job_id(), "j1");
  EXPECT_EQ(holds_.holds_epoch(), kEpoch);
  EXPECT_EQ(resumed.state(), v1::PLACEMENT_STATE_PREPARED);
  EXPECT_EQ(resumed.committed_steps(), 0);
  EXPECT_TRUE(resumed.has_assigned());
  EXPECT_TRUE(resumed.has_connected());
  ASSERT_EQ(kept_.size(), 1u);
  EXPECT_EQ(kept_[0].prepared().losses_size(), 2);
  EXPECT_FALSE(kept_[0].has_outcome());
  // The new coordinator's word counts, the old one's does not any more.
  Commit(0);
  EXPECT_EQ(session_->refused().old_term, 1);
  DeliverAgain([](v1::CoordinatorMessage* message) {
    message->mutable_step_commit()->set_clip_factor(1);
  });
  RunEverything();
  EXPECT_TRUE(Next().has_applied());
}

TEST_F(ResumingSessionTest, AStepGoesOnWithoutTheCoordinator) {
  GetReady();
  StepBegin(0);
  Disconnect();
  RunEverything();
  EXPECT_EQ(session_->state(), SessionState::kPrepared);
  EXPECT_TRUE(sent_.empty());
  Reconnect(0);
  EXPECT_EQ(kept_.size(), 1u);
}

TEST_F(ResumingSessionTest, ForgetsStepsOnceTheyAreRecorded) {
  GetReady();
  for (int64_t step = 0; step < 4; ++step) {
    RunStep(step);
    Commit(step);
    RunEverything();
    ASSERT_TRUE(Next().has_applied());
  }
  Disconnect();
  v1::Resumed resumed = Reconnect(1);
  EXPECT_EQ(resumed.state(), v1::PLACEMENT_STATE_READY);
  EXPECT_EQ(resumed.committed_steps(), 4);
  EXPECT_EQ(resumed.applied_steps(), 4);
  ASSERT_EQ(kept_.size(), 3u);
  EXPECT_EQ(kept_[0].prepared().step(), 1);
  EXPECT_EQ(kept_[2].outcome().learning_rate(), 0.1);
  DeliverAgain([](v1::CoordinatorMessage* message) {
    message->mutable_step_begin()->set_step(4);
    message->mutable_step_begin()->set_target_tokens(16);
    message->mutable_step_begin()->set_recorded_steps(4);
  });
  RunEverything();
  ASSERT_TRUE(Next().has_prepared());
  Disconnect();
  Reconnect(4);
  ASSERT_EQ(kept_.size(), 1u);  // the open one stays
  EXPECT_EQ(kept_[0].prepared().step(), 4);
}

TEST_F(ResumingSessionTest, AFinishedJobIsToldAgain) {
  GetReady();
  RunStep(0);
  Commit(0);
  Deliver([](v1::CoordinatorMessage* message) { message->mutable_finish(); });
  Disconnect();
  RunEverything();
  EXPECT_EQ(session_->state(), SessionState::kIdle);
  const v1::Resumed resumed = Reconnect(0);
  EXPECT_EQ(holds_.holds_epoch(), 0);
  EXPECT_EQ(resumed.state(), v1::PLACEMENT_STATE_NOTHING);
  EXPECT_TRUE(resumed.has_finished());
  EXPECT_EQ(kept_.size(), 1u);
}

TEST_F(ResumingSessionTest, ReleasedAndFailedAreToldAgain) {
  synthetic_.before_action = [](const schedule::Action&) {
    return absl::InternalError("scripted failure");
  };
  GetReady();
  StepBegin(0);
  Disconnect();
  RunEverything();
  v1::Resumed resumed = Reconnect(0);
  EXPECT_EQ(resumed.state(), v1::PLACEMENT_STATE_FAILED);
  EXPECT_EQ(resumed.failed().message(), "scripted failure");
  DeliverAgain([](v1::CoordinatorMessage* message) {
    message->mutable_abort()->set_reason("test");
  });
  Disconnect();
  RunEverything();
  resumed = Reconnect(0);
  EXPECT_EQ(resumed.state(), v1::PLACEMENT_STATE_NOTHING);
  EXPECT_TRUE(resumed.has_released());
}

TEST_F(ResumingSessionTest, ALostAssignIsTakenUpAgain) {
  Disconnect();
  const v1::Resumed resumed = Reconnect(0);
  EXPECT_EQ(resumed.state(), v1::PLACEMENT_STATE_NOTHING);
  DeliverAgain([](v1::CoordinatorMessage*) {});
  EXPECT_EQ(session_->state(), SessionState::kIdle);
}

TEST_F(ResumingSessionTest, ACheckpointGoesOnAndIsToldAgain) {
  spec_.checkpoint.directory =
      absl::StrCat(::testing::TempDir(), "/resumed_checkpoint");
  std::filesystem::remove_all(spec_.checkpoint.directory);
  GetReady();
  RunStep(0);
  Commit(0);
  Deliver([](v1::CoordinatorMessage* message) {
    message->mutable_write_checkpoint()->set_step(1);
  });
  Disconnect();
  RunEverything();
  sent_.clear();
  const v1::Resumed written = Reconnect(1);
  EXPECT_EQ(written.checkpoint_step(), 1);
  EXPECT_EQ(written.checkpoint_written().error(), "");
  EXPECT_GT(written.checkpoint_written().files_size(), 0);
  EXPECT_FALSE(written.has_checkpoint_sealed());
  // A coordinator cannot know whether it was heard.
  for (int i = 0; i < 2; ++i) {
    DeliverAgain([&](v1::CoordinatorMessage* message) {
      message->mutable_seal_checkpoint()->set_step(1);
      *message->mutable_seal_checkpoint()->mutable_files() =
          written.checkpoint_written().files();
    });
  }
  RunEverything();
  const v1::WorkerMessage sealed = Next();
  ASSERT_TRUE(sealed.has_checkpoint_sealed());
  EXPECT_EQ(sealed.checkpoint_sealed().error(), "");
  EXPECT_TRUE(sent_.empty());
}

TEST_F(ResumingSessionTest, SaysNothingBeforeWelcome) {
  GetReady();
  Disconnect();
  session_->OnConnected();
  EXPECT_TRUE(Next().has_register_());
  session_->SendHeartbeat();
  EXPECT_TRUE(sent_.empty());
}

TEST_F(SessionTest, AnswersMemoryQueriesInEveryState) {
  const auto query = [&](int64_t number) {
    Deliver([&](v1::CoordinatorMessage* message) {
      message->mutable_memory_query()->set_query(number);
    });
    return Next();
  };
  v1::WorkerMessage idle = query(1);
  ASSERT_TRUE(idle.has_memory_report());
  EXPECT_EQ(idle.memory_report().query(), 1);
  EXPECT_EQ(idle.memory_report().job_id(), "");
  GetReady();
  v1::WorkerMessage ready = query(2);
  EXPECT_EQ(ready.memory_report().job_id(), "j1");
  int64_t sum = 0;
  for (const auto& category : ready.memory_report().memory().categories()) {
    sum += category.bytes().current();
  }
  EXPECT_EQ(sum, ready.memory_report().memory().allocated_bytes().current());
}

TEST_F(SessionTest, HeartbeatsSayWhichJobIsHeld) {
  session_->SendHeartbeat();
  EXPECT_EQ(Next().heartbeat().job_id(), "");
  GetReady();
  session_->SendHeartbeat();
  const v1::WorkerMessage heartbeat = Next();
  EXPECT_EQ(heartbeat.heartbeat().job_id(), "j1");
  EXPECT_FALSE(heartbeat.heartbeat().has_position());
}

TEST_F(SessionTest, TheJobsLogTravelsWithHeartbeatsOnePieceAtATime) {
  GetReady();
  logs_.Append("j1", "one\n");
  session_->SendHeartbeat();
  EXPECT_TRUE(Next().has_heartbeat());
  v1::WorkerMessage log = Next();
  ASSERT_TRUE(log.has_log());
  EXPECT_EQ(log.log().job_id(), "j1");
  EXPECT_EQ(log.log().data(), "one\n");
  logs_.Append("j1", "two\n");
  session_->SendHeartbeat();
  EXPECT_TRUE(Next().has_heartbeat());
  EXPECT_TRUE(sent_.empty());
  Deliver([](v1::CoordinatorMessage* message) {
    message->mutable_log_acknowledged()->set_job_id("j1");
    message->mutable_log_acknowledged()->set_next_offset(4);
  });
  log = Next();
  EXPECT_EQ(log.log().offset(), 4);
  EXPECT_EQ(log.log().data(), "two\n");
}

TEST_F(SessionTest, TheRestOfTheLogComesBeforeThePlacementIsLetGo) {
  LogOptions log;
  log.observer = [this](const LogFields& fields, absl::string_view line) {
    if (!fields.job.empty()) logs_.Append(fields.job, line);
  };
  InitLog(log);
  GetReady();
  Abort();
  RunEverything();
  InitLog(LogOptions());
  const v1::WorkerMessage rest = Next();
  ASSERT_TRUE(rest.has_log());
  const std::string& text = rest.log().data();
  EXPECT_NE(text.find("assigned: stage 0 (layers 0 to"), std::string::npos)
      << text;
  EXPECT_NE(text.find("connected: no edges job=j1 epoch=2\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("aborted: test"), std::string::npos) << text;
  EXPECT_TRUE(Next().has_released());
}

// What was sent on the lost stream may not have arrived.
TEST_F(SessionTest, ANewStreamGoesOnFromWhatWasAcknowledged) {
  logs_.Append("j1", "one\n");
  session_->SendHeartbeat();
  Next();
  ASSERT_TRUE(Next().has_log());
  session_->OnDisconnected(absl::UnavailableError("gone"));
  session_->OnConnected();
  ASSERT_TRUE(Next().has_register_());
  Welcome();
  session_->SendHeartbeat();
  Next();
  EXPECT_EQ(Next().log().data(), "one\n");
}

TEST_F(SessionTest, ShutdownIsPassedOn) {
  Deliver([](v1::CoordinatorMessage* message) { message->mutable_shutdown(); });
  EXPECT_TRUE(shutdown_);
}

}  // namespace
}  // namespace stagecoach::worker

#include "coordinator/resuming_fixture.h"

#include <utility>

#include "coordinator/scripted_worker.h"

namespace stagecoach::coordinator {

// ---- journal ----------------------------------------------------------------

bool CrashingJournal::Fails() { return fail_at_ > 0 && --fail_at_ == 0; }

absl::Status CrashingJournal::Append(const Event& event) {
  if (Fails()) return absl::ResourceExhaustedError("the disk is full");
  durable_.insert(durable_.end(), later_.begin(), later_.end());
  later_.clear();
  durable_.push_back(event);
  return absl::OkStatus();
}

absl::Status CrashingJournal::Flush() {
  if (later_.empty()) return absl::OkStatus();
  if (Fails()) return absl::ResourceExhaustedError("the disk is full");
  durable_.insert(durable_.end(), later_.begin(), later_.end());
  later_.clear();
  return absl::OkStatus();
}

ClusterState CrashingJournal::Crash() {
  later_.clear();
  ClusterState state;
  for (const Event& event : durable_) {
    const absl::Status status = state.Apply(event);
    EXPECT_TRUE(status.ok()) << status;
  }
  return state;
}

// ---- the coordinator --------------------------------------------------------

ResumingTest::ResumingTest() {
  options_ = ControllerOptions();
  Crash();
}

void ResumingTest::Crash() {
  RunAll();
  for (const auto& process : processes_) process->link = nullptr;
  workers_.clear();
  options_.term = options_.term.Next();
  controller_ = std::make_unique<Controller>(options_, &clock_, &executor_,
                                             &planning_, &crashing_);
  const absl::Status status = controller_->TakeOver(crashing_.Crash());
  EXPECT_TRUE(status.ok()) << status;
  RunAll();
}

// ---- workers ----------------------------------------------------------------

WorkerProcess& ResumingTest::StartProcess(const std::string& name) {
  auto process = std::make_unique<WorkerProcess>();
  process->name = name;
  process->incarnation = 100 + static_cast<uint64_t>(started_++);
  processes_.push_back(std::move(process));
  Open(*processes_.back());
  return *processes_.back();
}

void ResumingTest::Open(WorkerProcess& process) {
  process.link = Connect();
  process.seen = 0;
  process.welcomed = false;
  process.mute = false;
  v1::WorkerMessage message =
      ScriptedRegistration(process.name, process.incarnation, "2.11");
  if (process.state != v1::PLACEMENT_STATE_NOTHING) {
    message.mutable_register_()->set_holds_job_id(process.job_id);
    message.mutable_register_()->set_holds_epoch(process.epoch);
  }
  SayUnfenced(*process.link, std::move(message));
}

void ResumingTest::Break(WorkerProcess& process) {
  const auto link = std::exchange(process.link, nullptr);
  if (link != nullptr && !link->closed.has_value()) Disconnect(*link);
}

void ResumingTest::Answer(WorkerProcess& process, v1::WorkerMessage message) {
  if (process.link == nullptr || !process.welcomed || process.mute) return;
  message.mutable_fence()->set_term(process.term);
  message.mutable_fence()->set_epoch(process.epoch);
  message.mutable_fence()->set_incarnation(process.incarnation);
  SayUnfenced(*process.link, std::move(message));
}

void ResumingTest::Resume(WorkerProcess& process, const v1::Welcome& welcome) {
  if (welcome.epoch() == 0) return;
  v1::WorkerMessage message;
  if (welcome.epoch() == process.epoch) {
    // A copy: what is said may have answers that change it.
    const std::deque<v1::KeptStep> kept = process.kept;
    *message.mutable_resumed() = process.answers;
    message.mutable_resumed()->set_state(process.state);
    for (const v1::KeptStep& step : kept) {
      if (step.prepared().step() < welcome.recorded_steps() &&
          step.has_outcome()) {
        continue;
      }
      v1::WorkerMessage told;
      *told.mutable_kept_step() = step;
      Answer(process, std::move(told));
    }
  } else {
    EXPECT_EQ(process.state, v1::PLACEMENT_STATE_NOTHING);
    process.epoch = welcome.epoch();
    process.job_id = welcome.job_id();
    process.answers = v1::Resumed();
    process.kept.clear();
    message.mutable_resumed()->set_state(v1::PLACEMENT_STATE_NOTHING);
  }
  Answer(process, std::move(message));
}

void ResumingTest::Take(WorkerProcess& process,
                        const v1::CoordinatorMessage& message) {
  using State = v1::PlacementState;
  const State state = process.state;
  auto answer = ScriptedAnswer(process.name, process.assign, message);
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      process.welcomed = true;
      process.term = message.welcome().term();
      return Resume(process, message.welcome());
    case v1::CoordinatorMessage::kAssign:
      if (state != v1::PLACEMENT_STATE_NOTHING &&
          state != v1::PLACEMENT_STATE_PROFILED) {
        return;
      }
      process.assign = message.assign();
      process.job_id = message.assign().job_id();
      process.epoch = message.fence().epoch();
      process.kept.clear();
      process.applied.clear();
      process.answers = v1::Resumed();
      process.answers.set_schedule_id(message.assign().schedule_id());
      *process.answers.mutable_assigned() = answer->assigned();
      process.state = v1::PLACEMENT_STATE_BUILT;
      break;
    case v1::CoordinatorMessage::kProfile:
      if (state != v1::PLACEMENT_STATE_NOTHING) return;
      process.job_id = message.profile().job_id();
      process.epoch = message.fence().epoch();
      process.kept.clear();
      process.answers = v1::Resumed();
      *process.answers.mutable_profiled() = answer->profiled();
      process.state = v1::PLACEMENT_STATE_PROFILED;
      break;
    case v1::CoordinatorMessage::kReschedule:
      if (state != v1::PLACEMENT_STATE_READY) return;
      process.answers.set_schedule_id(message.reschedule().schedule_id());
      *process.answers.mutable_assigned() = answer->assigned();
      process.answers.clear_connected();
      process.state = v1::PLACEMENT_STATE_BUILT;
      break;
    case v1::CoordinatorMessage::kConnect:
      if (state != v1::PLACEMENT_STATE_BUILT) return;
      *process.answers.mutable_connected() = answer->connected();
      process.state = v1::PLACEMENT_STATE_READY;
      break;
    case v1::CoordinatorMessage::kStepBegin: {
      if (state != v1::PLACEMENT_STATE_READY) return;
      while (!process.kept.empty() &&
             process.kept.front().prepared().step() <
                 message.step_begin().recorded_steps()) {
        process.kept.pop_front();
      }
      // So that every step has another outcome.
      v1::Prepared* prepared = answer->mutable_prepared();
      prepared->mutable_norms(0)->set_squared(
          4 + static_cast<double>(message.step_begin().step()) / 3);
      EXPECT_EQ(prepared->step(), static_cast<int64_t>(process.applied.size()));
      process.kept.emplace_back();
      *process.kept.back().mutable_prepared() = *prepared;
      process.state = v1::PLACEMENT_STATE_PREPARED;
      break;
    }
    case v1::CoordinatorMessage::kStepCommit:
      if (state != v1::PLACEMENT_STATE_PREPARED) return;
      EXPECT_EQ(message.step_commit().step(),
                static_cast<int64_t>(process.applied.size()));
      process.applied.push_back(message.step_commit());
      *process.kept.back().mutable_outcome() = message.step_commit();
      process.answers.set_committed_steps(message.step_commit().step() + 1);
      process.answers.set_applied_steps(message.step_commit().step() + 1);
      process.state = v1::PLACEMENT_STATE_READY;
      if (process.link != nullptr &&
          process.link->told_together.count(message.step_commit().step()) > 0) {
        return;
      }
      break;
    case v1::CoordinatorMessage::kWriteCheckpoint: {
      if (state != v1::PLACEMENT_STATE_READY) return;
      const int64_t step = message.write_checkpoint().step();
      EXPECT_EQ(step, static_cast<int64_t>(process.applied.size()));
      EXPECT_GT(step, process.answers.checkpoint_step()) << "told twice";
      v1::CheckpointWritten* written =
          answer.emplace().mutable_checkpoint_written();
      written->set_job_id(process.job_id);
      written->set_step(step);
      written->add_files()->set_name(process.name);
      process.answers.set_checkpoint_step(step);
      *process.answers.mutable_checkpoint_written() = *written;
      process.answers.clear_checkpoint_sealed();
      break;
    }
    case v1::CoordinatorMessage::kSealCheckpoint: {
      if (process.answers.has_checkpoint_sealed()) return;
      const v1::SealCheckpoint& seal = message.seal_checkpoint();
      EXPECT_EQ(seal.step(), process.answers.checkpoint_step());
      EXPECT_EQ(seal.files_size(), static_cast<int>(processes_.size()));
      EXPECT_FALSE(seal.discard());
      process.sealed.push_back(seal.step());
      v1::CheckpointSealed* sealed =
          answer.emplace().mutable_checkpoint_sealed();
      sealed->set_job_id(process.job_id);
      sealed->set_step(seal.step());
      sealed->set_path("/checkpoint");
      *process.answers.mutable_checkpoint_sealed() = *sealed;
      break;
    }
    case v1::CoordinatorMessage::kFinish:
      if (state != v1::PLACEMENT_STATE_READY) return;
      *process.answers.mutable_finished() = answer->finished();
      process.state = v1::PLACEMENT_STATE_NOTHING;
      break;
    case v1::CoordinatorMessage::kAbort:
      if (state == v1::PLACEMENT_STATE_NOTHING) return;
      *process.answers.mutable_released() = answer->released();
      process.state = v1::PLACEMENT_STATE_NOTHING;
      break;
    default:
      return;
  }
  Answer(process, *std::move(answer));
}

bool ResumingTest::Serve(WorkerProcess& process) {
  if (process.link == nullptr) return false;
  if (process.link->closed.has_value()) {
    // Disowned: what it holds is of no use.
    if (process.link->closed->code() == absl::StatusCode::kAborted) {
      process.state = v1::PLACEMENT_STATE_NOTHING;
    }
    process.link = nullptr;
    return false;
  }
  if (process.seen == process.link->received.size()) return false;
  // A copy: more is received while it is dealt with.
  const v1::CoordinatorMessage message = process.link->received[process.seen++];
  Take(process, message);
  return true;
}

void ResumingTest::ServeAll() {
  for (bool progress = true; progress;) {
    progress = false;
    for (const auto& process : processes_) {
      if (process->link == nullptr) Open(*process);
      progress |= Serve(*process);
    }
  }
}

void ResumingTest::BeatAll() {
  for (const auto& process : processes_) {
    v1::WorkerMessage message;
    message.mutable_heartbeat();
    if (process->state != v1::PLACEMENT_STATE_NOTHING) {
      message.mutable_heartbeat()->set_job_id(process->job_id);
    }
    Answer(*process, std::move(message));
  }
}

}  // namespace stagecoach::coordinator

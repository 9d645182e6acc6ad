#include "coordinator/controller_fixture.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/scripted_worker.h"

namespace stagecoach::coordinator {
namespace {

std::string KindOf(const v1::CoordinatorMessage& message) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      return "welcome";
    case v1::CoordinatorMessage::kAssign:
      return "assign";
    case v1::CoordinatorMessage::kConnect:
      return "connect";
    case v1::CoordinatorMessage::kStepBegin:
      return absl::StrCat("begin:", message.step_begin().step());
    case v1::CoordinatorMessage::kStepCommit:
      return absl::StrCat(message.step_commit().skip() ? "skip:" : "commit:",
                          message.step_commit().step());
    case v1::CoordinatorMessage::kFinish:
      return "finish";
    case v1::CoordinatorMessage::kAbort:
      return "abort";
    case v1::CoordinatorMessage::kMemoryQuery:
      return "memory";
    case v1::CoordinatorMessage::kShutdown:
      return "shutdown";
    case v1::CoordinatorMessage::kProfile:
      return "profile";
    case v1::CoordinatorMessage::kReschedule:
      return "reschedule";
    case v1::CoordinatorMessage::kCopyState:
      return absl::StrCat("copy:", message.copy_state().step());
    case v1::CoordinatorMessage::kDropStates:
      return "drop";
    case v1::CoordinatorMessage::kLogAcknowledged:
      return "log";
    case v1::CoordinatorMessage::kWriteCheckpoint:
      return absl::StrCat("write:", message.write_checkpoint().step());
    case v1::CoordinatorMessage::kSealCheckpoint:
      return absl::StrCat("seal:", message.seal_checkpoint().step());
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      break;
  }
  return "?";
}

}  // namespace

absl::Status FakeWorker::Send(v1::CoordinatorMessage message) {
  if (closed.has_value()) return absl::UnavailableError("closed");
  if (message.has_profile()) {
    epoch = message.fence().epoch();
    assign.set_job_id(message.profile().job_id());
  }
  if (message.has_assign()) {
    epoch = message.fence().epoch();
    assign = message.assign();
    told_together.clear();
  }
  if (message.step_begin().has_outcome()) {
    // As if it had come by itself.
    v1::CoordinatorMessage outcome;
    *outcome.mutable_fence() = message.fence();
    outcome.mutable_step_commit()->Swap(
        message.mutable_step_begin()->mutable_outcome());
    message.mutable_step_begin()->clear_outcome();
    told_together.insert(outcome.step_commit().step());
    received.push_back(std::move(outcome));
  }
  received.push_back(std::move(message));
  return absl::OkStatus();
}

ControllerTest::ControllerTest() {
  // A session that ends is a process that died, unless a test says otherwise.
  options_.reconnect_wait = absl::ZeroDuration();
  controller_ = std::make_unique<Controller>(options_, &clock_, &executor_,
                                             &planning_, &journal_);
}

void ControllerTest::RunAll() {
  while (executor_.RunAll() + planning_.RunAll() > 0) {
  }
}

std::shared_ptr<FakeWorker> ControllerTest::Connect() {
  auto worker = std::make_shared<FakeWorker>();
  workers_.push_back(worker);
  controller_->OnConnected(worker);
  RunAll();
  return worker;
}

std::shared_ptr<FakeWorker> ControllerTest::Join(
    const std::string& name, const std::string& torch_version) {
  auto worker = Connect();
  worker->name = name;
  worker->incarnation = 100 + workers_.size();
  SayUnfenced(*worker,
              ScriptedRegistration(name, worker->incarnation, torch_version));
  return worker;
}

void ControllerTest::JoinMany(int count) {
  for (int i = 0; i < count; ++i) Join(absl::StrCat("w", i));
}

void ControllerTest::SayUnfenced(FakeWorker& worker,
                                 v1::WorkerMessage message) {
  const auto shared = std::find_if(
      workers_.begin(), workers_.end(),
      [&worker](const auto& each) { return each.get() == &worker; });
  if (shared != workers_.end()) {
    controller_->OnMessage(*shared, std::move(message));
  }
  RunAll();
}

void ControllerTest::Say(FakeWorker& worker, v1::WorkerMessage message) {
  message.mutable_fence()->set_term(options_.term.value());
  message.mutable_fence()->set_epoch(worker.epoch);
  message.mutable_fence()->set_incarnation(worker.incarnation);
  SayUnfenced(worker, std::move(message));
}

void ControllerTest::Beat(FakeWorker& worker, const std::string& action,
                          int stage, int microbatch, int64_t step) {
  v1::WorkerMessage message;
  v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_job_id(worker.assign.job_id());
  if (!action.empty()) {
    heartbeat->mutable_position()->set_action(action);
    heartbeat->mutable_position()->set_stage(stage);
    heartbeat->mutable_position()->set_microbatch(microbatch);
    heartbeat->mutable_position()->set_step(step);
  }
  Say(worker, std::move(message));
}

void ControllerTest::Fail(FakeWorker& worker, v1::FailureKind kind,
                          const std::string& text, const std::string& blamed) {
  v1::WorkerMessage message;
  message.mutable_failed()->set_kind(kind);
  message.mutable_failed()->set_message(text);
  message.mutable_failed()->set_blamed_worker(blamed);
  Say(worker, std::move(message));
}

void ControllerTest::Disconnect(FakeWorker& worker) {
  worker.Close(absl::UnavailableError("process died"));
  for (const auto& shared : workers_) {
    if (shared.get() == &worker) controller_->OnDisconnected(shared);
  }
  RunAll();
}

std::optional<v1::WorkerMessage> ControllerTest::AnswerTo(
    const FakeWorker& worker, const v1::CoordinatorMessage& message) {
  if (message.has_step_commit() &&
      worker.told_together.count(message.step_commit().step()) > 0) {
    return std::nullopt;
  }
  return ScriptedAnswer(worker.name, worker.assign, message);
}

void ControllerTest::Serve(const std::string& until) {
  bool progress = true;
  while (progress) {
    progress = false;
    for (const auto& shared : workers_) {
      FakeWorker& worker = *shared;
      if (worker.closed.has_value() ||
          worker.answered == worker.received.size()) {
        continue;
      }
      const v1::CoordinatorMessage& next = worker.received[worker.answered];
      if (!until.empty() && absl::StartsWith(KindOf(next), until)) continue;
      progress = true;
      ++worker.answered;
      // A copy: more may be received while it is answered.
      const std::optional<v1::WorkerMessage> answer = AnswerTo(worker, next);
      if (answer.has_value()) Say(worker, *answer);
    }
  }
}

std::string ControllerTest::Received(const FakeWorker& worker) {
  return absl::StrJoin(worker.received, " ",
                       [](std::string* out, const auto& message) {
                         absl::StrAppend(out, KindOf(message));
                       });
}

std::string ControllerTest::Submit(const v1::JobSpec& spec,
                                   const std::string& request_id) {
  auto request = Versioned<v1::SubmitJobRequest>();
  request.set_request_id(request_id);
  *request.mutable_spec() = spec;
  const auto response = TrySubmit(request);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? response->job_id() : "";
}

absl::StatusOr<v1::SubmitJobResponse> ControllerTest::TrySubmit(
    const v1::SubmitJobRequest& request) {
  absl::StatusOr<v1::SubmitJobResponse> result =
      absl::InternalError("no reply");
  controller_->Submit(request, [&](auto reply) { result = std::move(reply); });
  RunAll();
  return result;
}

absl::StatusOr<v1::Job> ControllerTest::Get(const std::string& job_id) {
  auto request = Versioned<v1::GetJobRequest>();
  request.set_job_id(job_id);
  absl::StatusOr<v1::Job> result = absl::InternalError("no reply");
  controller_->GetJob(request, [&](auto reply) { result = std::move(reply); });
  RunAll();
  return result;
}

absl::Status ControllerTest::Reschedule(const std::string& job_id,
                                        const std::string& schedule) {
  auto request = Versioned<v1::RescheduleJobRequest>();
  request.set_job_id(job_id);
  request.set_schedule(schedule);
  absl::Status result = absl::InternalError("no reply");
  controller_->Reschedule(request,
                          [&](auto reply) { result = reply.status(); });
  RunAll();
  return result;
}

absl::StatusOr<v1::Job> ControllerTest::TryCancel(const std::string& job_id) {
  auto request = Versioned<v1::CancelJobRequest>();
  request.set_job_id(job_id);
  request.set_reason("the test said so");
  absl::StatusOr<v1::Job> result = absl::InternalError("no reply");
  controller_->Cancel(request, [&](auto reply) {
    if (reply.ok()) {
      result = reply->job();
    } else {
      result = reply.status();
    }
  });
  RunAll();
  return result;
}

v1::Job ControllerTest::Cancel(const std::string& job_id) {
  const auto job = TryCancel(job_id);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *job : v1::Job();
}

std::shared_ptr<FakeWatcher> ControllerTest::Watch(const std::string& job_id,
                                                   int64_t after_revision,
                                                   int64_t after_step) {
  auto request = Versioned<v1::WatchJobRequest>();
  request.set_job_id(job_id);
  request.set_after_revision(after_revision);
  request.set_after_step(after_step);
  auto watcher = std::make_shared<FakeWatcher>();
  controller_->Watch(request, watcher);
  RunAll();
  return watcher;
}

void ControllerTest::Pass(absl::Duration duration,
                          const std::vector<FakeWorker*>& beating) {
  const absl::Duration tick = absl::Milliseconds(100);
  for (absl::Duration passed; passed < duration; passed += tick) {
    clock_.Advance(tick);
    for (FakeWorker* worker : beating) {
      if (!worker->closed.has_value()) Beat(*worker);
    }
    controller_->Tick();
    RunAll();
  }
}

std::vector<FakeWorker*> ControllerTest::AllBut(
    const std::vector<size_t>& silent) {
  std::vector<FakeWorker*> result;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (std::find(silent.begin(), silent.end(), i) == silent.end()) {
      result.push_back(workers_[i].get());
    }
  }
  return result;
}

}  // namespace stagecoach::coordinator

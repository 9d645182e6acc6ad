// Fuzz target of what workers and clients send to the coordinator: any message
// in any order. The journal never fails to replay, and once all workers are
// gone and time has passed, nothing runs any more.
//
// The input is a list of steps: a byte that says what happens, then what it
// needs. Most worker messages get the right fence, or nothing would get past
// it.

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/serial_executor.h"
#include "base/version.h"
#include "bazel/fuzzing/fuzz_input.h"
#include "coordinator/controller.h"
#include "coordinator/journal.h"
#include "coordinator/links.h"
#include "coordinator/scripted_worker.h"
#include "coordinator/test_spec.h"
#include "job/plan.h"
#include "job/schedule_source.h"

namespace stagecoach::coordinator {
namespace {

using fuzzing::FuzzInput;
using fuzzing::Require;

// Bounds one input's time, not what a message may hold.
constexpr int kMostSteps = 200;
constexpr int64_t kMostChunks = 256;

struct Worker final : WorkerLink {
  absl::Status Send(v1::CoordinatorMessage message) override {
    if (closed) return absl::UnavailableError("closed");
    if (message.has_assign()) {
      epoch = message.fence().epoch();
      assign = message.assign();
    }
    if (inbox.size() < 64) inbox.push_back(std::move(message));
    return absl::OkStatus();
  }
  void Close(const absl::Status& /*status*/) override { closed = true; }

  std::string name;
  uint64_t incarnation = 0;
  int64_t epoch = 0;
  v1::Assign assign;
  std::deque<v1::CoordinatorMessage> inbox;
  bool closed = false;
};

struct Watcher final : JobWatcher {
  absl::Status Push(v1::WatchJobResponse /*event*/) override {
    Require(!ended, "a watch goes on after its end");
    return absl::OkStatus();
  }
  void End(const absl::Status& /*status*/) override {
    Require(!std::exchange(ended, true), "a watch ended twice");
  }

  bool ended = false;
};

absl::StatusOr<job::JobPlan> PlanSmallJobs(const job::JobSpec& spec,
                                           const job::ModelProfile* profile) {
  // Which files there are is not the fuzzer's business.
  if (job::IsScheduleFile(spec.pipeline.schedule) ||
      spec.stages() * spec.training.microbatches > kMostChunks) {
    return absl::InvalidArgumentError("not for fuzzing");
  }
  return job::PlanJob(spec, profile);
}

bool LogNothing() {
  LogOptions options;
  options.level = LogLevel::kOff;
  InitLog(options);
  return true;
}

class Cluster {
 public:
  Cluster()
      : controller_(Options(), &clock_, &executor_, &planning_, &journal_) {}

  void Step(FuzzInput* input) {
    const uint8_t what = input->Byte();
    const size_t who = what / 16 % workers_.size();
    switch (what % 16) {
      case 0:
        return Connect(who);
      case 1:
        return Join(who);
      case 2:
        return Disconnect(who);
      case 3:
        return SubmitTiny(input->Byte());
      case 4:
        return Submit(input->Record());
      case 5:
        return Ask(input);
      case 6:
        return Pass(absl::Milliseconds(100) * (1 + input->Below(30)));
      case 7:
      case 8:
      case 9:
        return Answer(who);
      case 10:
        return Say(who, input->Record(), /*fenced=*/false);
      default:
        return Say(who, input->Record(), /*fenced=*/true);
    }
  }

  void Finish() {
    for (size_t who = 0; who < workers_.size(); ++who) Disconnect(who);
    Pass(absl::Seconds(20));
    const ClusterState& state = controller_.state();
    for (const auto& [name, worker] : state.workers()) {
      Require(worker.dead && worker.job_id.empty(),
              "not gone: " + state.DebugString());
    }
    for (const std::string& id : state.job_order()) {
      const JobState job = state.FindJob(id)->state;
      Require(IsFinished(job) || job == JobState::kQueued,
              "still runs: " + state.DebugString());
    }
    CheckStillAnswers();
    ClusterState replayed;
    for (const Event& event : journal_.events()) {
      Require(replayed.Apply(event).ok(), "an event does not replay");
    }
    Require(replayed.DebugString() == state.DebugString(),
            "replay gives another state");
  }

 private:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.planner = PlanSmallJobs;
    return options;
  }
  void RunAll() {
    while (executor_.RunAll() + planning_.RunAll() > 0) {
    }
  }

  void Connect(size_t who) {
    Disconnect(who);
    workers_[who] = std::make_shared<Worker>();
    controller_.OnConnected(workers_[who]);
    RunAll();
  }
  void Join(size_t who) {
    Connect(who);
    Worker& worker = *workers_[who];
    worker.name = "w" + std::to_string(who);
    worker.incarnation = ++incarnations_;
    Deliver(who, ScriptedRegistration(worker.name, worker.incarnation, ""));
  }
  void Disconnect(size_t who) {
    if (workers_[who] == nullptr) return;
    controller_.OnDisconnected(workers_[who]);
    workers_[who] = nullptr;
    RunAll();
  }

  void Deliver(size_t who, v1::WorkerMessage message) {
    controller_.OnMessage(workers_[who], std::move(message));
    RunAll();
  }
  void DeliverFenced(size_t who, v1::WorkerMessage message) {
    message.mutable_fence()->set_term(1);
    message.mutable_fence()->set_epoch(workers_[who]->epoch);
    message.mutable_fence()->set_incarnation(workers_[who]->incarnation);
    Deliver(who, std::move(message));
  }
  void Say(size_t who, absl::string_view bytes, bool fenced) {
    v1::WorkerMessage message;
    if (workers_[who] == nullptr ||
        !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return;
    }
    if (message.has_register_()) {
      workers_[who]->incarnation = message.fence().incarnation();
    }
    if (fenced) {
      DeliverFenced(who, std::move(message));
    } else {
      Deliver(who, std::move(message));
    }
  }
  // As a good worker does.
  void Answer(size_t who) {
    Worker* worker = workers_[who].get();
    if (worker == nullptr || worker->inbox.empty()) return;
    const v1::CoordinatorMessage message = std::move(worker->inbox.front());
    worker->inbox.pop_front();
    auto answer = ScriptedAnswer(worker->name, worker->assign, message);
    if (answer.has_value()) DeliverFenced(who, *std::move(answer));
  }

  void SubmitTiny(uint8_t how) {
    v1::SubmitJobRequest request;
    request.mutable_version()->set_protocol(kProtocolVersion);
    *request.mutable_spec() = TinySpec(1 + how % 3);
    // Has to be profiled.
    if (how >= 128) {
      request.mutable_spec()->mutable_pipeline()->set_schedule("auto");
      request.mutable_spec()->mutable_pipeline()->clear_split();
    }
    SubmitNow(request);
  }
  void Submit(absl::string_view bytes) {
    v1::SubmitJobRequest request;
    if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      SubmitNow(request);
    }
  }
  void SubmitNow(const v1::SubmitJobRequest& request) {
    controller_.Submit(request, Once<v1::SubmitJobResponse>());
    RunAll();
  }

  void Ask(FuzzInput* input) {
    const int what = input->Below(8);
    const absl::string_view bytes = input->Record();
    switch (what) {
      case 0:
        return AskFor<v1::CancelJobRequest, v1::CancelJobResponse>(
            bytes, &Controller::Cancel);
      case 1:
        return AskFor<v1::GetJobRequest, v1::Job>(bytes, &Controller::GetJob);
      case 2:
        return AskFor<v1::ListJobsRequest, v1::ListJobsResponse>(
            bytes, &Controller::ListJobs);
      case 3:
        return AskFor<v1::ListWorkersRequest, v1::ListWorkersResponse>(
            bytes, &Controller::ListWorkers);
      case 4:
        return AskFor<v1::GetCoordinatorRequest, v1::GetCoordinatorResponse>(
            bytes, &Controller::GetCoordinator);
      case 5:
        return AskMemory(bytes);
      case 6:
        return Watch(bytes);
      default:
        return AskFor<v1::RescheduleJobRequest, v1::RescheduleJobResponse>(
            bytes, &Controller::Reschedule);
    }
  }
  template <typename Request, typename Response>
  void AskFor(absl::string_view bytes,
              void (Controller::*ask)(Request, Reply<Response>)) {
    Request request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return;
    }
    request.mutable_version()->set_protocol(kProtocolVersion);
    (controller_.*ask)(request, Once<Response>());
    RunAll();
  }
  void AskMemory(absl::string_view bytes) {
    v1::GetMemoryStatsRequest request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return;
    }
    request.mutable_version()->set_protocol(kProtocolVersion);
    controller_.AskMemory(static_cast<MemoryQueryKind>(bytes.size() % 4),
                          request, Once<v1::GetMemoryStatsResponse>());
    RunAll();
  }
  void Watch(absl::string_view bytes) {
    v1::WatchJobRequest request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return;
    }
    request.mutable_version()->set_protocol(kProtocolVersion);
    controller_.Watch(request, std::make_shared<Watcher>());
    RunAll();
  }
  template <typename Response>
  static Reply<Response> Once() {
    return [answered = std::make_shared<bool>(false)](
               const absl::StatusOr<Response>& /*response*/) {
      Require(!std::exchange(*answered, true), "a request answered twice");
    };
  }

  // It has not stopped because of what somebody said.
  void CheckStillAnswers() {
    v1::GetCoordinatorRequest request;
    request.mutable_version()->set_protocol(kProtocolVersion);
    absl::Status status = absl::UnknownError("no answer");
    controller_.GetCoordinator(
        request, [&](const absl::StatusOr<v1::GetCoordinatorResponse>& answer) {
          status = answer.status();
        });
    RunAll();
    Require(status.ok(), "the coordinator stopped: " + status.ToString());
  }

  void Pass(absl::Duration duration) {
    // Below half of what makes a worker suspect: a longer one would count as a
    // pause of the coordinator itself.
    const absl::Duration longest = absl::Milliseconds(900);
    while (duration > absl::ZeroDuration()) {
      const absl::Duration tick = std::min(duration, longest);
      duration -= tick;
      clock_.Advance(tick);
      controller_.Tick();
      RunAll();
    }
  }

  SimulatedClock clock_;
  ManualExecutor executor_;
  ManualExecutor planning_;
  MemoryJournal journal_;
  Controller controller_;
  std::array<std::shared_ptr<Worker>, 4> workers_;
  uint64_t incarnations_ = 100;
};

}  // namespace
}  // namespace stagecoach::coordinator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace coordinator = stagecoach::coordinator;
  static const bool quiet = coordinator::LogNothing();
  (void)quiet;
  stagecoach::fuzzing::FuzzInput input(data, size);
  coordinator::Cluster cluster;
  for (int i = 0; i < coordinator::kMostSteps && !input.empty(); ++i) {
    cluster.Step(&input);
  }
  cluster.Finish();
  return 0;
}

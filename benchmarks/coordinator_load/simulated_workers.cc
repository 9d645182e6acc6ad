#include "benchmarks/coordinator_load/simulated_workers.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/scripted_worker.h"
#include "rpc/channel_settings.h"

namespace stagecoach::benchmarks {
namespace {

// After a stream has ended.
constexpr absl::Duration kReconnectPause = absl::Milliseconds(500);

// With a connection of its own, as a process has it.
std::shared_ptr<grpc::Channel> OwnChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  for (const rpc::ChannelSetting& setting : rpc::kChannelSettings) {
    arguments.SetInt(setting.name, setting.value);
  }
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

struct SimulatedWorkers::Worker {
  std::string name;

  Mutex mu;
  // Of the present process; 0: dead.
  uint64_t incarnation SC_GUARDED_BY(mu) = 0;
  bool welcome SC_GUARDED_BY(mu) = false;
  absl::Duration heartbeat SC_GUARDED_BY(mu);
  v1::Assign assign SC_GUARDED_BY(mu);
  v1::Fence fence SC_GUARDED_BY(mu);  // of the last message
  int64_t sequence SC_GUARDED_BY(mu) = 0;
  std::unique_ptr<v1::SessionService::Stub> stub SC_GUARDED_BY(mu);
  std::shared_ptr<worker::SessionStream> stream SC_GUARDED_BY(mu);
};

SimulatedWorkers::SimulatedWorkers(const Options& options) : options_(options) {
  timer_ = std::thread([this] { RunTimer(); });
  for (int i = 0; i < options.count; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->name = absl::StrCat("w", i);
    Open(workers_.back().get(), 1);
  }
}

SimulatedWorkers::~SimulatedWorkers() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  timer_.join();
  for (int i = 0; i < options_.count; ++i) Kill(i);
  // Streams call back until they are done.
  while (open_streams_ > 0) absl::SleepFor(absl::Milliseconds(1));
}

void SimulatedWorkers::Open(Worker* worker, uint64_t incarnation) {
  worker::SessionStream::Handlers handlers;
  handlers.on_message = [=](const v1::CoordinatorMessage& message) {
    OnMessage(worker, incarnation, message);
  };
  handlers.on_done = [=](const absl::Status&) { OnDone(worker, incarnation); };
  ++open_streams_;
  MutexLock lock(&worker->mu);
  worker->incarnation = incarnation;
  worker->assign.Clear();
  worker->fence.Clear();
  worker->stub = v1::SessionService::NewStub(OwnChannel(options_.coordinator));
  worker->stream =
      worker::SessionStream::Open(worker->stub.get(), std::move(handlers));
  v1::WorkerMessage registration =
      coordinator::ScriptedRegistration(worker->name, incarnation, "simulated");
  worker->stream->Write(std::move(registration)).IgnoreError();
}

void SimulatedWorkers::OnMessage(Worker* worker, uint64_t incarnation,
                                 const v1::CoordinatorMessage& message) {
  MutexLock lock(&worker->mu);
  if (worker->incarnation != incarnation) return;
  worker->fence = message.fence();
  worker->fence.set_incarnation(incarnation);
  if (message.has_welcome()) {
    worker->welcome = true;
    ++registered_;
    worker->heartbeat =
        absl::Milliseconds(message.welcome().heartbeat_milliseconds());
    // Processes do not beat at the same moment.
    const size_t place = std::hash<std::string>()(worker->name) % 1000;
    After(worker->heartbeat * static_cast<double>(place) / 1000,
          [=] { Beat(worker, incarnation); });
    return;
  }
  if (message.has_assign()) worker->assign = message.assign();
  std::optional<v1::WorkerMessage> answer =
      coordinator::ScriptedAnswer(worker->name, worker->assign, message);
  if (message.has_finish() || message.has_abort()) worker->assign.Clear();
  if (!answer.has_value()) return;
  *answer->mutable_fence() = worker->fence;
  if (!message.has_step_begin()) {
    worker->stream->Write(*std::move(answer)).IgnoreError();
    return;
  }
  After(options_.step_time, [=, answer = *std::move(answer)] {
    EndStep(worker, incarnation, answer);
  });
}

void SimulatedWorkers::EndStep(Worker* worker, uint64_t incarnation,
                               const v1::WorkerMessage& prepared) {
  MutexLock lock(&worker->mu);
  if (worker->incarnation != incarnation) return;
  ++steps_;
  worker->stream->Write(prepared).IgnoreError();
}

void SimulatedWorkers::OnDone(Worker* worker, uint64_t incarnation) {
  {
    MutexLock lock(&worker->mu);
    if (worker->welcome) --registered_;
    worker->welcome = false;
    // Killed: nobody comes back.
    if (worker->incarnation == 0) {
      --open_streams_;
      return;
    }
  }
  After(kReconnectPause, [=] { Open(worker, incarnation + 1); });
  --open_streams_;
}

void SimulatedWorkers::Beat(Worker* worker, uint64_t incarnation) {
  MutexLock lock(&worker->mu);
  if (worker->incarnation != incarnation || !worker->welcome) return;
  v1::WorkerMessage message;
  *message.mutable_fence() = worker->fence;
  v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  heartbeat->set_sequence(++worker->sequence);
  heartbeat->set_job_id(worker->assign.job_id());
  worker->stream->Write(std::move(message)).IgnoreError();
  ++heartbeats_;
  After(worker->heartbeat, [=] { Beat(worker, incarnation); });
}

void SimulatedWorkers::Kill(int index) {
  Worker* const worker = workers_[static_cast<size_t>(index)].get();
  std::shared_ptr<worker::SessionStream> stream;
  {
    MutexLock lock(&worker->mu);
    worker->incarnation = 0;
    stream = worker->stream;
  }
  stream->Cancel();
}

void SimulatedWorkers::RestartAll() {
  for (const auto& worker : workers_) {
    std::shared_ptr<worker::SessionStream> stream;
    {
      MutexLock lock(&worker->mu);
      if (worker->incarnation == 0) continue;
      stream = worker->stream;
    }
    stream->Cancel();
  }
}

void SimulatedWorkers::After(absl::Duration delay, std::function<void()> task) {
  MutexLock lock(&mu_);
  if (stopping_) return;
  due_.emplace(absl::Now() + delay, std::move(task));
  changed_.NotifyAll();
}

void SimulatedWorkers::RunTimer() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&mu_);
      while (!stopping_ &&
             (due_.empty() || due_.begin()->first > absl::Now())) {
        changed_.WaitFor(&mu_, due_.empty()
                                   ? absl::Seconds(1)
                                   : due_.begin()->first - absl::Now());
      }
      if (stopping_) return;
      task = std::move(due_.begin()->second);
      due_.erase(due_.begin());
    }
    task();
  }
}

}  // namespace stagecoach::benchmarks

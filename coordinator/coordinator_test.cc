// The coordinator over real connections, with workers that follow a script.
#include "coordinator/coordinator.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/notification.h"
#include "base/version.h"
#include "coordinator/scripted_worker.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"
#include "stagecoach/v1/cluster.grpc.pb.h"
#include "stagecoach/v1/job.grpc.pb.h"
#include "stagecoach/v1/memory.grpc.pb.h"
#include "stagecoach/v1/session.grpc.pb.h"

namespace stagecoach::coordinator {
namespace {

void SetDeadline(grpc::ClientContext* context) {
  // Far more than anything takes; only a failure waits so long.
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(120));
}

// A worker's connection and the thread that answers on it.
class StreamWorker {
 public:
  // `unanswered` is called for each message on the worker's thread; those for
  // which it is true get no answer.
  using Unanswered = std::function<bool(const v1::CoordinatorMessage&)>;

  StreamWorker(const std::string& address, v1::WorkerMessage registration,
               Unanswered unanswered = nullptr)
      : name_(registration.register_().worker()),
        registration_(std::move(registration)),
        unanswered_(std::move(unanswered)),
        stub_(v1::SessionService::NewStub(rpc::Connect(address))) {
    SetDeadline(&context_);
    thread_ = std::thread([this] { Run(); });
  }
  ~StreamWorker() {
    context_.TryCancel();
    if (thread_.joinable()) thread_.join();
  }

  void WaitForWelcome() const { welcome_.WaitForNotification(); }
  // As if its process died.
  void Kill() { context_.TryCancel(); }
  // Waits for the stream's end.
  grpc::Status Finish() {
    thread_.join();
    return status_;
  }

 private:
  void Run() {
    auto stream = stub_->Session(&context_);
    stream->Write(registration_);
    v1::CoordinatorMessage message;
    v1::Assign assign;
    v1::Fence fence = registration_.fence();
    while (stream->Read(&message)) {
      fence.set_term(message.fence().term());
      if (message.has_welcome()) welcome_.Notify();
      if (message.has_assign()) {
        assign = message.assign();
        fence.set_epoch(message.fence().epoch());
      }
      if (unanswered_ != nullptr && unanswered_(message)) continue;
      auto answer = ScriptedAnswer(name_, assign, message);
      if (!answer.has_value()) continue;
      *answer->mutable_fence() = fence;
      stream->Write(*answer);
    }
    status_ = stream->Finish();
  }

  const std::string name_;
  const v1::WorkerMessage registration_;
  const Unanswered unanswered_;
  std::unique_ptr<v1::SessionService::Stub> stub_;
  grpc::ClientContext context_;
  Notification welcome_;
  grpc::Status status_;
  std::thread thread_;
};

class CoordinatorTest : public ::testing::Test {
 protected:
  void Start(size_t watch_queue_limit = 256) {
    Coordinator::Options options;
    options.listen = "127.0.0.1:0";
    // Time stands still: nobody is silent, no grace ends.
    options.clock = &clock_;
    // A session that ends is a worker that died.
    options.controller.reconnect_wait = absl::ZeroDuration();
    options.watch_queue_limit = watch_queue_limit;
    auto started = Coordinator::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    const auto channel = rpc::Connect(coordinator_->address());
    jobs_ = v1::JobService::NewStub(channel);
    cluster_ = v1::ClusterService::NewStub(channel);
    memory_ = v1::MemoryService::NewStub(channel);
  }
  StreamWorker& Join(const std::string& name,
                     StreamWorker::Unanswered unanswered = nullptr) {
    workers_.push_back(std::make_unique<StreamWorker>(
        coordinator_->address(),
        ScriptedRegistration(name, 100 + workers_.size(), "2.11"),
        std::move(unanswered)));
    workers_.back()->WaitForWelcome();
    return *workers_.back();
  }

  template <typename Request>
  static Request Versioned() {
    Request request;
    request.mutable_version()->set_version(kVersion);
    request.mutable_version()->set_protocol(kProtocolVersion);
    return request;
  }
  std::string Submit(const v1::JobSpec& spec) {
    auto request = Versioned<v1::SubmitJobRequest>();
    *request.mutable_spec() = spec;
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::SubmitJobResponse response;
    const grpc::Status status = jobs_->SubmitJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job_id();
  }
  v1::Job Get(const std::string& job_id) {
    auto request = Versioned<v1::GetJobRequest>();
    request.set_job_id(job_id);
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::Job job;
    const grpc::Status status = jobs_->GetJob(&context, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }

  struct Watching {
    Watching() { SetDeadline(&context); }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> reader;
    v1::WatchJobResponse event;
    bool Next() { return reader->Read(&event); }
  };
  std::unique_ptr<Watching> Watch(const std::string& job_id,
                                  int64_t after_revision = 0,
                                  int64_t after_step = -1,
                                  v1::JobService::Stub* stub = nullptr) {
    auto request = Versioned<v1::WatchJobRequest>();
    request.set_job_id(job_id);
    request.set_after_revision(after_revision);
    request.set_after_step(after_step);
    auto watching = std::make_unique<Watching>();
    watching->reader = (stub == nullptr ? jobs_.get() : stub)
                           ->WatchJob(&watching->context, request);
    return watching;
  }
  // On a connection whose window stays at 64 KiB, so that a reader who rests is
  // noticed soon.
  std::unique_ptr<v1::JobService::Stub> NarrowStub() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 * 1024);
    return v1::JobService::NewStub(grpc::CreateCustomChannel(
        coordinator_->address(), grpc::InsecureChannelCredentials(),
        arguments));
  }
  // Follows the job to its end.
  v1::Job Follow(const std::string& job_id) {
    auto watching = Watch(job_id);
    v1::Job last;
    while (watching->Next()) last = watching->event.job();
    const grpc::Status status = watching->reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return last;
  }

  // As above, though it may be cut as a slow watcher again and again.
  v1::Job FollowPatiently(const std::string& job_id) {
    v1::Job last;
    while (true) {
      auto watching = Watch(job_id, last.revision());
      while (watching->Next()) last = watching->event.job();
      const grpc::Status status = watching->reader->Finish();
      if (status.ok()) return last;
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    }
  }

  SimulatedClock clock_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ClusterService::Stub> cluster_;
  std::unique_ptr<v1::MemoryService::Stub> memory_;
  std::vector<std::unique_ptr<StreamWorker>> workers_;
};

TEST_F(CoordinatorTest, RunsAJobToSuccess) {
  Start();
  Join("w0");
  Join("w1");
  const v1::Job last = Follow(Submit(TinySpec(2, 3)));
  EXPECT_EQ(last.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(last.parameters_size(), 2);
  EXPECT_EQ(last.stages_size(), 2);
  const v1::Job job = Get("latest");
  EXPECT_EQ(job.steps_size(), 3);
  EXPECT_EQ(job.steps(2).loss(), 1.0);
  EXPECT_EQ(job.transport(), "shm");
}

TEST_F(CoordinatorTest, WatchStreamsStepsAndResumesByRevision) {
  Start();
  Notification reached;
  Notification go_on;
  Join("w0", [&](const v1::CoordinatorMessage& message) {
    if (message.step_begin().step() == 2) {
      reached.Notify();
      go_on.WaitForNotification();
    }
    return false;
  });
  const std::string job_id = Submit(TinySpec(1, 4));
  auto first = Watch(job_id);
  int64_t step = -1;
  while (step < 1 && first->Next()) {
    for (const auto& result : first->event.job().steps()) {
      EXPECT_EQ(result.step(), ++step);
    }
  }
  reached.WaitForNotification();
  const int64_t revision = first->event.job().revision();
  first->context.TryCancel();
  while (first->Next()) {
  }
  auto second = Watch(job_id, revision, step);
  go_on.Notify();
  while (second->Next()) {
    EXPECT_GT(second->event.job().revision(), revision);
    for (const auto& result : second->event.job().steps()) {
      EXPECT_EQ(result.step(), ++step);
    }
  }
  EXPECT_TRUE(second->reader->Finish().ok());
  EXPECT_EQ(step, 3);
  EXPECT_EQ(second->event.job().state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(CoordinatorTest, SlowWatcherIsCutAndResumes) {
  Start(/*watch_queue_limit=*/4);
  Join("w0");
  constexpr int64_t kSteps = 1500;
  const std::string job_id = Submit(TinySpec(1, kSteps));
  const auto narrow = NarrowStub();
  auto slow = Watch(job_id, 0, -1, narrow.get());
  ASSERT_TRUE(slow->Next());
  // It reads no more until the job has ended.
  EXPECT_EQ(FollowPatiently(job_id).state(), v1::JOB_STATE_SUCCEEDED);
  int64_t revision = slow->event.job().revision();
  int64_t step = -1;
  const auto note = [&](const v1::Job& job) {
    revision = job.revision();
    for (const auto& result : job.steps()) EXPECT_EQ(result.step(), ++step);
  };
  note(slow->event.job());
  while (slow->Next()) note(slow->event.job());
  const grpc::Status status = slow->reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_LT(step, kSteps - 1);
  EXPECT_TRUE(absl::StrContains(status.error_message(), "after_revision = "))
      << status.error_message();
  auto again = Watch(job_id, revision, step);
  while (again->Next()) note(again->event.job());
  EXPECT_TRUE(again->reader->Finish().ok());
  EXPECT_EQ(step, kSteps - 1);
}

TEST_F(CoordinatorTest, ADeadWorkerFailsTheJobAtOnce) {
  Start();
  Notification in_step;
  Join("w0");
  StreamWorker& victim = Join("w1", [&](const v1::CoordinatorMessage& message) {
    if (!message.has_step_begin()) return false;
    in_step.Notify();
    return true;
  });
  const std::string job_id = Submit(TinySpec(2));
  in_step.WaitForNotification();
  victim.Kill();
  const v1::Job last = Follow(job_id);
  EXPECT_EQ(last.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(last.cause().worker(), "w1");
  EXPECT_EQ(last.cause().stage(), 1);
  EXPECT_EQ(last.cause().kind(), v1::FAILURE_KIND_WORKER_LOST);
  ASSERT_EQ(last.victims_size(), 1);
  EXPECT_EQ(last.victims(0), "w0");
  // The name is free, the survivor is idle.
  Join("w1");
  EXPECT_EQ(Follow(Submit(TinySpec(2))).state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(CoordinatorTest, CancelsARunningJob) {
  Start();
  Notification in_step;
  Join("w0", [&](const v1::CoordinatorMessage& message) {
    if (!message.has_step_begin()) return false;
    in_step.Notify();
    return true;
  });
  const std::string job_id = Submit(TinySpec(1));
  in_step.WaitForNotification();
  auto request = Versioned<v1::CancelJobRequest>();
  request.set_job_id(job_id);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::CancelJobResponse response;
  ASSERT_TRUE(jobs_->CancelJob(&context, request, &response).ok());
  EXPECT_EQ(response.job().state(), v1::JOB_STATE_CANCELLING);
  EXPECT_EQ(Follow(job_id).state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorTest, MemoryIsAskedOfTheWorker) {
  Start();
  Notification in_step;
  Join("w0", [&](const v1::CoordinatorMessage& message) {
    if (!message.has_step_begin()) return false;
    in_step.Notify();
    return true;
  });
  const std::string job_id = Submit(TinySpec(1));
  in_step.WaitForNotification();
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetMemoryStatsResponse response;
  const grpc::Status status = memory_->GetStats(
      &context, Versioned<v1::GetMemoryStatsRequest>(), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.job_id(), job_id);
  ASSERT_EQ(response.workers_size(), 1);
  EXPECT_EQ(response.workers(0).allocated_bytes().peak(), 1000);
}

TEST_F(CoordinatorTest, AnotherProtocolIsRefusedToClientsAndWorkers) {
  Start();
  v1::WorkerMessage registration = ScriptedRegistration("w0", 1, "");
  registration.mutable_register_()->mutable_version()->set_protocol(99);
  StreamWorker worker(coordinator_->address(), registration);
  const grpc::Status refused = worker.Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(absl::StrContains(refused.error_message(), "protocol 99"));

  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ListWorkersRequest request;
  request.mutable_version()->set_protocol(99);
  v1::ListWorkersResponse response;
  const grpc::Status status =
      cluster_->ListWorkers(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(absl::StrContains(status.error_message(), "version skew"));
  // Of which coordinator it is can be asked all the same.
  grpc::ClientContext other;
  SetDeadline(&other);
  v1::GetCoordinatorResponse coordinator;
  ASSERT_TRUE(
      cluster_
          ->GetCoordinator(&other, v1::GetCoordinatorRequest(), &coordinator)
          .ok());
  EXPECT_EQ(coordinator.version(), kVersion);
  EXPECT_GT(coordinator.term(), 1'000'000);
}

TEST_F(CoordinatorTest, SecondWorkerOfANameIsRefused) {
  Start();
  Join("w0");
  StreamWorker second(coordinator_->address(),
                      ScriptedRegistration("w0", 7, ""));
  EXPECT_EQ(second.Finish().error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(CoordinatorTest, TermGrowsFromLifeToLife) {
  int64_t last = 0;
  for (int life = 0; life < 3; ++life) {
    Start();
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetCoordinatorResponse response;
    ASSERT_TRUE(
        cluster_
            ->GetCoordinator(&context, v1::GetCoordinatorRequest(), &response)
            .ok());
    EXPECT_GT(response.term(), last);
    last = response.term();
  }
}

TEST_F(CoordinatorTest, TakenPortAndBadTimesAreRefused) {
  Start();
  Coordinator::Options options;
  options.listen = coordinator_->address();
  EXPECT_EQ(Coordinator::Start(options).status().code(),
            absl::StatusCode::kAlreadyExists);
  options.controller.suspect = options.controller.dead;
  EXPECT_EQ(Coordinator::Start(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, ShutdownEndsEveryStream) {
  Start();
  Notification in_step;
  Notification asked;
  StreamWorker& worker = Join("w0", [&](const v1::CoordinatorMessage& message) {
    if (message.has_memory_query()) asked.Notify();
    if (message.has_step_begin()) in_step.Notify();
    return message.has_memory_query() || message.has_step_begin();
  });
  const std::string job_id = Submit(TinySpec(1));
  auto watching = Watch(job_id);
  ASSERT_TRUE(watching->Next());
  in_step.WaitForNotification();
  // A question whose answer never comes, for time stands still.
  std::thread asking([&] {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetMemoryStatsResponse response;
    EXPECT_EQ(memory_
                  ->GetStats(&context, Versioned<v1::GetMemoryStatsRequest>(),
                             &response)
                  .error_code(),
              grpc::StatusCode::UNAVAILABLE);
  });
  asked.WaitForNotification();
  coordinator_->Shutdown();
  while (watching->Next()) {
  }
  EXPECT_EQ(watching->reader->Finish().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(worker.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  asking.join();
  coordinator_->Shutdown();
}

// A stream whose client does not read cannot be ended in an orderly way.
TEST_F(CoordinatorTest, ShutdownDoesNotWaitForAClientThatDoesNotRead) {
  Start(/*watch_queue_limit=*/1'000'000);
  Join("w0");
  const std::string job_id = Submit(TinySpec(1, 1500));
  const auto narrow = NarrowStub();
  auto slow = Watch(job_id, 0, -1, narrow.get());
  ASSERT_TRUE(slow->Next());
  EXPECT_EQ(Follow(job_id).state(), v1::JOB_STATE_SUCCEEDED);
  coordinator_->Shutdown(absl::Milliseconds(50));
  while (slow->Next()) {
  }
  EXPECT_FALSE(slow->reader->Finish().ok());
}

// Workers and watchers come and go while jobs run and while the coordinator
// goes down: no use after free, no hang (run it under the sanitizers).
TEST_F(CoordinatorTest, SurvivesComingAndGoingUntilShutdown) {
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    Start(/*watch_queue_limit=*/2);
    const std::string address = coordinator_->address();
    std::atomic<bool> stop{false};
    std::atomic<int> sessions{0};
    Notification busy;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; !stop; ++i) {
          StreamWorker worker(
              address, ScriptedRegistration(absl::StrCat("w", t, "-", i),
                                            static_cast<uint64_t>(i + 1), ""));
          if (i % 2 == 0) worker.Kill();
          if (++sessions == 60) busy.Notify();
        }
      });
    }
    threads.emplace_back([&] {
      while (!stop) {
        auto request = Versioned<v1::SubmitJobRequest>();
        *request.mutable_spec() = TinySpec(1, 5);
        grpc::ClientContext context;
        SetDeadline(&context);
        v1::SubmitJobResponse response;
        if (!jobs_->SubmitJob(&context, request, &response).ok()) continue;
        auto watching = Watch(response.job_id());
        watching->Next();
        watching->context.TryCancel();
        while (watching->Next()) {
        }
        watching->reader->Finish();
      }
    });
    busy.WaitForNotification();
    coordinator_->Shutdown();
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace stagecoach::coordinator

#ifndef STAGECOACH_COORDINATOR_CONTROLLER_FIXTURE_H_
#define STAGECOACH_COORDINATOR_CONTROLLER_FIXTURE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/serial_executor.h"
#include "base/version.h"
#include "coordinator/controller.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {

// A worker's end of a session, whose answers the test decides.
struct FakeWorker : WorkerLink {
  absl::Status Send(v1::CoordinatorMessage message) override;
  void Close(const absl::Status& status) override {
    if (!closed.has_value()) closed = status;
  }

  std::string name;
  uint64_t incarnation = 0;
  int64_t epoch = 0;  // of the last Assign
  std::vector<v1::CoordinatorMessage> received;
  v1::Assign assign;    // the last
  size_t answered = 0;  // of those received
  // Outcomes that a StepBegin brought: good workers do not answer them.
  std::set<int64_t> told_together;
  std::optional<absl::Status> closed;
};

struct FakeWatcher : JobWatcher {
  absl::Status Push(v1::WatchJobResponse event) override {
    if (events.size() >= limit) return absl::ResourceExhaustedError("slow");
    events.push_back(std::move(*event.mutable_job()));
    return absl::OkStatus();
  }
  void End(const absl::Status& status) override { ended = status; }

  size_t limit = 1'000'000;
  std::vector<v1::Job> events;
  std::optional<absl::Status> ended;
};

// A controller whose executors run when the test says, with a clock that stands
// still and workers that answer by hand or, by Serve, as good workers do.
class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest();

  // ---- workers ----
  std::shared_ptr<FakeWorker> Connect();
  // Connects and registers; a worker's incarnation is 100 + how many came.
  std::shared_ptr<FakeWorker> Join(const std::string& name,
                                   const std::string& torch_version = "2.11");
  void JoinMany(int count);  // w0, w1, ...
  FakeWorker& worker(size_t index) { return *workers_[index]; }
  // With the right fence.
  void Say(FakeWorker& worker, v1::WorkerMessage message);
  void SayUnfenced(FakeWorker& worker, v1::WorkerMessage message);
  void Beat(FakeWorker& worker, const std::string& action = "", int stage = 0,
            int microbatch = 0, int64_t step = 0);
  void Fail(FakeWorker& worker, v1::FailureKind kind,
            const std::string& message, const std::string& blamed = "");
  void Disconnect(FakeWorker& worker);
  // Answers what every open worker has received, and what follows from the
  // answers, as good workers do; stops before a message of kind `until`.
  void Serve(const std::string& until = "");
  // The answer of a good worker; empty if the message wants none.
  static std::optional<v1::WorkerMessage> AnswerTo(
      const FakeWorker& worker, const v1::CoordinatorMessage& message);
  // "welcome assign connect begin:0 commit:0 ..."
  static std::string Received(const FakeWorker& worker);

  // ---- clients ----
  template <typename Request>
  static Request Versioned() {
    Request request;
    request.mutable_version()->set_version("0.0.0");
    request.mutable_version()->set_protocol(kProtocolVersion);
    return request;
  }
  // The id of the job.
  std::string Submit(const v1::JobSpec& spec,
                     const std::string& request_id = "");
  absl::StatusOr<v1::SubmitJobResponse> TrySubmit(
      const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::Job> Get(const std::string& job_id);
  absl::StatusOr<v1::Job> TryCancel(const std::string& job_id);
  v1::Job Cancel(const std::string& job_id);
  absl::Status Reschedule(const std::string& job_id,
                          const std::string& schedule);
  std::shared_ptr<FakeWatcher> Watch(const std::string& job_id,
                                     int64_t after_revision = 0,
                                     int64_t after_step = -1);
  v1::JobState StateOf(const std::string& job_id) {
    return Get(job_id)->state();
  }

  // ---- time ----
  void RunAll();
  // Ticks every 100 ms; workers in `beating` send heartbeats meanwhile.
  void Pass(absl::Duration duration,
            const std::vector<FakeWorker*>& beating = {});
  std::vector<FakeWorker*> AllBut(const std::vector<size_t>& silent);

  ControllerOptions options_;
  SimulatedClock clock_;
  ManualExecutor executor_;
  ManualExecutor planning_;
  MemoryJournal journal_;
  std::unique_ptr<Controller> controller_;
  std::vector<std::shared_ptr<FakeWorker>> workers_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_CONTROLLER_FIXTURE_H_

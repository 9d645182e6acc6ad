// Whatever workers, clients and the clock do, in whatever order: every job
// comes to an end, no worker stays busy, and at every moment the journal tells
// the same story.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/property_cases.h"
#include "coordinator/controller_fixture.h"
#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

constexpr int kSteps = 400;

class ControllerRandomTest : public ControllerTest {
 protected:
  int Draw(int bound) {
    return static_cast<int>(random_() % static_cast<uint32_t>(bound));
  }
  FakeWorker& Any() {
    return *workers_[static_cast<size_t>(
        Draw(static_cast<int>(workers_.size())))];
  }

  // Answers the oldest message that a worker has not answered.
  void AnswerOne() {
    FakeWorker& worker = Any();
    if (worker.closed.has_value() ||
        worker.answered == worker.received.size()) {
      return;
    }
    const v1::CoordinatorMessage message = worker.received[worker.answered++];
    const auto answer = AnswerTo(worker, message);
    if (!answer.has_value()) return;
    Say(worker, *answer);
    said_.push_back({&worker, worker.epoch, *answer});
  }

  // What somebody has said before, once more and out of order.
  void SayAgain() {
    if (said_.empty()) return;
    const Said said =
        said_[said_.size() - 1 -
              static_cast<size_t>(
                  Draw(static_cast<int>(std::min<size_t>(said_.size(), 20))))];
    const int64_t epoch = said.worker->epoch;
    said.worker->epoch = said.epoch;
    Say(*said.worker, said.message);
    said.worker->epoch = epoch;
  }

  void SayNonsense() {
    FakeWorker& worker = Any();
    v1::WorkerMessage message;
    switch (Draw(5)) {
      case 0:
        message.mutable_prepared()->set_step(Draw(3));
        break;
      case 1:
        message.mutable_applied()->set_step(Draw(3));
        break;
      case 2:
        message.mutable_released();
        break;
      case 3:
        message.mutable_finished();
        break;
      default:
        message.mutable_memory_report()->set_query(Draw(5));
        break;
    }
    // Of its own life, or late from another one.
    const int64_t epoch = worker.epoch;
    const uint64_t incarnation = worker.incarnation;
    if (Draw(2) == 0) worker.epoch = Draw(4);
    if (Draw(8) == 0) worker.incarnation = 100 + static_cast<uint64_t>(Draw(9));
    Say(worker, message);
    worker.epoch = epoch;
    worker.incarnation = incarnation;
  }

  void FailSomebody() {
    const v1::FailureKind kinds[] = {v1::FAILURE_KIND_WORKER_LOST,
                                     v1::FAILURE_KIND_INTERNAL,
                                     v1::FAILURE_KIND_OUT_OF_MEMORY};
    Fail(Any(), kinds[Draw(3)], "oops", Draw(2) == 0 ? Any().name : "");
  }

  void PassSomeTime() {
    std::vector<FakeWorker*> beating;
    for (const auto& worker : workers_) {
      if (Draw(4) > 0) beating.push_back(worker.get());
    }
    Pass(absl::Milliseconds(100 * (1 + Draw(12))), beating);
  }

  // Some survive failures.
  v1::JobSpec RandomSpec(int workers) {
    v1::JobSpec spec = TinySpec(workers);
    spec.mutable_recovery()->set_max_failures(Draw(3));
    spec.mutable_recovery()->set_no_progress(1 + Draw(3));
    return spec;
  }

  void DoSomething() {
    switch (Draw(40)) {
      case 0:
        return Disconnect(Any());
      case 1:
        Join(absl::StrCat("w", Draw(8)));
        return;
      case 2:
        Submit(RandomSpec(1 + Draw(4)));
        return;
      case 3:
        (void)TryCancel(absl::StrCat("job-", 1 + Draw(8)));
        return;
      case 4:
        return FailSomebody();
      case 5:
        return SayNonsense();
      case 6:
      case 7:
        return PassSomeTime();
      case 9:
        return SayAgain();
      case 8:
        watchers_.push_back(Watch("latest"));
        return;
      default:
        return AnswerOne();
    }
  }

  bool AllFinished() {
    for (const std::string& id : controller_->state().job_order()) {
      if (!IsFinished(controller_->state().FindJob(id)->state)) return false;
    }
    return true;
  }

  // The events since the last call lead a second state to where the first is.
  void CheckReplay() {
    for (; replayed_events_ < journal_.events().size(); ++replayed_events_) {
      ASSERT_TRUE(replayed_.Apply(journal_.events()[replayed_events_]).ok());
    }
    ASSERT_EQ(replayed_.DebugString(), controller_->state().DebugString());
  }

  void CheckTheEnd() {
    for (const auto& [name, worker] : controller_->state().workers()) {
      EXPECT_TRUE(worker.dead || worker.idle()) << name;
    }
    for (const std::string& id : controller_->state().job_order()) {
      const JobRecord& job = *controller_->state().FindJob(id);
      EXPECT_EQ(job.cause.has_value(), job.state == JobState::kFailed);
      EXPECT_EQ(job.parameters_sha256.empty(),
                job.state != JobState::kSucceeded);
      if (job.state == JobState::kSucceeded) {
        EXPECT_EQ(job.steps.size(), 2u);
      }
    }
    CheckReplay();
    for (const auto& watcher : watchers_) {
      ASSERT_TRUE(watcher->ended.has_value());
      if (!watcher->ended->ok()) continue;  // there was no job to watch
      for (size_t i = 1; i < watcher->events.size(); ++i) {
        EXPECT_LT(watcher->events[i - 1].revision(),
                  watcher->events[i].revision());
      }
    }
  }

  struct Said {
    FakeWorker* worker;  // one of workers_, which none leaves
    int64_t epoch;
    v1::WorkerMessage message;
  };

  std::mt19937 random_;
  std::vector<Said> said_;
  std::vector<std::shared_ptr<FakeWatcher>> watchers_;
  ClusterState replayed_;
  size_t replayed_events_ = 0;
};

TEST_F(ControllerRandomTest, EveryJobComesToAnEnd) {
  const int cases = PropertyCases(60);
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    random_.seed(static_cast<uint32_t>(seed));
    workers_.clear();
    watchers_.clear();
    said_.clear();
    journal_ = MemoryJournal();
    replayed_ = ClusterState();
    replayed_events_ = 0;
    controller_ = std::make_unique<Controller>(options_, &clock_, &executor_,
                                               &planning_, &journal_);
    JoinMany(4);
    Submit(RandomSpec(2));
    for (int i = 0; i < kSteps; ++i) {
      DoSomething();
      CheckReplay();
      if (HasFailure()) FAIL() << "after step " << i;
    }
    // From now on all is well, and there are enough workers.
    for (int i = 0; i < 4; ++i) Join(absl::StrCat("fresh", i));
    for (int second = 0; second < 60 && !AllFinished(); ++second) {
      Serve();
      Pass(absl::Seconds(1), AllBut({}));
    }
    // Those who were told to let go have 5 s for it.
    Serve();
    Pass(absl::Seconds(6), AllBut({}));
    ASSERT_TRUE(AllFinished()) << controller_->state().DebugString();
    CheckTheEnd();
    if (HasFailure()) return;
  }
  PrintCases(absl::StrCat("sequences of ", kSteps, " steps"), cases, 0);
}

}  // namespace
}  // namespace stagecoach::coordinator

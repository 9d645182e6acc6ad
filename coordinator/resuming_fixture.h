#ifndef STAGECOACH_COORDINATOR_RESUMING_FIXTURE_H_
#define STAGECOACH_COORDINATOR_RESUMING_FIXTURE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/controller_fixture.h"
#include "coordinator/journal.h"

namespace stagecoach::coordinator {

// A journal that forgets, when its coordinator dies, what was not written.
class CrashingJournal final : public Journal {
 public:
  absl::Status Append(const Event& event) override;
  void AppendLater(const Event& event) override { later_.push_back(event); }
  absl::Status Flush() override;
  size_t unwritten() const override { return later_.size(); }
  absl::Status Compact(const ClusterState& /*state*/) override {
    return absl::OkStatus();
  }
  // What the next life finds.
  ClusterState Crash();
  // The n-th event from now (from 1) cannot be written; 0: all can.
  void FailAt(int n) { fail_at_ = n; }

 private:
  bool Fails();

  std::vector<Event> durable_;
  std::vector<Event> later_;
  int fail_at_ = 0;
};

// A worker's process: what it holds outlives its sessions. Does what
// stage_worker/session does, at once. Records every outcome that it applies.
struct WorkerProcess {
  std::string name;
  uint64_t incarnation = 0;
  std::shared_ptr<FakeWorker> link;  // null: no session
  size_t seen = 0;                   // messages of this session
  bool welcomed = false;
  bool mute = false;  // what it says on this session is lost
  int64_t term = 0;

  std::string job_id;
  int64_t epoch = 0;
  v1::Assign assign;
  v1::PlacementState state = v1::PLACEMENT_STATE_NOTHING;
  v1::Resumed answers;
  std::deque<v1::KeptStep> kept;
  std::vector<v1::StepCommit> applied;  // of this placement
  std::vector<int64_t> sealed;          // checkpoints that it completed
};

// Controllers that die and go on, and workers that outlive them.
class ResumingTest : public ControllerTest {
 protected:
  ResumingTest();

  // The coordinator dies: nothing of it is left but the journal. The next life
  // starts at once.
  void Crash();
  WorkerProcess& StartProcess(const std::string& name);
  // Opens a session and registers.
  void Open(WorkerProcess& process);
  // Its session ends.
  void Break(WorkerProcess& process);
  // Deals with the next message. False: there was none.
  bool Serve(WorkerProcess& process);
  // All, until nothing is left to do.
  void ServeAll();
  void BeatAll();
  WorkerProcess& process(size_t index) { return *processes_[index]; }

  CrashingJournal crashing_;
  std::vector<std::unique_ptr<WorkerProcess>> processes_;

 private:
  int started_ = 0;  // processes

  void Answer(WorkerProcess& process, v1::WorkerMessage message);
  void Resume(WorkerProcess& process, const v1::Welcome& welcome);
  void Take(WorkerProcess& process, const v1::CoordinatorMessage& message);
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_RESUMING_FIXTURE_H_

#ifndef STAGECOACH_COORDINATOR_MEMORY_QUESTIONS_H_
#define STAGECOACH_COORDINATOR_MEMORY_QUESTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "coordinator/cluster_state.h"
#include "coordinator/links.h"
#include "stagecoach/v1/memory.pb.h"
#include "stagecoach/v1/session.pb.h"

namespace stagecoach::coordinator {

// What is asked of a job's workers beside their figures.
enum class MemoryQueryKind {
  kStats,
  kHeld,      // what is held for backwards
  kSnapshot,  // that, and the bytes after each of the last actions
  kResetPeak,
  kTrim,  // after freed memory was given back
};

// What clients ask of the memory of a job: each question goes to all workers
// that hold the job, and is answered once they have told, are gone, or
// `patience` is over. Who does not hold it any more has left its last figures
// with the job. Owned by the controller and used on its executor; `state` must
// outlive it.
class MemoryQuestions {
 public:
  using Answer =
      std::function<void(absl::StatusOr<v1::GetMemoryStatsResponse>)>;
  // To one worker, about the job of this epoch.
  using Send = std::function<void(const std::string& worker,
                                  v1::CoordinatorMessage message, Epoch epoch)>;
  // The job of a request that may be answered.
  using Find = std::function<absl::StatusOr<const JobRecord*>(
      const v1::GetMemoryStatsRequest&)>;

  MemoryQuestions(const ClusterState* state, absl::Duration patience, Send send,
                  Find find);

  // The answer may come at once.
  void Ask(MemoryQueryKind kind, const v1::GetMemoryStatsRequest& request,
           absl::Time now, Answer answer);
  // Asks again and again, at most every 100 ms, until the job is over or the
  // watcher refuses an answer.
  void Watch(const v1::WatchMemoryStatsRequest& request,
             std::shared_ptr<MemoryWatcher> watcher, absl::Time now);
  void Unwatch(const std::shared_ptr<MemoryWatcher>& watcher);

  void OnReport(const std::string& worker, const v1::MemoryReport& report);
  // Its session ended: it will not answer.
  void OnGone(const std::string& worker);
  void Tick(absl::Time now);
  // Answers everything with `status`.
  void EndAll(const absl::Status& status);

 private:
  struct Question {
    std::string job_id;
    std::set<std::string> asked;  // not answered yet
    std::map<std::string, v1::WorkerMemory> answers;
    absl::Time deadline;
    Answer answer;
  };
  struct Watched {
    v1::GetMemoryStatsRequest request;
    absl::Duration interval;
    absl::Time due = absl::InfinitePast();
    bool asking = false;
    std::shared_ptr<MemoryWatcher> watcher;
  };

  void Finish(int64_t query);
  void AskForWatches(absl::Time now);
  void Tell(const std::shared_ptr<MemoryWatcher>& watcher,
            absl::StatusOr<v1::GetMemoryStatsResponse> response);

  const ClusterState* const state_;
  const absl::Duration patience_;
  const Send send_;
  const Find find_;
  int64_t last_query_ = 0;
  std::map<int64_t, Question> questions_;
  std::vector<Watched> watches_;
};

}  // namespace stagecoach::coordinator

#endif  // STAGECOACH_COORDINATOR_MEMORY_QUESTIONS_H_

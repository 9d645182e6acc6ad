#include "coordinator/job_watches.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/publish.h"

namespace stagecoach::coordinator {
namespace {

// A step takes about 75 bytes and a message at most 4 MiB.
constexpr int64_t kMaxStepsOfEvent = 10'000;

}  // namespace

void JobWatches::Add(const JobRecord& job, const v1::WatchJobRequest& request,
                     std::shared_ptr<JobWatcher> watcher, absl::Time now) {
  Watch watch;
  watch.watcher = std::move(watcher);
  watch.revision = request.after_revision();
  // Who has no revision has no step either, whatever the other field says.
  if (request.after_revision() > 0) {
    watch.next_step =
        std::clamp<int64_t>(request.after_step() + 1 - job.first_step, 0,
                            static_cast<int64_t>(job.steps.size()));
  }
  // The last event is sent again to who may have missed it.
  if (IsFinished(job.state) || watch.revision < job.revision) {
    if (!Update(job, now, watch)) return;
  }
  watches_[job.id].push_back(std::move(watch));
}

void JobWatches::Remove(const std::shared_ptr<JobWatcher>& watcher) {
  for (auto it = watches_.begin(); it != watches_.end();) {
    auto& watches = it->second;
    watches.erase(std::remove_if(watches.begin(), watches.end(),
                                 [&](const Watch& watch) {
                                   return watch.watcher == watcher;
                                 }),
                  watches.end());
    it = watches.empty() ? watches_.erase(it) : std::next(it);
  }
}

void JobWatches::Notify(absl::Time now) {
  for (auto it = watches_.begin(); it != watches_.end();) {
    const JobRecord& job = *state_->FindJob(it->first);
    auto& watches = it->second;
    watches.erase(std::remove_if(watches.begin(), watches.end(),
                                 [&](Watch& watch) {
                                   return watch.revision < job.revision &&
                                          !Update(job, now, watch);
                                 }),
                  watches.end());
    it = watches.empty() ? watches_.erase(it) : std::next(it);
  }
}

void JobWatches::EndAll(const absl::Status& status) {
  for (const auto& [job, watches] : watches_) {
    for (const Watch& watch : watches) watch.watcher->End(status);
  }
  watches_.clear();
}

bool JobWatches::Update(const JobRecord& job, absl::Time now, Watch& watch) {
  const int64_t steps = static_cast<int64_t>(job.steps.size());
  const bool finished = IsFinished(job.state);
  while (true) {
    JobView view;
    view.first_step = watch.next_step;
    view.max_steps = kMaxStepsOfEvent;
    const bool last = steps - watch.next_step <= kMaxStepsOfEvent;
    view.spec = watch.first || (finished && last);
    view.stages = view.parameters = finished && last;
    v1::WatchJobResponse event;
    ToProto(job, view, now, event.mutable_job());
    if (!last) {
      // Part of a long history: the job is not shown as finished, and not at
      // its revision, before all of it has arrived.
      event.mutable_job()->set_revision(watch.revision);
      if (finished) event.mutable_job()->set_state(v1::JOB_STATE_RUNNING);
    }
    if (!watch.watcher->Push(std::move(event)).ok()) return false;
    watch.first = false;
    watch.next_step = std::min(steps, watch.next_step + kMaxStepsOfEvent);
    if (last) break;
  }
  watch.revision = job.revision;
  if (!finished) return true;
  watch.watcher->End(absl::OkStatus());
  return false;
}

}  // namespace stagecoach::coordinator

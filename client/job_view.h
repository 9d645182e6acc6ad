#ifndef STAGECOACH_CLIENT_JOB_VIEW_H_
#define STAGECOACH_CLIENT_JOB_VIEW_H_

#include <cstdint>

#include "stagecoach/v1/job.pb.h"

namespace stagecoach::client {

// A job as its watcher has put it together from what changed. Pure;
// thread-compatible.
class JobView {
 public:
  // Takes the newer state and adds steps that are new; each step stays once
  // whatever comes twice. What an event leaves out (stages, workers, spec)
  // stays as it was.
  void Apply(const v1::Job& event);

  const v1::Job& job() const { return job_; }
  bool finished() const;
  int64_t revision() const { return job_.revision(); }
  // -1: none yet.
  int64_t last_step() const;

 private:
  void AddNewSteps(const v1::Job& event);

  v1::Job job_;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_JOB_VIEW_H_

#include "coordinator/random_events.h"

#include <utility>

#include "coordinator/test_spec.h"

namespace stagecoach::coordinator {

EventBody RandomEvents::WorkerBody() {
  switch (random_() % 6) {
    case 0:
      return WorkerSuspected{Worker(), Text()};
    case 1:
      return WorkerAnswered{Worker()};
    case 2:
      return WorkerLost{Worker(), Text()};
    default: {
      WorkerRegistered event;
      event.worker = Worker();
      event.incarnation = Incarnation(random_());
      event.host = Text();
      return event;
    }
  }
}

WorkerReleased RandomEvents::Released(const std::string& job) {
  WorkerReleased event;
  event.worker = Worker();
  event.job_id = job;
  event.memory = Memory();
  event.finished = random_() % 2 == 0;
  event.parameters.resize(event.finished ? 2 : 0);
  event.evaluation_losses.resize(event.finished ? 3 : 0);
  return event;
}

EventBody RandomEvents::Body(const ClusterState& state) {
  const std::string job = Job();
  switch (random_() % 23) {
    case 21: {
      JobRecovering event;
      event.job_id = job;
      event.cause.message = Text();
      event.victims = {Worker()};
      event.reason = Text();
      return event;
    }
    case 22: {
      // Somewhere before, as a rule.
      const JobRecord* record = state.FindJob(job);
      const int64_t steps = record == nullptr ? 0 : record->steps_committed();
      return JobRewound{
          job,
          static_cast<int64_t>(random_() % static_cast<uint32_t>(steps + 2)),
          Text()};
    }
    case 18:
      return random_() % 2 == 0 ? EventBody(JobForgotten{job})
                                : EventBody(CoordinatorStarted{Term(
                                      static_cast<int64_t>(random_() % 50))});
    case 19:
      return JobRescheduleRequested{job, Text(), 1};
    case 16: {
      JobReplanned event;
      event.job_id = job;
      event.schedule = Text();
      event.schedule_id = Text();
      event.stages.resize(2);
      event.profile.set_copy_seconds(static_cast<double>(random_()));
      return event;
    }
    case 20: {
      MemoryPredicted event;
      event.job_id = job;
      event.workers.resize(2 + random_() % 8 / 7);
      event.workers[0].mutable_high()->set_total(
          static_cast<int64_t>(random_() % 1000));
      return event;
    }
    case 17:
      return JobRescheduled{job, Text(), Text(),   Text(),
                            1,   Text(), {Text()}, {3, 4}};
    case 0:
    case 1:
      return WorkerBody();
    case 2:
      return Released(job);
    case 3:
      return JobSubmitted{job, random_() % 2 == 0 ? "" : Text(), TinySpec(2),
                          random_() % 4 == 0};
    case 4:
      return JobPlanning{job};
    case 5: {
      JobPlanned event;
      event.job_id = job;
      event.stages.resize(2);
      event.stages[1].output_bytes = static_cast<int64_t>(random_() % 100);
      event.schedule_id = Text();
      if (random_() % 3 == 0) {
        event.first_step = 2;
        event.checkpoint = Text();
        if (random_() % 2 == 0) {
          event.loss_scale.emplace().set_value(
              static_cast<double>(random_() % 9));
        }
      }
      return event;
    }
    case 6:
      return random_() % 4 == 0 ? EventBody(JobRefused{job, Text()})
                                : EventBody(JobWaiting{job, Text()});
    case 7:
      return JobPlaced{job, state.last_epoch().Next(), Workers(state)};
    case 8:
    case 9:
      return JobRunning{job, Text(), {Text()}, {1, 2}};
    case 10:
    case 11:
    case 12: {
      if (random_() % 8 == 0) return CheckpointStored{job, 1, Text()};
      if (random_() % 8 == 0) return CheckpointFailed{job, 1, Text()};
      if (random_() % 8 == 0) {
        return CheckpointRequested{job, static_cast<int64_t>(random_() % 3)};
      }
      StepCommitted event;
      event.job_id = job;
      event.result.step = NextStep(state, job);
      event.result.loss = static_cast<double>(random_()) / 3;
      if (random_() % 2 == 0) event.result.evaluation_loss = 1.0 / 3;
      event.busy_nanoseconds = {static_cast<int64_t>(random_() % 50), 1};
      return event;
    }
    case 13: {
      JobFailing event;
      event.job_id = job;
      event.cause.message = Text();
      event.victims = {Worker()};
      return event;
    }
    case 14:
      return random_() % 2 == 0 ? EventBody(JobFailed{job})
                                : EventBody(JobCancelRequested{job, Text()});
    default:
      return random_() % 3 == 0 ? EventBody(JobSucceeded{job, {}, Text(), 0.25})
                                : EventBody(JobCancelled{job, Text()});
  }
}

}  // namespace stagecoach::coordinator

// Plans that change after a job was placed: with what its workers measured, or
// by a schedule that its user asks for.
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/controller.h"
#include "coordinator/log_fields.h"
#include "coordinator/publish.h"
#include "job/profile_proto.h"

namespace stagecoach::coordinator {
void Controller::PlanAgain(const std::string& job_id, Epoch epoch,
                           const v1::ModelProfile& profile) {
  const job::JobSpec& spec = runs_.at(job_id).run.planned().spec;
  absl::StatusOr<job::ModelProfile> measured =
      job::FromProto(profile, spec.model.layers);
  planning_->Add(
      [this, job_id, epoch, spec, profile, measured = std::move(measured)] {
        absl::StatusOr<PlannedJob> planned =
            measured.ok() ? PlanForWorkers(spec, &*measured, options_.planner)
                          : absl::StatusOr<PlannedJob>(measured.status());
        Post([this, job_id, epoch, profile,
              planned = std::move(planned)]() mutable {
          OnPlannedAgain(job_id, epoch, profile, std::move(planned));
        });
      });
}

void Controller::OnPlannedAgain(const std::string& job_id, Epoch epoch,
                                const v1::ModelProfile& profile,
                                absl::StatusOr<PlannedJob> planned) {
  // It may have ended meanwhile.
  auto it = runs_.find(job_id);
  if (!stopped_.ok() || it == runs_.end() || it->second.run.epoch() != epoch ||
      it->second.run.phase() != JobRun::Phase::kProfiling) {
    return;
  }
  if (!planned.ok()) {
    FailureReport report;
    report.kind = FailureKind::kInvalid;
    report.message = absl::StrCat("no plan for what was measured: ",
                                  planned.status().message());
    return ReportFailure(job_id, std::move(report));
  }
  JobReplanned event;
  event.job_id = job_id;
  event.schedule = ScheduleNameOf(*planned);
  event.schedule_id = planned->schedule_id;
  event.stages = StagePlansOf(planned->plan);
  event.profile = profile;
  LogInfo(absl::StrCat("planned with measured costs: schedule ", event.schedule,
                       ", ", event.stages.size(), " stages"),
          JobFields(job_id));
  if (!Commit(std::move(event))) return;
  Perform(job_id, it->second.run.Assign(
                      std::make_shared<const PlannedJob>(*std::move(planned))));
}

void Controller::EndForMemory(const std::string& job_id,
                              job::OverLimit over_limit) {
  const JobRun& run = runs_.at(job_id).run;
  const std::string worker =
      run.members()[static_cast<size_t>(over_limit.worker)].name;
  // The plan owns the schedules that the question is about.
  planning_->Add([this, job_id, epoch = run.epoch(), worker,
                  planned = run.shared_plan(),
                  over_limit = std::move(over_limit)] {
    std::string message = job::DescribeOverLimit(planned->spec, planned->plan,
                                                 worker, over_limit);
    Post([this, job_id, epoch, culprit = over_limit.worker,
          message = std::move(message)] {
      // It may have ended meanwhile.
      const auto it = runs_.find(job_id);
      if (it == runs_.end() || it->second.run.epoch() != epoch) return;
      FailureReport report;
      report.worker = culprit;
      report.kind = FailureKind::kOutOfMemory;
      report.message = message;
      ReportFailure(job_id, std::move(report));
    });
  });
}

void Controller::ReportOutOfMemory(const std::string& job_id,
                                   FailureReport report) {
  const JobRun& run = runs_.at(job_id).run;
  std::optional<job::MemoryQuestion> question = run.MemoryMeasured();
  if (!question.has_value() || run.planned().spec.memory.limit_bytes == 0) {
    return ReportFailure(job_id, std::move(report));
  }
  planning_->Add([this, job_id, epoch = run.epoch(),
                  planned = run.shared_plan(), question = *std::move(question),
                  report = std::move(report)]() mutable {
    const std::string change =
        job::ChangeThatFits(planned->spec, planned->plan, question);
    if (!change.empty()) {
      absl::StrAppend(&report.message, "; it fits with ", change);
    }
    Post([this, job_id, epoch, report = std::move(report)]() mutable {
      // It may have ended meanwhile.
      const auto it = runs_.find(job_id);
      if (it == runs_.end() || it->second.run.epoch() != epoch) return;
      ReportFailure(job_id, std::move(report));
    });
  });
}

void Controller::Reschedule(v1::RescheduleJobRequest request,
                            Reply<v1::RescheduleJobResponse> reply) {
  Post([this, request = std::move(request), reply = std::move(reply)] {
    const absl::Status status = StartReschedule(request, reply);
    if (!status.ok()) reply(status);
  });
}

absl::Status Controller::StartReschedule(
    const v1::RescheduleJobRequest& request,
    const Reply<v1::RescheduleJobResponse>& reply) {
  SC_RETURN_IF_ERROR(Admit(request.version()));
  SC_ASSIGN_OR_RETURN(const JobRecord* job, Find(request.job_id()));
  if (job->state != JobState::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrCat(job->id, " is ", JobStateName(job->state),
                     "; only a running job takes another schedule"));
  }
  const JobRun& run = runs_.at(job->id).run;
  SC_ASSIGN_OR_RETURN(
      const job::JobSpec spec,
      SpecUnder(run.planned(), request.schedule(), request.send_budget()));
  planning_->Add([this, job_id = job->id, epoch = run.epoch(), spec, reply] {
    absl::StatusOr<PlannedJob> planned =
        PlanForWorkers(spec, /*profile=*/nullptr, options_.planner);
    Post([this, job_id, epoch, reply, planned = std::move(planned)]() mutable {
      reply(TakeSchedule(job_id, epoch, std::move(planned)));
    });
  });
  return absl::OkStatus();
}

absl::StatusOr<v1::RescheduleJobResponse> Controller::TakeSchedule(
    const std::string& job_id, Epoch epoch,
    absl::StatusOr<PlannedJob> planned) {
  SC_RETURN_IF_ERROR(stopped_);
  SC_RETURN_IF_ERROR(planned.status());
  const JobRecord* job = state_.FindJob(job_id);
  auto it = runs_.find(job_id);
  if (it == runs_.end() || it->second.run.epoch() != epoch ||
      job->state != JobState::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrCat(job_id, " is ", JobStateName(job->state), " by now"));
  }
  JobRun& run = it->second.run;
  if (planned->plan.schedule.placement !=
      run.planned().plan.schedule.placement) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", planned->plan.schedule.kind,
        " has its stages on other workers than ",
        run.planned().plan.schedule.kind,
        "; between steps only the order can change, not the placement"));
  }
  SC_RETURN_IF_ERROR(run.CheckMemory(*planned));
  if (run.IsChangingPlan()) {
    return absl::FailedPreconditionError(absl::StrCat(
        job_id,
        " is just changing its schedule, or its workers are coming "
        "back; ask again in a moment"));
  }
  // The one that it has already: whatever waits does not any more.
  const bool same = planned->schedule_id == run.planned().schedule_id;
  if (!same || !job->next_schedule.empty()) {
    JobRescheduleRequested event;
    event.job_id = job_id;
    if (!same) {
      event.requested = planned->spec.pipeline.schedule;
      event.send_budget = planned->spec.pipeline.send_budget;
    }
    SC_RETURN_IF_ERROR(TryCommit(std::move(event)));
  }
  LogInfo(absl::StrCat("takes schedule ", planned->plan.schedule.kind,
                       " at the next step"),
          JobFields(job_id));
  run.Reschedule(
      same ? nullptr : std::make_shared<const PlannedJob>(*std::move(planned)));
  v1::RescheduleJobResponse response;
  JobView view;
  view.spec = true;
  ToProto(*job, view, WallNow(), response.mutable_job());
  return response;
}

}  // namespace stagecoach::coordinator

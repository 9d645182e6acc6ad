#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cluster_state.h"

namespace stagecoach::coordinator {
namespace {

// Bit for bit, unlike %g.
std::string Exact(double value) { return absl::StrFormat("%a", value); }

std::string Exact(const std::optional<double>& value) {
  return value.has_value() ? Exact(*value) : "none";
}

std::string Dump(const WorkerRecord& worker) {
  return absl::StrCat("worker ", worker.name, " ", worker.incarnation.value(),
                      " ", worker.host, " ", worker.process_id, " ",
                      worker.device, " ", worker.version, " ",
                      worker.torch_version, " ", worker.peer_address,
                      " suspect=", worker.suspect, " dead=", worker.dead,
                      " job=", worker.job_id, " ", worker.reason, "\n");
}

std::string Dump(const JobWorkerRecord& worker) {
  std::string text = absl::StrCat(
      "  worker ", worker.name, " pool=", worker.receive_pool_bytes,
      " busy=", worker.busy_nanoseconds, " finished=", worker.finished, " ",
      worker.memory ? worker.memory->ShortDebugString() : "none", " predicted=",
      worker.predicted ? worker.predicted->ShortDebugString() : "none", "\n");
  for (const MicrobatchLossSum& loss : worker.evaluation_losses) {
    absl::StrAppend(&text, "    evaluation ", loss.microbatch, " ",
                    Exact(loss.loss_sum), "\n");
  }
  for (const v1::ParameterDigest& parameter : worker.parameters) {
    absl::StrAppend(&text, "    ", parameter.ShortDebugString(), "\n");
  }
  return text;
}

std::string Dump(const StepRecord& step) {
  return absl::StrCat(
      "  step ", step.step, " ", Exact(step.loss), " ", Exact(step.grad_norm),
      " ", Exact(step.learning_rate), " ", Exact(step.seconds), " ",
      Exact(step.compute_seconds), " ", Exact(step.tokens_per_second), " ",
      step.skipped, " ", Exact(step.evaluation_loss), "\n");
}

std::string Dump(const FailureCause& cause) {
  return absl::StrCat("  cause ", static_cast<int>(cause.kind), " ",
                      cause.stage, " ", cause.worker, " ", cause.action, " ",
                      cause.microbatch, " ", cause.step, " ", cause.message,
                      "\n");
}

std::string Dump(const JobEventDetails& details) {
  return absl::StrCat(details.message, " ", details.epoch.value(), " ",
                      absl::StrJoin(details.workers, ","), " ",
                      absl::StrJoin(details.victims, ","),
                      details.cause.has_value() ? Dump(*details.cause) : "");
}

std::string Dump(const JobHistoryEntry& entry) {
  return absl::StrCat("  event ", entry.revision, " ", entry.kind, " ",
                      entry.step, " ", absl::FormatTime(entry.at), " ",
                      entry.details == nullptr ? "" : Dump(*entry.details),
                      "\n");
}

std::string Dump(const RecoveryRecord& recovery) {
  return absl::StrCat("  recovery ", absl::FormatTime(recovery.failed), " ",
                      recovery.steps_before, " ", recovery.step, " ",
                      absl::FormatTime(recovery.caught_up), " ",
                      absl::StrJoin(recovery.victims, ","), "\n",
                      Dump(recovery.cause));
}

std::string Dump(const JobRecord& job) {
  std::string text = absl::StrCat(
      "job ", job.id, " ", job.request_id, " ", JobStateName(job.state),
      " planned=", job.planned, " ", job.schedule, " ", job.schedule_id,
      " epoch=", job.epoch.value(), " ", job.transport,
      " edges=", absl::StrJoin(job.edges, ","), " revision=", job.revision,
      " placed=", absl::FormatTime(job.placed),
      " finished=", absl::FormatTime(job.finished), " ", job.parameters_sha256,
      " profile=", job.profile ? job.profile->ShortDebugString() : "none",
      " evaluation=", Exact(job.evaluation_loss),
      " requested=", job.requested_schedule, "/", job.requested_send_budget,
      " next=", job.next_schedule, "/", job.next_send_budget,
      " victims=", absl::StrJoin(job.victims, ","), " ", job.reason, "\n  ",
      job.spec.ShortDebugString(), "\n  resume=", job.resume,
      " first_step=", job.first_step, " checkpoint=", job.checkpoint_step, " ",
      job.checkpoint_path, " ", job.failed_checkpoint_step, " ",
      job.checkpoint_error, "\n  begin=", job.begin_step, " ",
      job.begin_checkpoint, " rewound=", job.rewound, " loss_scale=",
      job.first_loss_scale ? job.first_loss_scale->ShortDebugString() : "none",
      " asked=", job.requested_checkpoint_step, "\n");
  for (const StagePlan& stage : job.stages) {
    absl::StrAppend(&text, "  stage ", stage.layer_begin, " ", stage.layer_end,
                    " ", stage.worker, " ", stage.output_bytes, "\n");
  }
  for (const JobWorkerRecord& worker : job.workers) text += Dump(worker);
  for (const StepRecord& step : job.steps) text += Dump(step);
  if (job.cause.has_value()) text += Dump(*job.cause);
  for (const RecoveryRecord& recovery : job.recoveries) text += Dump(recovery);
  for (const JobHistoryEntry& entry : job.history) text += Dump(entry);
  for (const v1::ParameterDigest& parameter : job.parameters) {
    absl::StrAppend(&text, "  ", parameter.ShortDebugString(), "\n");
  }
  return text;
}

}  // namespace

std::string ClusterState::DebugString() const {
  std::string text = absl::StrCat(
      "term ", last_term_.value(), " epoch ", last_epoch_.value(), " jobs ",
      jobs_submitted_, "\nqueue ", absl::StrJoin(queue_, ","), "\norder ",
      absl::StrJoin(job_order_, ","), "\n");
  for (const auto& [name, worker] : workers_) text += Dump(worker);
  for (const auto& [id, job] : jobs_) text += Dump(job);
  for (const auto& [request, job] : requests_) {
    absl::StrAppend(&text, "request ", request, " ", job, "\n");
  }
  return text;
}

}  // namespace stagecoach::coordinator

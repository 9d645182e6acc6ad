#include "client/run_job.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/status.h"
#include "client/daemon_binary.h"
#include "client/exit_codes.h"
#include "client/follow.h"
#include "client/job_client.h"
#include "client/local_cluster.h"
#include "client/output/job_output.h"
#include "client/progress.h"
#include "job/spec_proto.h"

namespace stagecoach::client {
namespace {

constexpr int kTailLines = 10;

absl::StatusOr<std::unique_ptr<LocalCluster>> StartCluster(
    const job::JobSpec& spec, const RunOptions& options, Interrupt* interrupt) {
  LocalClusterOptions cluster;
  SC_ASSIGN_OR_RETURN(cluster.coordinator_binary,
                      FindDaemon(CoordinatorBinary(), ExecutableFolder()));
  SC_ASSIGN_OR_RETURN(cluster.worker_binary,
                      FindDaemon(WorkerBinary(), ExecutableFolder()));
  cluster.workers = static_cast<int>(spec.pipeline.workers);
  cluster.log_folder = options.log_folder;
  return LocalCluster::Start(cluster, interrupt);
}

RunOutcome Failed(const absl::Status& status) {
  RunOutcome outcome;
  outcome.exit_code = ExitCodeOf(status);
  outcome.message = std::string(status.message());
  return outcome;
}

RunOutcome CancelledBeforeSubmit() {
  RunOutcome outcome;
  outcome.exit_code = kExitCancelled;
  outcome.message = "cancelled before the job was submitted";
  return outcome;
}

// The end of one process's log, if it wrote any.
std::string LogOf(const LocalCluster& cluster, const std::string& name) {
  const std::string tail = cluster.LogTail(name, kTailLines);
  if (tail.empty()) return "";
  return absl::StrCat("the end of the log of ", name, ":\n", tail);
}

// Whose log says most about a failure.
std::string CulpritOf(const RunOutcome& outcome, const LocalCluster& cluster) {
  if (const std::optional<ChildExit> exit = cluster.FirstExit()) {
    return exit->name;
  }
  return outcome.job.cause().worker();
}

RunOutcome OutcomeOf(const v1::Job& job, const absl::Status& status,
                     const LocalCluster* cluster) {
  RunOutcome outcome = Failed(status);
  outcome.job = job;
  if (status.ok()) outcome.exit_code = ExitCodeOf(job);
  if (status.ok() && job.state() == v1::JOB_STATE_FAILED) {
    outcome.message = FailureText(job);
  }
  if (status.ok() && job.state() == v1::JOB_STATE_CANCELLED) {
    outcome.message = absl::StrCat("job ", job.id(), " was cancelled");
  }
  if (absl::IsAborted(status) && cluster != nullptr) {
    outcome.exit_code = cluster->FirstExit()->is_coordinator ? kExitUnreachable
                                                             : kExitWorkerLost;
  }
  const bool failed =
      !outcome.message.empty() && job.state() != v1::JOB_STATE_CANCELLED;
  if (failed && cluster != nullptr) {
    outcome.details = LogOf(*cluster, CulpritOf(outcome, *cluster));
  }
  return outcome;
}

RunOutcome SubmitAndFollow(const job::JobSpec& spec, bool resume,
                           const std::string& endpoint, LocalCluster* cluster,
                           Interrupt* interrupt, Context* context) {
  JobClient client(endpoint);
  v1::JobSpec proto;
  job::ToProto(spec, &proto);
  const absl::StatusOr<std::string> job_id = client.Submit(proto, resume);
  if (!job_id.ok()) return OutcomeOf(v1::Job(), job_id.status(), cluster);
  *context->error << "job " << *job_id << " submitted" << std::endl;

  ProgressPrinter::Options show;
  show.terminal = context->error_is_terminal;
  show.columns = context->columns;
  show.steps_total = spec.training.steps;
  ProgressPrinter progress(context->error, Clock::Real(), show);
  Follower::Options follow;
  follow.cancel_on_interrupt = true;
  follow.cluster = cluster;
  follow.restarts = spec.recovery.max_failures;
  Follower follower(&client, interrupt, &progress, follow);
  const absl::Status status = follower.Follow(*job_id);
  v1::Job job = follower.job();
  // No event came before the error.
  if (job.id().empty()) job.set_id(*job_id);
  return OutcomeOf(job, status, cluster);
}

}  // namespace

RunOutcome RunJob(const job::JobSpec& spec, const RunOptions& options,
                  Interrupt* interrupt, Context* context) {
  if (!options.local) {
    return SubmitAndFollow(spec, options.resume, context->endpoint, nullptr,
                           interrupt, context);
  }
  const absl::StatusOr<std::unique_ptr<LocalCluster>> cluster =
      StartCluster(spec, options, interrupt);
  if (!cluster.ok()) {
    return interrupt->Take(Interrupt::Reason::kUser) ? CancelledBeforeSubmit()
                                                     : Failed(cluster.status());
  }
  const std::string& address = (*cluster)->address();
  *context->error << "coordinator at " << address << "; stagecoach --endpoint "
                  << address << " memory stats" << std::endl;
  if (interrupt->Take(Interrupt::Reason::kUser)) return CancelledBeforeSubmit();
  RunOutcome outcome = SubmitAndFollow(spec, options.resume, address,
                                       cluster->get(), interrupt, context);
  (*cluster)->Stop();
  return outcome;
}

}  // namespace stagecoach::client

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "client/checkpoint_commands.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/job_client.h"
#include "client/job_view.h"
#include "client/output/job_output.h"
#include "client/output/json.h"
#include "client/signals.h"

namespace stagecoach::client {
namespace {

constexpr char kJobHelp[] = "Id of the job, or \"latest\"";

// ---- checkpoint -------------------------------------------------------------

// What a watcher of the job learns of the checkpoint with `step` updates.
class Attempt {
 public:
  explicit Attempt(int64_t step) : step_(step) {}

  // True once its fate is known.
  bool Look(const v1::Job& job) {
    const v1::JobCheckpoint& checkpoint = job.checkpoint();
    if (checkpoint.step() >= step_ && !checkpoint.path().empty()) {
      path_ = checkpoint.path();
    } else if (checkpoint.failed_step() >= step_) {
      error_ = checkpoint.error();
    }
    return !path_.empty() || !error_.empty();
  }
  const std::string& path() const { return path_; }
  const std::string& error() const { return error_; }

 private:
  const int64_t step_;
  std::string path_;
  std::string error_;
};

// Until the checkpoint is stored, or the job has ended without.
absl::StatusOr<std::string> WaitForCheckpoint(
    JobClient* client, const v1::CheckpointJobResponse& asked,
    Interrupt* interrupt) {
  Attempt attempt(asked.step());
  JobView view;
  const absl::Status status =
      client->Watch(asked.job_id(), absl::InfiniteFuture(), interrupt, &view,
                    [&](const v1::Job& job) {
                      if (!attempt.Look(job)) return;
                      interrupt->Raise(Interrupt::Reason::kChildEnded);
                    });
  if (!attempt.path().empty()) return attempt.path();
  if (!attempt.error().empty()) return absl::InternalError(attempt.error());
  SC_RETURN_IF_ERROR(status);
  return absl::FailedPreconditionError(
      absl::StrCat(asked.job_id(), " ended (", JobStateName(view.job().state()),
                   ") before the checkpoint was written"));
}

absl::StatusOr<int> Checkpoint(const std::string& job_id, Context* context) {
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  JobClient client(context->endpoint);
  SC_ASSIGN_OR_RETURN(const v1::CheckpointJobResponse asked,
                      client.Checkpoint(job_id));
  *context->error << asked.job_id() << ": a checkpoint after " << asked.step()
                  << " steps" << std::endl;
  SC_ASSIGN_OR_RETURN(const std::string path,
                      WaitForCheckpoint(&client, asked, interrupt));
  if (context->json()) {
    Json document;
    document["job_id"] = asked.job_id();
    document["step"] = asked.step();
    document["path"] = path;
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << path << std::endl;
  }
  return kExitDone;
}

void AddCheckpoint(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "checkpoint",
      "Store a running job's state after the step it is in; waits until it is "
      "on the disk and prints its folder",
      {"stagecoach job checkpoint latest",
       "stagecoach job checkpoint JOB -o json"});
  auto job_id = std::make_shared<std::string>();
  verb->add_option("JOB", *job_id, kJobHelp)->required();
  SetAction(verb, context,
            [job_id, context] { return Checkpoint(*job_id, context); });
}

// ---- resume -----------------------------------------------------------------

absl::StatusOr<int> Resume(const std::string& job_id, Context* context) {
  JobClient client(context->endpoint);
  SC_ASSIGN_OR_RETURN(const v1::Job job, client.Get(job_id));
  if (!IsFinished(job.state())) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(), " is ", JobStateName(job.state()),
                     "; only a job that has ended can be resumed"));
  }
  if (job.spec().checkpoint().directory().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job.id(), " has no checkpoint.directory"));
  }
  SC_ASSIGN_OR_RETURN(const std::string resumed,
                      client.Submit(job.spec(), /*resume=*/true));
  if (context->json()) {
    Json document;
    document["job_id"] = resumed;
    document["resumes"] = job.id();
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << resumed << std::endl;
  }
  return kExitDone;
}

void AddResume(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "resume",
      "Submit the spec of a job that has ended again, to go on from its newest "
      "sound checkpoint; prints the new job's id",
      {"stagecoach job resume latest", "stagecoach job resume JOB -o json"});
  auto job_id = std::make_shared<std::string>();
  verb->add_option("JOB", *job_id, kJobHelp)->required();
  SetAction(verb, context,
            [job_id, context] { return Resume(*job_id, context); });
}

}  // namespace

void AddJobCheckpointVerbs(CLI::App* group, Context* context) {
  AddCheckpoint(group, context);
  AddResume(group, context);
}

}  // namespace stagecoach::client

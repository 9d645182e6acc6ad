#include "client/job_commands.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status.h"
#include "client/checkpoint_commands.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/follow.h"
#include "client/job_client.h"
#include "client/job_stream_commands.h"
#include "client/output/job_output.h"
#include "client/output/json.h"
#include "client/progress.h"
#include "client/signals.h"
#include "client/spec_arguments.h"
#include "client/time_argument.h"
#include "job/schedule_source.h"
#include "job/spec_proto.h"

namespace stagecoach::client {
namespace {

constexpr char kJobHelp[] = "Id of the job, or \"latest\"";

void PrintJob(const v1::Job& job, Context* context) {
  *context->out << (context->json() ? Dump(JobJson(job)) : JobText(job))
                << std::flush;
}

// ---- submit -----------------------------------------------------------------

struct SubmitArguments {
  SpecArguments spec;
  bool resume = false;
};

absl::StatusOr<int> Submit(const SubmitArguments& arguments, Context* context) {
  SC_ASSIGN_OR_RETURN(const CheckedSpec spec, LoadSpec(arguments.spec));
  v1::JobSpec proto;
  job::ToProto(spec.spec(), &proto);
  SC_ASSIGN_OR_RETURN(
      const std::string job_id,
      JobClient(context->endpoint).Submit(proto, arguments.resume));
  if (context->json()) {
    Json document;
    document["job_id"] = job_id;
    *context->out << Dump(document) << std::flush;
  } else {
    *context->out << job_id << std::endl;
  }
  return kExitDone;
}

void AddSubmit(CLI::App* group, Context* context) {
  CLI::App* verb =
      AddVerb(group, "submit", "Submit a job and print its id",
              {"stagecoach job submit job.toml",
               "stagecoach job submit job.toml --set pipeline.workers=2",
               "stagecoach job submit job.toml --resume"});
  auto arguments = std::make_shared<SubmitArguments>();
  AddSpecArguments(verb, &arguments->spec);
  AddResumeFlag(verb, &arguments->resume);
  SetAction(verb, context,
            [arguments, context] { return Submit(*arguments, context); });
}

// ---- list -------------------------------------------------------------------

absl::StatusOr<int> List(Context* context) {
  SC_ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
                      JobClient(context->endpoint).List());
  *context->out << (context->json() ? Dump(JobListJson(response))
                                    : JobListText(response))
                << std::flush;
  return kExitDone;
}

void AddList(CLI::App* group, Context* context) {
  CLI::App* verb =
      AddVerb(group, "list", "All jobs and their states",
              {"stagecoach job list", "stagecoach job list -o json"});
  SetAction(verb, context, [context] { return List(context); });
}

// ---- show -------------------------------------------------------------------

absl::StatusOr<int> Show(const std::string& job_id, Context* context) {
  SC_ASSIGN_OR_RETURN(const v1::Job job,
                      JobClient(context->endpoint).Get(job_id));
  PrintJob(job, context);
  if (job.state() == v1::JOB_STATE_FAILED && !context->json()) {
    *context->out << FailureText(job) << std::endl;
  }
  return kExitDone;
}

void AddShow(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "show", "Steps, workers and stages of a job",
      {"stagecoach job show latest", "stagecoach job show JOB -o json"});
  auto job_id = std::make_shared<std::string>();
  verb->add_option("JOB", *job_id, kJobHelp)->required();
  SetAction(verb, context,
            [job_id, context] { return Show(*job_id, context); });
}

// ---- wait -------------------------------------------------------------------

struct WaitArguments {
  std::string job_id;
  std::string timeout;
};

void PrintWaited(const v1::Job& job, int exit_code, const std::string& message,
                 Context* context) {
  if (context->json()) {
    Json document = JobJson(job);
    if (exit_code != kExitDone) AddError(exit_code, message, &document);
    *context->out << Dump(document) << std::flush;
  } else if (IsFinished(job.state())) {
    *context->out << JobText(job) << std::flush;
  }
  if (!message.empty()) *context->error << "stagecoach: " << message << "\n";
}

absl::StatusOr<int> Wait(const WaitArguments& arguments, Context* context) {
  SC_ASSIGN_OR_RETURN(const absl::Duration timeout,
                      ParseTimeArgument("--timeout", arguments.timeout));
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  JobClient client(context->endpoint);
  // Turns "latest" into an id that stays, and an unknown id into an error.
  SC_ASSIGN_OR_RETURN(const v1::Job known, client.Get(arguments.job_id));

  ProgressPrinter::Options show;
  show.terminal = context->error_is_terminal;
  show.columns = context->columns;
  show.steps_total = known.spec().training().steps();
  ProgressPrinter progress(context->error, Clock::Real(), show);
  Follower::Options follow;
  follow.timeout = timeout;
  Follower follower(&client, interrupt, &progress, follow);
  const absl::Status status = follower.Follow(known.id());
  const v1::Job& job = follower.job().id().empty() ? known : follower.job();
  if (!status.ok() && !absl::IsDeadlineExceeded(status) &&
      !absl::IsCancelled(status)) {
    return status;
  }
  const int exit_code = status.ok() ? ExitCodeOf(job) : ExitCodeOf(status);
  std::string message(status.message());
  if (status.ok() && job.state() == v1::JOB_STATE_FAILED) {
    message = FailureText(job);
  }
  PrintWaited(job, exit_code, message, context);
  return exit_code;
}

void AddWait(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "wait",
      "Follow a job to its end; Ctrl-C leaves it, and the job goes on",
      {"stagecoach job wait latest", "stagecoach job wait JOB --timeout 5m"});
  auto arguments = std::make_shared<WaitArguments>();
  verb->add_option("JOB", arguments->job_id, kJobHelp)->required();
  verb->add_option("--timeout", arguments->timeout,
                   "Give up after this time with exit code 101 (30s, 5m; a "
                   "number is seconds)");
  SetAction(verb, context,
            [arguments, context] { return Wait(*arguments, context); });
}

// ---- cancel -----------------------------------------------------------------

absl::StatusOr<int> Cancel(const std::string& job_id, Context* context) {
  SC_ASSIGN_OR_RETURN(
      const v1::Job job,
      JobClient(context->endpoint).Cancel(job_id, "cancelled by the user"));
  if (context->json()) {
    PrintJob(job, context);
  } else {
    *context->out << "job " << job.id() << " " << JobStateName(job.state())
                  << std::endl;
  }
  return kExitDone;
}

void AddCancel(CLI::App* group, Context* context) {
  CLI::App* verb =
      AddVerb(group, "cancel", "End a job",
              {"stagecoach job cancel latest", "stagecoach job cancel JOB"});
  auto job_id = std::make_shared<std::string>();
  verb->add_option("JOB", *job_id, kJobHelp)->required();
  SetAction(verb, context,
            [job_id, context] { return Cancel(*job_id, context); });
}

// ---- reschedule -------------------------------------------------------------

struct RescheduleArguments {
  std::string job_id;
  std::string schedule;
  int64_t send_budget = 0;
};

absl::StatusOr<int> Reschedule(const RescheduleArguments& arguments,
                               Context* context) {
  std::string schedule = arguments.schedule;
  // The coordinator reads it, from a folder of its own.
  if (job::IsScheduleFile(schedule)) {
    schedule = std::filesystem::absolute(schedule).string();
  }
  SC_ASSIGN_OR_RETURN(
      const v1::Job job,
      JobClient(context->endpoint)
          .Reschedule(arguments.job_id, schedule, arguments.send_budget));
  if (context->json()) {
    PrintJob(job, context);
  } else {
    *context->out << "job " << job.id() << " takes schedule "
                  << arguments.schedule << " at the next step" << std::endl;
  }
  return kExitDone;
}

void AddReschedule(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "reschedule",
      "Give a running job another schedule, between two steps; its numbers "
      "stay the same",
      {"stagecoach job reschedule latest --schedule zb-h1",
       "stagecoach job reschedule JOB --schedule list.txt --send-budget 1"});
  auto arguments = std::make_shared<RescheduleArguments>();
  verb->add_option("JOB", arguments->job_id, kJobHelp)->required();
  verb->add_option("--schedule", arguments->schedule,
                   "A kind, or a schedule file; stages must lie on the workers "
                   "where they are")
      ->required();
  verb->add_option("--send-budget", arguments->send_budget,
                   "Unacknowledged transfers per edge (default: as before)")
      ->check(CLI::PositiveNumber);
  SetAction(verb, context,
            [arguments, context] { return Reschedule(*arguments, context); });
}

}  // namespace

void AddJobCommands(CLI::App* app, Context* context) {
  CLI::App* group = AddGroup(app, "job", "The life of jobs");
  AddSubmit(group, context);
  AddList(group, context);
  AddShow(group, context);
  AddWait(group, context);
  AddCancel(group, context);
  AddReschedule(group, context);
  AddJobStreamCommands(group, context);
  AddJobCheckpointVerbs(group, context);
}

}  // namespace stagecoach::client

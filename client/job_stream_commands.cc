#include "client/job_stream_commands.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/job_client.h"
#include "client/output/job_output.h"
#include "client/output/json.h"
#include "client/output/log_output.h"
#include "client/signals.h"

namespace stagecoach::client {
namespace {

constexpr char kJobHelp[] = "Id of the job, or \"latest\"";
constexpr char kFollowHelp[] =
    "Go on until the job is over; Ctrl-C leaves it, and the job goes on";

// Left by Ctrl-C: how to go on from there.
void PrintResume(const std::string& how, Context* context) {
  *context->error << "stagecoach: interrupted; go on with " << how << std::endl;
}

// ---- events -----------------------------------------------------------------

struct EventArguments {
  std::string job_id;
  bool follow = false;
  int64_t after = 0;
};

absl::StatusOr<int> Events(const EventArguments& arguments, Context* context) {
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  JobClient client(context->endpoint);
  // Turns "latest" into an id that stays.
  SC_ASSIGN_OR_RETURN(const v1::Job job, client.Get(arguments.job_id));
  v1::StreamEventsRequest request;
  request.set_job_id(job.id());
  request.set_after_revision(arguments.after);
  request.set_follow(arguments.follow);
  v1::StreamEnd end;
  const absl::Status status = client.StreamEvents(
      &request, interrupt,
      [&](const v1::JobEvent& event) {
        *context->out << (context->json() ? DumpLine(EventJson(job.id(), event))
                                          : EventText(event))
                      << std::flush;
      },
      &end);
  if (absl::IsCancelled(status)) {
    PrintResume(absl::StrCat("--after ", request.after_revision()), context);
    return kExitInterrupted;
  }
  SC_RETURN_IF_ERROR(status);
  if (context->json()) *context->out << DumpLine(EndJson(end)) << std::flush;
  return kExitDone;
}

void AddEvents(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "events",
      "What has happened to a job: submitted, planned, placed, each step, ...",
      {"stagecoach job events latest", "stagecoach job events JOB -f -o json",
       "stagecoach job events JOB -f --after 12"});
  auto arguments = std::make_shared<EventArguments>();
  verb->add_option("JOB", arguments->job_id, kJobHelp)->required();
  verb->add_flag("-f,--follow", arguments->follow, kFollowHelp);
  verb->add_option("--after", arguments->after,
                   "Only events after this revision (of the last one seen)")
      ->check(CLI::NonNegativeNumber);
  SetAction(verb, context,
            [arguments, context] { return Events(*arguments, context); });
}

// ---- logs -------------------------------------------------------------------

struct LogArguments {
  std::string job_id;
  std::string worker;
  bool follow = false;
  std::vector<std::string> offsets;
};

// "w0=123", or "123" with --worker.
absl::StatusOr<std::map<std::string, int64_t>> ParseOffsets(
    const LogArguments& arguments) {
  std::map<std::string, int64_t> offsets;
  for (const std::string& text : arguments.offsets) {
    const size_t equals = text.rfind('=');
    std::string worker = arguments.worker;
    if (equals != std::string::npos) worker = text.substr(0, equals);
    int64_t offset = 0;
    if (worker.empty() ||
        !absl::SimpleAtoi(
            text.substr(equals == std::string::npos ? 0 : equals + 1),
            &offset) ||
        offset < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--offset ", text,
          " is no WORKER=BYTES, nor a number of bytes with --worker"));
    }
    offsets[worker] = offset;
  }
  return offsets;
}

LogPrinter::Style StyleOf(const LogArguments& arguments,
                          const Context& context) {
  if (context.json()) return LogPrinter::Style::kJson;
  return arguments.worker.empty() ? LogPrinter::Style::kPrefixed
                                  : LogPrinter::Style::kRaw;
}

void PrintPiece(const v1::LogPiece& piece, LogPrinter* printer,
                Context* context) {
  int64_t lost_bytes = 0;
  const std::string text = printer->Print(piece, &lost_bytes);
  if (lost_bytes > 0) {
    *context->error << "stagecoach: " << lost_bytes << " bytes of the log of "
                    << piece.worker() << " are no longer kept" << std::endl;
  }
  *context->out << text << std::flush;
}

void PrintEnd(const v1::StreamEnd& end, LogPrinter* printer, Context* context) {
  *context->out << printer->Flush();
  if (context->json()) {
    *context->out << DumpLine(EndJson(end));
  } else if (end.over()) {
    *context->out << "[end of the log of " << end.job_id() << ": "
                  << JobStateName(end.state()) << "]\n";
  }
  *context->out << std::flush;
}

std::string ResumeWords(const v1::StreamLogsRequest& request) {
  std::string words;
  for (const v1::LogPosition& position : request.from()) {
    absl::StrAppend(&words, words.empty() ? "" : " ", "--offset ",
                    position.worker(), "=", position.offset());
  }
  return words.empty() ? "the same command" : words;
}

absl::StatusOr<int> Logs(const LogArguments& arguments, Context* context) {
  SC_ASSIGN_OR_RETURN(const auto offsets, ParseOffsets(arguments));
  Interrupt* const interrupt = InterruptOnSignals(kExitInterrupted);
  JobClient client(context->endpoint);
  // Turns "latest" into an id that stays.
  SC_ASSIGN_OR_RETURN(const v1::Job job, client.Get(arguments.job_id));
  LogPrinter printer(StyleOf(arguments, *context));
  v1::StreamLogsRequest request;
  request.set_job_id(job.id());
  request.set_worker(arguments.worker);
  request.set_follow(arguments.follow);
  for (const auto& [worker, offset] : offsets) {
    v1::LogPosition* position = request.add_from();
    position->set_worker(worker);
    position->set_offset(offset);
    printer.StartAt(worker, offset);
  }
  v1::StreamEnd end;
  const absl::Status status = client.StreamLogs(
      &request, interrupt,
      [&](const v1::LogPiece& piece) { PrintPiece(piece, &printer, context); },
      &end);
  if (absl::IsCancelled(status)) {
    *context->out << printer.Flush() << std::flush;
    PrintResume(ResumeWords(request), context);
    return kExitInterrupted;
  }
  SC_RETURN_IF_ERROR(status);
  PrintEnd(end, &printer, context);
  return kExitDone;
}

void AddLogs(CLI::App* group, Context* context) {
  CLI::App* verb = AddVerb(
      group, "logs", "What the workers of a job have logged about it",
      {"stagecoach job logs latest", "stagecoach job logs JOB -f",
       "stagecoach job logs JOB -f --worker w1 --offset 4096",
       "stagecoach job logs JOB --offset w0=120 --offset w1=80 -o json"});
  auto arguments = std::make_shared<LogArguments>();
  verb->add_option("JOB", arguments->job_id, kJobHelp)->required();
  verb->add_flag("-f,--follow", arguments->follow, kFollowHelp);
  verb->add_option("--worker", arguments->worker,
                   "Only this worker's, byte by byte as it was written");
  verb->add_option("--offset", arguments->offsets,
                   "Go on behind so many bytes: WORKER=BYTES, or BYTES with "
                   "--worker; may be repeated")
      ->allow_extra_args(false);
  SetAction(verb, context,
            [arguments, context] { return Logs(*arguments, context); });
}

}  // namespace

void AddJobStreamCommands(CLI::App* group, Context* context) {
  AddLogs(group, context);
  AddEvents(group, context);
}

}  // namespace stagecoach::client

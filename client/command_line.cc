#include "client/command_line.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/suggest.h"
#include "base/tls_files.h"
#include "client/cluster_record.h"
#include "client/exit_codes.h"
#include "client/output/json.h"
#include "rpc/tls_flags.h"

namespace stagecoach::client {
namespace {

constexpr char kDefaultEndpoint[] = "127.0.0.1:7070";

// What the line did not say: the environment, the cluster that `up` keeps, or
// where a coordinator listens by itself.
void ResolveEndpoint(const std::optional<ClusterRecord>& cluster,
                     Context* context) {
  const char* const variable = std::getenv("STAGECOACH_ENDPOINT");
  if (context->endpoint.empty() && variable != nullptr) {
    context->endpoint = variable;
  }
  context->endpoint_given = !context->endpoint.empty();
  if (context->endpoint_given) return;
  context->endpoint =
      cluster.has_value() ? cluster->endpoint : kDefaultEndpoint;
}

// Coordinators and workers that this process starts take part in what was
// given. The cluster that `up` keeps is spoken to as it was told to speak.
void UseTls(const std::optional<ClusterRecord>& cluster,
            const Context& context) {
  for (const TlsFlag& flag : kTlsFlags) {
    const std::string& value = context.tls.*flag.member;
    if (!value.empty()) setenv(flag.variable, value.c_str(), /*overwrite=*/1);
  }
  const bool kept = context.tls.empty() && cluster.has_value() &&
                    cluster->endpoint == context.endpoint;
  // What is wrong with the files is told by who needs them.
  rpc::UseTlsOf(kept ? cluster->tls : context.tls).IgnoreError();
}

bool Contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

absl::Status CheckFormat(const std::string& format,
                         const std::vector<std::string>& formats,
                         const std::vector<std::string>& planned) {
  if (format.empty() || Contains(formats, format)) {
    return absl::OkStatus();
  }
  const std::string choice = absl::StrJoin(formats, ", ");
  if (Contains(planned, format)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "-o ", format, " is not supported yet; use one of: ", choice));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "-o ", format, " is no format of this verb; use one of: ", choice,
      DidYouMean(format, formats)));
}

// The verb that was on the line, as deep as it went.
CLI::App* DeepestParsed(CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::vector<std::string> VerbsOf(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app->get_subcommands(nullptr)) {
    names.push_back(verb->get_name());
  }
  return names;
}

// Long options that may stand after the verb.
std::vector<std::string> OptionsOf(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      // No group: not for people.
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  }
  return names;
}

std::string PathOf(const CLI::App* app) {
  if (app->get_parent() == nullptr) return app->get_name();
  return absl::StrCat(PathOf(app->get_parent()), " ", app->get_name());
}

std::string UnknownOption(const std::string& written, const CLI::App* app) {
  const std::string name = written.substr(0, written.find('='));
  return absl::StrCat("`", PathOf(app), "` has no option ", name,
                      DidYouMean(name, OptionsOf(app)));
}

std::string UnknownVerb(const std::string& written, const CLI::App* app) {
  const std::vector<std::string> verbs = VerbsOf(app);
  if (verbs.empty()) {
    return absl::StrCat("`", PathOf(app), "` takes no further argument: \"",
                        written, "\"");
  }
  const std::string near = DidYouMean(written, verbs);
  return absl::StrCat(
      "`", PathOf(app), "` has no verb \"", written, "\"",
      near.empty() ? absl::StrCat("; there are: ", absl::StrJoin(verbs, ", "))
                   : near);
}

// Not by the error's name: an ExtrasError bears the command's.
bool Is(const CLI::ParseError& error, CLI::ExitCodes kind) {
  return error.get_exit_code() == static_cast<int>(kind);
}

// What is wrong with the line, in words that help.
std::string UsageMessage(CLI::App* app, const CLI::ParseError& error) {
  const CLI::App* deepest = DeepestParsed(app);
  const std::vector<std::string> rest = app->remaining(/*recurse=*/true);
  const bool required = Is(error, CLI::ExitCodes::RequiredError);
  if ((required || Is(error, CLI::ExitCodes::ExtrasError)) && !rest.empty()) {
    return absl::StartsWith(rest.front(), "-")
               ? UnknownOption(rest.front(), deepest)
               : UnknownVerb(rest.front(), deepest);
  }
  const std::vector<std::string> verbs = VerbsOf(deepest);
  if (required && !verbs.empty()) {
    return absl::StrCat("`", PathOf(deepest),
                        "` needs a verb: ", absl::StrJoin(verbs, ", "));
  }
  return absl::StrCat("`", PathOf(deepest), "`: ", error.what());
}

// Messages about a file start with its name, for editors that follow it.
void PrintError(const absl::Status& status, Context* context) {
  if (!absl::IsInvalidArgument(status)) *context->error << "stagecoach: ";
  *context->error << status.message() << std::endl;
}

int ReportError(const absl::Status& status, Context* context) {
  const int exit_code = ExitCodeOf(status);
  PrintError(status, context);
  if (context->json()) {
    Json document = Json::object();
    AddError(exit_code, status.message(), &document);
    *context->out << Dump(document) << std::flush;
  }
  return exit_code;
}

int ReportUsage(CLI::App* app, const CLI::ParseError& error, Context* context) {
  // Help and its like.
  if (error.get_exit_code() == 0) {
    return app->exit(error, *context->out, *context->error);
  }
  const std::string message = UsageMessage(app, error);
  const int exit_code =
      ReportError(absl::InvalidArgumentError(message), context);
  *context->error << "See `" << PathOf(DeepestParsed(app)) << " --help`."
                  << std::endl;
  return exit_code;
}

}  // namespace

void AddGlobalOptions(CLI::App* app, Context* context) {
  app->require_subcommand(1);
  // Options of this level may stand behind the verb; verbs inherit it.
  app->fallthrough();
  app->add_option("-o", context->format,
                  "Format of the result: table (default) or json; some verbs "
                  "have others");
  app->add_option("--endpoint", context->endpoint,
                  absl::StrCat("Address of the coordinator (default: "
                               "STAGECOACH_ENDPOINT, else that of `stagecoach "
                               "up`, else ",
                               kDefaultEndpoint, ")"));
  rpc::AddTlsFlags(app, &context->tls);
}

CLI::App* AddVerb(CLI::App* parent, const std::string& name,
                  const std::string& description,
                  const std::vector<std::string>& examples) {
  CLI::App* verb = parent->add_subcommand(name, description);
  verb->footer(absl::StrCat("Examples:\n  ", absl::StrJoin(examples, "\n  ")));
  return verb;
}

CLI::App* AddGroup(CLI::App* parent, const std::string& name,
                   const std::string& description) {
  CLI::App* group = parent->add_subcommand(name, description);
  group->require_subcommand(1);
  group->footer(absl::StrCat("See `stagecoach ", name, " VERB --help`."));
  return group;
}

void SetAction(CLI::App* verb, Context* context,
               std::function<absl::StatusOr<int>()> run,
               const std::vector<std::string>& formats,
               const std::vector<std::string>& planned) {
  context->formats[verb] = formats;
  verb->callback([context, run = std::move(run), formats, planned] {
    context->action = [context, run, formats,
                       planned]() -> absl::StatusOr<int> {
      const absl::Status status =
          CheckFormat(context->format, formats, planned);
      if (!status.ok()) return status;
      return run();
    };
  });
}

int RunCommandLine(CLI::App* app, int argc, const char* const* argv,
                   Context* context) {
  // CLI11 reports by exceptions; none leaves this function.
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportUsage(app, error, context);
  }
  const std::optional<ClusterRecord> cluster = LiveCluster(ClusterFolder(""));
  ResolveEndpoint(cluster, context);
  UseTls(cluster, *context);
  const absl::StatusOr<int> exit_code = context->action();
  if (!exit_code.ok()) return ReportError(exit_code.status(), context);
  return *exit_code;
}

}  // namespace stagecoach::client

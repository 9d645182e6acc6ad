#include "client/help_commands.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/suggest.h"
#include "client/command_line.h"
#include "client/completion.h"
#include "client/exit_codes.h"
#include "client/flag_table.h"
#include "client/man_page.h"

namespace stagecoach::client {
namespace {

// ---- completion -------------------------------------------------------------

int Completion(const std::string& shell, const CLI::App& app,
               Context* context) {
  const VerbInfo top = DescribeCommand(app, *context);
  *context->out << (shell == "bash"  ? BashCompletion(top)
                    : shell == "zsh" ? ZshCompletion(top)
                                     : FishCompletion(top))
                << std::flush;
  return kExitDone;
}

void AddCompletion(CLI::App* app, Context* context) {
  CLI::App* verb =
      AddVerb(app, "completion",
              "Print a script that completes this command in a shell",
              {"stagecoach completion bash > ~/.local/share/bash-completion/"
               "completions/stagecoach",
               "stagecoach completion zsh > ~/.zfunc/_stagecoach",
               "stagecoach completion fish > ~/.config/fish/completions/"
               "stagecoach.fish"});
  auto shell = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  SetAction(verb, context,
            [shell, app, context]() -> absl::StatusOr<int> {
              return Completion(*shell, *app, context);
            },
            {"text"});
}

// ---- help -------------------------------------------------------------------

struct HelpArguments {
  std::vector<std::string> words;
  bool man = false;
  std::string folder;
};

absl::StatusOr<const CLI::App*> FindVerb(
    const CLI::App* app, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const CLI::App* found = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* below : app->get_subcommands(nullptr)) {
      names.push_back(below->get_name());
      if (below->get_name() == word) found = below;
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no verb \"", absl::StrJoin(words, " "), "\"",
                       DidYouMean(word, names)));
    }
    app = found;
  }
  return app;
}

// `job` and `logs` are of one page: that of `job`.
const ManPage& PageOf(const std::vector<ManPage>& pages, const VerbInfo& top,
                      const std::vector<std::string>& words) {
  for (size_t i = 0; i < top.verbs.size() && !words.empty(); ++i) {
    if (top.verbs[i].path.front() == words.front()) return pages[i + 1];
  }
  return pages.front();
}

absl::Status WritePages(const std::vector<ManPage>& pages,
                        const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const ManPage& page : pages) {
    const std::string path = absl::StrCat(folder, "/", page.name);
    std::ofstream file(path, std::ios::trunc);
    file << page.text;
    file.close();
    if (!file) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot write ", path, "; check --out"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Help(const HelpArguments& arguments, const CLI::App* app,
                         Context* context) {
  const absl::StatusOr<const CLI::App*> verb = FindVerb(app, arguments.words);
  if (!verb.ok()) return verb.status();
  if (!arguments.man) {
    std::vector<std::string> name = {app->get_name()};
    name.insert(name.end(), arguments.words.begin(), arguments.words.end());
    // Not App::help(), which describes the verb on the line: this one.
    *context->out << (*verb)->get_formatter()->make_help(
                         *verb, absl::StrJoin(name, " "),
                         CLI::AppFormatMode::Normal)
                  << std::flush;
    return kExitDone;
  }
  const VerbInfo top = DescribeCommand(*app, *context);
  const std::vector<ManPage> pages = ManPages(top);
  if (!arguments.folder.empty()) {
    const absl::Status status = WritePages(pages, arguments.folder);
    if (!status.ok()) return status;
    return kExitDone;
  }
  *context->out << PageOf(pages, top, arguments.words).text << std::flush;
  return kExitDone;
}

void AddHelp(CLI::App* app, Context* context) {
  CLI::App* verb =
      AddVerb(app, "help", "Help about a verb, or the manual pages",
              {"stagecoach help job logs",
               "stagecoach help --man job > stagecoach-job.1",
               "stagecoach help --man --out /usr/local/share/man/man1"});
  auto arguments = std::make_shared<HelpArguments>();
  verb->add_option("VERB", arguments->words, "Words of the verb");
  CLI::Option* const man = verb->add_flag(
      "--man", arguments->man, "Print the manual page, as man(1) reads it");
  verb->add_option("--out", arguments->folder,
                   "Write all manual pages into this folder")
      ->needs(man);
  SetAction(
      verb, context,
      [arguments, app, context] { return Help(*arguments, app, context); },
      {"text"});
}

}  // namespace

void AddHelpCommands(CLI::App* app, Context* context) {
  AddCompletion(app, context);
  AddHelp(app, context);
}

}  // namespace stagecoach::client

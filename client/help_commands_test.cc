// What is made from the command line's own tree: help, completion, man pages.
#include "client/help_commands.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;
using Words = std::vector<std::string>;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Another program's stdout and stderr.
ClientResult RunProgram(const std::string& program, Words arguments) {
  SpawnOptions options;
  options.program = program;
  options.arguments = std::move(arguments);
  options.stderr_file = MakeFile("stderr", "");
  options.pipe_stdout = true;
  options.die_with_parent = false;
  ChildProcess process = ChildProcess::Spawn(options).value();
  ClientResult result;
  while (true) {
    const auto line = process.ReadLine(absl::Minutes(1));
    if (!line.ok()) break;
    result.out += *line + "\n";
  }
  result.exit_code = process.Wait(absl::Minutes(1)).value();
  result.error = Contents(options.stderr_file);
  return result;
}

std::string ScriptOf(const std::string& shell) {
  const ClientResult result = RunClient({"completion", shell});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  return MakeFile("completion", result.out);
}

// Where a program is, if it is installed.
std::string Find(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/bin/", "/usr/local/bin/"}) {
    if (std::filesystem::exists(folder + name)) return folder + name;
  }
  return "";
}

// ---- completion -------------------------------------------------------------

class BashCompletionTest : public testing::Test {
 protected:
  // What bash offers for the last of `words`; the file names of a folder with
  // job.toml and other.txt are possible.
  Words Complete(const Words& words) {
    Words quoted;
    for (const std::string& word : words) quoted.push_back("'" + word + "'");
    const ClientResult result = RunProgram(
        "/bin/bash",
        {"--norc", "-c",
         absl::StrCat("set -u; cd ", folder_, "; . ", script_,
                      "; COMP_WORDS=(stagecoach ", absl::StrJoin(quoted, " "),
                      "); COMP_CWORD=", words.size(),
                      "; _stagecoach; printf '%s\\n' \"${COMPREPLY[@]}\"")});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return absl::StrSplit(result.out, '\n', absl::SkipEmpty());
  }

  const std::string script_ = ScriptOf("bash");
  const std::string folder_ = [] {
    const std::string folder = MakeFolder();
    std::ofstream(folder + "/job.toml") << "";
    std::ofstream(folder + "/other.txt") << "";
    return folder;
  }();
};

TEST_F(BashCompletionTest, IsBash) {
  const ClientResult result = RunProgram("/bin/bash", {"-n", script_});
  EXPECT_EQ(result.exit_code, 0) << result.error;
}

TEST_F(BashCompletionTest, OffersVerbs) {
  EXPECT_THAT(Complete({""}), IsSupersetOf({"run", "plan", "job", "up", "down",
                                            "doctor", "completion"}));
  EXPECT_THAT(Complete({"do"}), ElementsAre("down", "doctor"));
  EXPECT_THAT(Complete({"job", ""}),
              IsSupersetOf({"submit", "list", "logs", "events"}));
  EXPECT_THAT(Complete({"job", "lo"}), ElementsAre("logs"));
  EXPECT_THAT(Complete({"job", "nothing"}), IsEmpty());
}

TEST_F(BashCompletionTest, OffersTheVerbsOptionsAndThoseOfAllVerbs) {
  const Words options = Complete({"job", "logs", "latest", "--"});
  EXPECT_THAT(options, IsSupersetOf({"--follow", "--worker", "--offset",
                                     "--help", "--endpoint"}));
  EXPECT_THAT(options, Not(Contains("--kind")));
  EXPECT_THAT(options, Not(Contains("--die-with-parent")));
  EXPECT_THAT(Complete({"run", "--lo"}), ElementsAre("--local"));
}

TEST_F(BashCompletionTest, OffersWordsWhereAnOptionHasSome) {
  EXPECT_THAT(Complete({"schedule", "convert", "a", "--to", ""}),
              ElementsAre("text", "json", "proto", "csv"));
  EXPECT_THAT(Complete({"schedule", "generate", "--kind", "zb"}),
              UnorderedElementsAre("zb-h1", "zb-h2", "zbv"));
  // As bash takes --kind=1 apart.
  EXPECT_THAT(Complete({"schedule", "generate", "--kind", "=", "1"}),
              ElementsAre("1f1b"));
  EXPECT_THAT(Complete({"job", "list", "-o", ""}),
              ElementsAre("table", "json"));
  EXPECT_THAT(Complete({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST_F(BashCompletionTest, OffersFilesAndJobs) {
  EXPECT_THAT(Complete({"run", "jo"}), ElementsAre("job.toml"));
  EXPECT_THAT(Complete({"schedule", "show", "x", "--out", "oth"}),
              ElementsAre("other.txt"));
  EXPECT_THAT(Complete({"job", "logs", ""}), ElementsAre("latest"));
}

TEST_F(BashCompletionTest, SkipsTheValuesOfOptions) {
  // "job" is the endpoint here, not a verb.
  EXPECT_THAT(Complete({"--endpoint", "job", "wor"}), ElementsAre("worker"));
  EXPECT_THAT(Complete({"job", "--endpoint", "list", "lo"}),
              ElementsAre("logs"));
  // A flag has no value to skip.
  EXPECT_THAT(Complete({"run", "--local", "jo"}), ElementsAre("job.toml"));
}

TEST(CompletionTest, IsZsh) {
  const std::string zsh = Find("zsh");
  if (zsh.empty()) GTEST_SKIP() << "zsh is not installed";
  const ClientResult result = RunProgram(zsh, {"-n", ScriptOf("zsh")});
  EXPECT_EQ(result.exit_code, 0) << result.error;
}

TEST(CompletionTest, IsFish) {
  const std::string fish = Find("fish");
  if (fish.empty()) GTEST_SKIP() << "fish is not installed";
  const ClientResult result = RunProgram(fish, {"-n", ScriptOf("fish")});
  EXPECT_EQ(result.exit_code, 0) << result.error;
}

TEST(CompletionTest, EveryShellKnowsEveryVerb) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = Contents(ScriptOf(shell));
    for (const char* path : {"job logs", "schedule diff", "up", "completion"}) {
      EXPECT_THAT(script, HasSubstr(absl::StrCat("'", path, "'"))) << shell;
    }
  }
}

TEST(CompletionTest, OtherShellsAreRefused) {
  const ClientResult result = RunClient({"completion", "tcsh"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("bash"));
}

// ---- help -------------------------------------------------------------------

TEST(HelpVerbTest, SaysWhatTheOptionSays) {
  for (const Words& words :
       {Words{}, Words{"run"}, Words{"job"}, Words{"job", "logs"}}) {
    Words by_verb = {"help"};
    by_verb.insert(by_verb.end(), words.begin(), words.end());
    Words by_option = words;
    by_option.push_back("--help");
    const ClientResult help = RunClient(by_verb);
    EXPECT_EQ(help.exit_code, 0) << help.error;
    EXPECT_EQ(help.out, RunClient(by_option).out);
  }
}

TEST(HelpVerbTest, UnknownVerbsAreRefused) {
  const ClientResult result = RunClient({"help", "job", "lgos"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("did you mean \"logs\"?"));
}

// ---- manual pages -----------------------------------------------------------

class ManPageTest : public testing::Test {
 protected:
  ManPageTest() {
    const ClientResult result =
        RunClient({"help", "--man", "--out", folder_ + "/man1"});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_ + "/man1")) {
      pages_.insert(entry.path().filename().string());
    }
  }
  std::string Page(const std::string& name) {
    return Contents(absl::StrCat(folder_, "/man1/", name));
  }

  const std::string folder_ = MakeFolder();
  std::set<std::string> pages_;
};

TEST_F(ManPageTest, ThereIsOneForEachVerbOfTheTop) {
  std::set<std::string> expected = {"stagecoach.1"};
  const std::string help = RunClient({"--help"}).out;
  const std::string verbs = help.substr(help.find("Subcommands:"));
  for (const auto& line : absl::StrSplit(verbs, '\n')) {
    if (line.size() > 2 && line.substr(0, 2) == "  " && line[2] != ' ') {
      expected.insert(absl::StrCat(
          "stagecoach-", line.substr(2, line.find(' ', 2) - 2), ".1"));
    }
  }
  EXPECT_GT(expected.size(), 10u);
  EXPECT_EQ(pages_, expected);
}

TEST_F(ManPageTest, HasOptionsExamplesAndExitCodes) {
  const std::string job = Page("stagecoach-job.1");
  EXPECT_THAT(job, HasSubstr("\\fB\\-f\\fR, \\fB\\-\\-follow\\fR"));
  EXPECT_THAT(job, HasSubstr("\nstagecoach job logs JOB \\-f\n"));
  EXPECT_THAT(job, HasSubstr(".SS stagecoach job events\n"));
  const std::string top = Page("stagecoach.1");
  EXPECT_THAT(top, HasSubstr("\\fB105\\fR\nworker lost beyond recovery"));
  EXPECT_THAT(top, HasSubstr("STAGECOACH_ENDPOINT"));
  EXPECT_EQ(RunClient({"help", "--man", "job", "logs"}).out, job);
  EXPECT_EQ(RunClient({"help", "--man"}).out, top);
}

TEST_F(ManPageTest, RoffHasNothingToComplainAbout) {
  const std::string groff = Find("groff");
  if (groff.empty()) GTEST_SKIP() << "groff is not installed";
  for (const std::string& page : pages_) {
    const ClientResult result = RunProgram(
        groff, {"-man", "-ww", "-Tutf8", "-z", folder_ + "/man1/" + page});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.error, "") << page;
  }
}

}  // namespace
}  // namespace stagecoach::client

#include "client/man_page.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/tls_files.h"
#include "base/version.h"
#include "client/exit_codes.h"

namespace stagecoach::client {
namespace {

// Text as roff shows it: no character has a meaning.
std::string Roff(absl::string_view text) {
  std::string escaped = absl::StrReplaceAll(
      text,
      {{"\\", "\\e"}, {"-", "\\-"}, {"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
  if (absl::StartsWith(escaped, ".") || absl::StartsWith(escaped, "'")) {
    escaped = absl::StrCat("\\&", escaped);
  }
  return escaped;
}

std::string Bold(absl::string_view text) {
  return absl::StrCat("\\fB", Roff(text), "\\fR");
}

std::string Italic(absl::string_view text) {
  return absl::StrCat("\\fI", Roff(text), "\\fR");
}

std::string Section(const std::string& title) {
  return absl::StrCat(".SH ", absl::AsciiStrToUpper(title), "\n");
}

// A term and what it means. Lines of the meaning stay lines.
std::string Entry(const std::string& term, absl::string_view meaning) {
  return absl::StrCat(".TP\n", term, "\n",
                      absl::StrReplaceAll(Roff(meaning), {{"\n", "\n.br\n"}}),
                      "\n");
}

std::string FullName(const VerbInfo& verb) {
  return verb.path.empty() ? "stagecoach"
                           : absl::StrCat("stagecoach ", PathText(verb));
}

std::string PageName(const VerbInfo& verb) {
  return verb.path.empty() ? "stagecoach"
                           : absl::StrCat("stagecoach-", verb.path.front());
}

std::string FlagTerm(const FlagInfo& flag) {
  std::string term = absl::StrJoin(
      flag.names, ", ",
      [](std::string* out, const auto& name) { out->append(Bold(name)); });
  if (!flag.choices.empty()) {
    return absl::StrCat(term, " ", Italic(absl::StrJoin(flag.choices, "|")));
  }
  if (flag.takes_value()) absl::StrAppend(&term, " ", Italic(flag.value_name));
  return term;
}

std::string Options(const VerbInfo& verb) {
  std::string text;
  for (const ArgumentInfo& argument : verb.arguments) {
    text += Entry(Italic(argument.name), argument.description);
  }
  for (const FlagInfo& flag : verb.flags) {
    text += Entry(FlagTerm(flag), flag.description);
  }
  return text;
}

std::string Synopsis(const VerbInfo& verb) {
  std::string text = Bold(FullName(verb));
  if (!verb.flags.empty()) text += " [options]";
  for (const ArgumentInfo& argument : verb.arguments) {
    std::string name = Italic(argument.name);
    if (argument.repeated) name += "...";
    absl::StrAppend(&text, " ",
                    argument.required ? name : absl::StrCat("[", name, "]"));
  }
  if (!verb.verbs.empty()) absl::StrAppend(&text, " ", Italic("verb"), " ...");
  return text + "\n";
}

// The lines below "Examples:".
std::string Examples(const VerbInfo& verb) {
  absl::string_view lines = verb.footer;
  if (!absl::ConsumePrefix(&lines, "Examples:\n")) return "";
  std::string text = ".EX\n";
  for (absl::string_view line : absl::StrSplit(lines, '\n')) {
    absl::StrAppend(&text, Roff(absl::StripLeadingAsciiWhitespace(line)), "\n");
  }
  return text + ".EE\n";
}

std::string Heading(const VerbInfo& verb) {
  return absl::StrCat(".\\\" Made by `stagecoach help --man`.\n.TH ",
                      absl::AsciiStrToUpper(PageName(verb)),
                      " 1 \"\" \"Stagecoach ", kVersion, "\"\n",
                      Section("name"), Roff(PageName(verb)), " \\- ",
                      Roff(ShortDescription(verb.description)), "\n");
}

std::string CommonSections() {
  std::string text = Section("exit status");
  for (const ExitCodeMeaning& entry : ExitCodeMeanings()) {
    text += Entry(Bold(absl::StrCat(entry.exit_code)), entry.meaning);
  }
  text += Section("environment");
  text += Entry(Bold("STAGECOACH_ENDPOINT"),
                "Address of the coordinator, where --endpoint is not given.");
  std::vector<std::string> tls;
  for (const TlsFlag& flag : kTlsFlags) tls.push_back(Bold(flag.variable));
  text += Entry(absl::StrJoin(tls, ", "),
                "What the options --tls-... say, where they are not given.");
  text += Entry(Bold("STAGECOACH_DIRECTORY"),
                "Folder of the cluster that `stagecoach up` keeps.");
  text += Entry(
      absl::StrCat(Bold("STAGECOACH_COORDINATOR_BINARY"), ", ",
                   Bold("STAGECOACH_WORKER_BINARY")),
      "The programs that a local cluster is made of, where they are not beside "
      "the command.");
  return text;
}

std::string SeeAlso(const VerbInfo& top, const VerbInfo& page) {
  std::vector<std::string> names;
  if (&page != &top) names.push_back(Bold(PageName(top)) + "(1)");
  for (const VerbInfo& verb : top.verbs) {
    if (&verb != &page) names.push_back(Bold(PageName(verb)) + "(1)");
  }
  return absl::StrCat(Section("see also"), absl::StrJoin(names, ",\n"), "\n");
}

std::string TopPage(const VerbInfo& top) {
  std::string text = Heading(top);
  absl::StrAppend(&text, Section("synopsis"), Synopsis(top),
                  Section("description"), Roff(top.description),
                  ".\nResults go to standard output, everything else to "
                  "standard error.\n",
                  Section("options"), Options(top), Section("verbs"));
  for (const VerbInfo* verb : AllVerbs(top)) {
    if (verb->path.empty() || !verb->verbs.empty()) continue;
    text += Entry(Bold(PathText(*verb)), verb->description);
  }
  return absl::StrCat(text, CommonSections(), SeeAlso(top, top));
}

std::string VerbPage(const VerbInfo& top, const VerbInfo& page) {
  std::string text = Heading(page);
  text += Section("synopsis");
  std::string body;
  std::string examples;
  for (const VerbInfo* verb : AllVerbs(page)) {
    if (!verb->verbs.empty()) continue;
    absl::StrAppend(&text, verb == &page || examples.empty() ? "" : ".br\n",
                    Synopsis(*verb));
    if (verb != &page) {
      absl::StrAppend(&body, ".SS ", Roff(FullName(*verb)), "\n");
    }
    absl::StrAppend(&body, Roff(verb->description), ".\n", Options(*verb));
    examples += Examples(*verb);
  }
  absl::StrAppend(&text, Section("description"), body);
  if (!examples.empty()) {
    absl::StrAppend(&text, Section("examples"), examples);
  }
  return absl::StrCat(text, SeeAlso(top, page));
}

}  // namespace

std::vector<ManPage> ManPages(const VerbInfo& top) {
  std::vector<ManPage> pages;
  pages.push_back({PageName(top) + ".1", TopPage(top)});
  for (const VerbInfo& verb : top.verbs) {
    pages.push_back({PageName(verb) + ".1", VerbPage(top, verb)});
  }
  return pages;
}

}  // namespace stagecoach::client

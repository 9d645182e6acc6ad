#include "client/completion.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace stagecoach::client {
namespace {

constexpr char kFiles[] = "@files";  // what a table says instead of words

// For both shells that have Bourne's quotes.
std::string Quote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// The options that may stand behind a verb: its own and those of all above it.
struct Place {
  const VerbInfo* verb;
  std::vector<const FlagInfo*> flags;
};

void AddPlaces(const VerbInfo& verb,
               const std::vector<const FlagInfo*>& inherited,
               std::vector<Place>* places) {
  Place place;
  place.verb = &verb;
  for (const FlagInfo& flag : verb.flags) place.flags.push_back(&flag);
  std::vector<const FlagInfo*> passed_on = inherited;
  for (const FlagInfo* flag : inherited) place.flags.push_back(flag);
  // Help is every verb's own.
  for (const FlagInfo& flag : verb.flags) {
    if (flag.names.back() != "--help") passed_on.push_back(&flag);
  }
  places->push_back(place);
  for (const VerbInfo& below : verb.verbs) {
    AddPlaces(below, passed_on, places);
  }
}

std::vector<Place> PlacesOf(const VerbInfo& top) {
  std::vector<Place> places;
  AddPlaces(top, {}, &places);
  return places;
}

std::string ValuesOf(const FlagInfo& flag) {
  if (flag.takes_file()) return kFiles;
  return absl::StrJoin(flag.choices, " ");
}

std::string ValuesOf(const ArgumentInfo& argument) {
  if (!argument.choices.empty()) return absl::StrJoin(argument.choices, " ");
  return argument.name == "JOB" ? "latest" : kFiles;
}

// One line of a `case`.
std::string CaseLine(const std::string& pattern, const std::string& body) {
  return absl::StrCat("    ", pattern, ") ", body, " ;;\n");
}

std::string Echo(absl::string_view words) {
  return absl::StrCat("echo ", Quote(words));
}

// A function that prints words, or fails, by its arguments joined by blanks.
std::string CaseFunction(const std::string& name, const std::string& lines) {
  return absl::StrCat(name, "() {\n  case \"$*\" in\n", lines,
                      CaseLine("*", "return 1"), "  esac\n}\n");
}

std::string VerbNames(const VerbInfo& verb) {
  return absl::StrJoin(verb.verbs, " ",
                       [](std::string* out, const VerbInfo& below) {
                         out->append(below.path.back());
                       });
}

std::string FlagNames(const Place& place) {
  std::vector<std::string> names;
  for (const FlagInfo* flag : place.flags) {
    names.insert(names.end(), flag->names.begin(), flag->names.end());
  }
  return absl::StrJoin(names, " ");
}

// What bash and zsh have in common: what there is at each place.
std::string Tables(const std::vector<Place>& places) {
  std::string verbs;
  std::string flags;
  std::string values;
  std::string arguments;
  for (const Place& place : places) {
    const std::string path = PathText(*place.verb);
    if (!place.verb->verbs.empty()) {
      verbs += CaseLine(Quote(path), Echo(VerbNames(*place.verb)));
    }
    flags += CaseLine(Quote(path), Echo(FlagNames(place)));
    for (const FlagInfo* flag : place.flags) {
      if (!flag->takes_value()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : flag->names) {
        patterns.push_back(Quote(absl::StrCat(path, " ", name)));
      }
      values += CaseLine(absl::StrJoin(patterns, "|"), Echo(ValuesOf(*flag)));
    }
    if (!place.verb->arguments.empty()) {
      arguments +=
          CaseLine(Quote(path), Echo(ValuesOf(place.verb->arguments.front())));
    }
  }
  return absl::StrCat("# By place, such as \"job logs\".\n",
                      CaseFunction("_stagecoach_verbs", verbs),
                      CaseFunction("_stagecoach_flags", flags),
                      "# By place and option; fails for one without a value.\n",
                      CaseFunction("_stagecoach_values", values),
                      CaseFunction("_stagecoach_arguments", arguments));
}

// Follows the words up to the one to complete: sets `place`, and `flag` if that
// word is an option's value.
constexpr char kWalk[] = R"(
  local place="" flag="" word next
  for word in "${typed[@]}"; do
    if [[ -n $flag ]]; then
      # bash takes --option=value apart.
      if [[ $word != "=" ]]; then flag=""; fi
      continue
    fi
    case $word in
      -*) if _stagecoach_values "$place" "$word" >/dev/null; then flag=$word; fi ;;
      *)
        next=${place:+$place }$word
        if _stagecoach_flags "$next" >/dev/null; then place=$next; fi
        ;;
    esac
  done
)";

constexpr char kBashEnd[] = R"(
  local candidates
  if [[ -n $flag ]]; then
    if [[ $current == "=" ]]; then current=""; fi
    candidates=$(_stagecoach_values "$place" "$flag")
  elif [[ $current == -* ]]; then
    candidates=$(_stagecoach_flags "$place")
  else
    candidates=$(_stagecoach_verbs "$place" || _stagecoach_arguments "$place" || :)
  fi
  COMPREPLY=()
  if [[ $candidates == "@files" ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ -n $candidates ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$candidates" -- "$current")
  fi
}
complete -F _stagecoach stagecoach
)";

constexpr char kZshEnd[] = R"(
  local candidates
  if [[ -n $flag ]]; then
    candidates=$(_stagecoach_values "$place" "$flag")
  elif [[ $current == -* ]]; then
    candidates=$(_stagecoach_flags "$place")
  else
    candidates=$(_stagecoach_verbs "$place" || _stagecoach_arguments "$place" || :)
  fi
  if [[ $candidates == "@files" ]]; then
    _files
  elif [[ -n $candidates ]]; then
    compadd -- ${=candidates}
  fi
}
compdef _stagecoach stagecoach
)";

// ---- fish -------------------------------------------------------------------

std::string FishQuote(absl::string_view text) {
  return absl::StrCat(
      "'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishAt(const std::string& path) {
  return absl::StrCat(
      "complete -c stagecoach -n ",
      FishQuote(absl::StrCat("__stagecoach_at ", FishQuote(path))));
}

std::string FishFlag(const std::string& path, const FlagInfo& flag) {
  std::string line = FishAt(path);
  for (absl::string_view name : flag.names) {
    if (absl::ConsumePrefix(&name, "--")) {
      absl::StrAppend(&line, " -l ", name);
    } else if (absl::ConsumePrefix(&name, "-")) {
      absl::StrAppend(&line, " -s ", name);
    }
  }
  if (flag.takes_file()) {
    absl::StrAppend(&line, " -r -F");
  } else if (flag.takes_value()) {
    absl::StrAppend(&line, " -x");
    if (!flag.choices.empty()) {
      absl::StrAppend(&line, " -a ",
                      FishQuote(absl::StrJoin(flag.choices, " ")));
    }
  }
  return absl::StrCat(line, " -d ",
                      FishQuote(ShortDescription(flag.description)), "\n");
}

std::string FishPlace(const Place& place) {
  const std::string path = PathText(*place.verb);
  std::string lines;
  for (const VerbInfo& below : place.verb->verbs) {
    absl::StrAppend(&lines, FishAt(path), " -a ", below.path.back(), " -d ",
                    FishQuote(ShortDescription(below.description)), "\n");
  }
  for (const FlagInfo* flag : place.flags) lines += FishFlag(path, *flag);
  if (!place.verb->arguments.empty()) {
    const std::string values = ValuesOf(place.verb->arguments.front());
    absl::StrAppend(&lines, FishAt(path),
                    values == kFiles ? std::string(" -F")
                                     : absl::StrCat(" -a ", FishQuote(values)),
                    "\n");
  }
  return lines;
}

constexpr char kFishWalk[] = R"(
# The verbs on the line so far, as one string, are $argv[1].
function __stagecoach_at
    set -l words (commandline -opc)
    set -l place ''
    set -l value no
    for word in $words[2..-1]
        if test $value = yes
            set value no
        else if contains -- $word $__stagecoach_value_flags
            set value yes
        else
            set -l next (string trim "$place $word")
            if contains -- $next $__stagecoach_places
                set place $next
            end
        end
    end
    test "$place" = "$argv[1]"
end
complete -c stagecoach -f
)";

}  // namespace

std::string BashCompletion(const VerbInfo& top) {
  return absl::StrCat(
      "# Completion of the stagecoach command in bash, made by\n"
      "# `stagecoach completion bash`. Load it with\n"
      "#   source <(stagecoach completion bash)\n",
      Tables(PlacesOf(top)),
      "_stagecoach() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]}\n"
      "  local typed=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")",
      kWalk, absl::StripPrefix(kBashEnd, "\n"));
}

std::string ZshCompletion(const VerbInfo& top) {
  return absl::StrCat(
      "#compdef stagecoach\n"
      "# Completion of the stagecoach command in zsh, made by\n"
      "# `stagecoach completion zsh`. Load it with\n"
      "#   source <(stagecoach completion zsh)\n",
      Tables(PlacesOf(top)),
      "_stagecoach() {\n"
      "  local current=${words[CURRENT]}\n"
      "  local -a typed=(\"${(@)words[2,CURRENT-1]}\")",
      kWalk, absl::StripPrefix(kZshEnd, "\n"));
}

std::string FishCompletion(const VerbInfo& top) {
  std::set<std::string> value_flags;
  std::vector<std::string> paths;
  std::string lines;
  for (const Place& place : PlacesOf(top)) {
    if (!place.verb->path.empty()) {
      paths.push_back(FishQuote(PathText(*place.verb)));
    }
    for (const FlagInfo* flag : place.flags) {
      if (flag->takes_value()) {
        value_flags.insert(flag->names.begin(), flag->names.end());
      }
    }
    lines += FishPlace(place);
  }
  return absl::StrCat(
      "# Completion of the stagecoach command in fish, made by\n"
      "# `stagecoach completion fish`. Load it with\n"
      "#   stagecoach completion fish | source\n"
      "set -g __stagecoach_places ",
      absl::StrJoin(paths, " "), "\nset -g __stagecoach_value_flags ",
      absl::StrJoin(value_flags, " "), kFishWalk, lines);
}

}  // namespace stagecoach::client

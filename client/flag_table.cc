#include "client/flag_table.h"

#include <utility>

#include "absl/strings/str_split.h"

namespace stagecoach::client {
namespace {

constexpr char kFormatFlag[] = "-o";

// CLI11 shows a set of values as "{a,b}" in the type's name.
std::vector<std::string> ChoicesOf(const std::string& type_name) {
  const size_t begin = type_name.find('{');
  const size_t end = type_name.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return absl::StrSplit(type_name.substr(begin + 1, end - begin - 1), ',',
                        absl::SkipEmpty());
}

// "TEXT" of "TEXT:{a,b}"; a name that is a set itself is text.
std::string ValueName(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type_name = option.get_type_name();
  const std::string name = type_name.substr(0, type_name.find_first_of(":{"));
  return name.empty() ? "TEXT" : name;
}

FlagInfo DescribeFlag(const CLI::Option& option) {
  FlagInfo flag;
  for (const std::string& name : option.get_snames()) {
    flag.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    flag.names.push_back("--" + name);
  }
  flag.description = option.get_description();
  flag.value_name = ValueName(option);
  flag.choices = ChoicesOf(option.get_type_name());
  return flag;
}

ArgumentInfo DescribeArgument(const CLI::Option& option) {
  ArgumentInfo argument;
  argument.name = option.get_name(/*positional=*/true);
  argument.description = option.get_description();
  argument.required = option.get_required();
  argument.repeated = option.get_items_expected_max() > 1;
  argument.choices = ChoicesOf(option.get_type_name());
  return argument;
}

VerbInfo Describe(const CLI::App& app, const Context& context,
                  const FlagInfo& format, std::vector<std::string> path) {
  VerbInfo verb;
  verb.path = std::move(path);
  verb.description = app.get_description();
  verb.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    // No group: not for people.
    if (option->get_group().empty()) continue;
    if (option->get_positional()) {
      verb.arguments.push_back(DescribeArgument(*option));
    } else if (option->get_snames() != std::vector<std::string>{"o"}) {
      verb.flags.push_back(DescribeFlag(*option));
    }
  }
  const auto formats = context.formats.find(&app);
  if (formats != context.formats.end() && !formats->second.empty()) {
    verb.flags.push_back(format);
    verb.flags.back().choices = formats->second;
  }
  for (const CLI::App* below : app.get_subcommands(nullptr)) {
    std::vector<std::string> below_path = verb.path;
    below_path.push_back(below->get_name());
    verb.verbs.push_back(
        Describe(*below, context, format, std::move(below_path)));
  }
  return verb;
}

}  // namespace

VerbInfo DescribeCommand(const CLI::App& app, const Context& context) {
  const CLI::Option* const format = app.get_option_no_throw(kFormatFlag);
  return Describe(app, context,
                  format == nullptr ? FlagInfo() : DescribeFlag(*format), {});
}

}  // namespace stagecoach::client

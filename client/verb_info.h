#ifndef STAGECOACH_CLIENT_VERB_INFO_H_
#define STAGECOACH_CLIENT_VERB_INFO_H_

#include <string>
#include <vector>

// The command line as data. Pure.
namespace stagecoach::client {

struct FlagInfo {
  std::vector<std::string> names;  // "-f", "--follow"
  std::string description;
  std::string value_name;  // "TEXT", "INT"; empty: takes no value
  std::vector<std::string> choices;

  bool takes_value() const { return !value_name.empty(); }
  // A value that may be the name of a file.
  bool takes_file() const { return value_name == "TEXT" && choices.empty(); }
};

struct ArgumentInfo {
  std::string name;  // "SPEC"
  std::string description;
  bool required = false;
  bool repeated = false;
  std::vector<std::string> choices;
};

struct VerbInfo {
  std::vector<std::string> path;  // {"job", "logs"}; empty: the command itself
  std::string description;
  std::string footer;           // examples
  std::vector<FlagInfo> flags;  // its own
  std::vector<ArgumentInfo> arguments;
  std::vector<VerbInfo> verbs;  // below it
};

// The verb itself and all below it, from the top down.
std::vector<const VerbInfo*> AllVerbs(const VerbInfo& top);

// "job logs"; empty for the top.
std::string PathText(const VerbInfo& verb);

// The first paragraph of a description, as one line.
std::string ShortDescription(const std::string& description);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_VERB_INFO_H_

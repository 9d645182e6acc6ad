#include "client/verb_info.h"

#include "absl/strings/str_join.h"

namespace stagecoach::client {

std::vector<const VerbInfo*> AllVerbs(const VerbInfo& top) {
  std::vector<const VerbInfo*> all = {&top};
  for (const VerbInfo& verb : top.verbs) {
    for (const VerbInfo* below : AllVerbs(verb)) all.push_back(below);
  }
  return all;
}

std::string PathText(const VerbInfo& verb) {
  return absl::StrJoin(verb.path, " ");
}

std::string ShortDescription(const std::string& description) {
  return description.substr(0, description.find('\n'));
}

}  // namespace stagecoach::client

#ifndef STAGECOACH_CLIENT_COMPLETION_H_
#define STAGECOACH_CLIENT_COMPLETION_H_

#include <string>

#include "client/verb_info.h"

// Scripts that complete the command line in a shell: verbs, options, values
// that are one of a few words, and names of files. Pure.
namespace stagecoach::client {

std::string BashCompletion(const VerbInfo& top);
std::string ZshCompletion(const VerbInfo& top);
std::string FishCompletion(const VerbInfo& top);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_COMPLETION_H_

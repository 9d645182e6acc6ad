#ifndef STAGECOACH_CLIENT_MAN_PAGE_H_
#define STAGECOACH_CLIENT_MAN_PAGE_H_

#include <string>
#include <vector>

#include "client/verb_info.h"

namespace stagecoach::client {

struct ManPage {
  std::string name;  // "stagecoach-job.1"
  std::string text;  // for man(7)
};

// stagecoach.1, and a page for each verb of the top. Pure.
std::vector<ManPage> ManPages(const VerbInfo& top);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_MAN_PAGE_H_

#ifndef STAGECOACH_CLIENT_FINDING_H_
#define STAGECOACH_CLIENT_FINDING_H_

#include <string>

namespace stagecoach::client {

enum class Verdict { kOk, kWarn, kFail };

// One line of `doctor`.
struct Finding {
  std::string check;  // "shared memory"
  Verdict verdict = Verdict::kOk;
  std::string detail;
  std::string remedy;  // empty if ok
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_FINDING_H_

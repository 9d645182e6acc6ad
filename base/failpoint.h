#ifndef STAGECOACH_BASE_FAILPOINT_H_
#define STAGECOACH_BASE_FAILPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Named places where a test can end or delay the process, let a call fail, or
// learn that they were reached. Nothing of it is in a plain build;
// --config=failpoints compiles it in.
//
//   SC_FAILPOINT("journal.append");
//   SC_FAIL_AT("worker.checkpoint.write");  // returns the status it is told to
//
// The environment variable STAGECOACH_FAILPOINT, "NAME" or "NAME@N", makes the
// process kill itself (SIGKILL) when it reaches NAME, or does so for the N-th
// time. While it runs, its admin socket switches them (failpoint_server.h).
#ifdef STAGECOACH_FAILPOINTS
#define SC_FAILPOINT(name) ::stagecoach::ReachFailpoint(name).IgnoreError()
#define SC_FAIL_AT(name)                                                \
  do {                                                                  \
    absl::Status failpoint_status = ::stagecoach::ReachFailpoint(name); \
    if (!failpoint_status.ok()) return failpoint_status;                \
  } while (false)
#else
#define SC_FAILPOINT(name) static_cast<void>(0)
#define SC_FAIL_AT(name) static_cast<void>(0)
#endif

namespace stagecoach {

// All that there are, by the program that has them.
std::vector<std::string> CoordinatorFailpoints();
std::vector<std::string> WorkerFailpoints();

// Whether this build has them.
bool FailpointsAreBuilt();

// Thread-safe. Ends the process for a name that is not in the lists above. OK
// unless the place is to fail: then kResourceExhausted, as of a full disk.
absl::Status ReachFailpoint(const char* name);

// How often each place of the lists was reached, and what it does.
struct FailpointState {
  std::string name;
  int64_t reached = 0;
  std::string action;  // as SetFailpoint takes it
};
std::vector<FailpointState> ListFailpoints();

// What the place does from now on: "off"; "kill"; "delay MILLISECONDS"; "error"
// (where a status is looked at). With "@N" behind it only the N-th time from
// now. kInvalidArgument for an unknown name or action. Thread-safe.
absl::Status SetFailpoint(absl::string_view name, absl::string_view action);

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_FAILPOINT_H_

#ifndef STAGECOACH_BASE_FAILPOINT_H_
#define STAGECOACH_BASE_FAILPOINT_H_

#include <string>
#include <vector>

// Named places where a test can end the process or learn that they were
// reached. Nothing of it is in a plain build; --config=failpoints compiles it
// in.
//
//   SC_FAILPOINT("journal.append");
//
// The environment variable STAGECOACH_FAILPOINT, "NAME" or "NAME@N", makes the
// process kill itself (SIGKILL) when it reaches NAME, or does so for the N-th
// time.
#ifdef STAGECOACH_FAILPOINTS
#define SC_FAILPOINT(name) ::stagecoach::ReachFailpoint(name)
#else
#define SC_FAILPOINT(name) static_cast<void>(0)
#endif

namespace stagecoach {

// All that there are, by the program that has them.
std::vector<std::string> CoordinatorFailpoints();
std::vector<std::string> WorkerFailpoints();

// Whether this build has them.
bool FailpointsAreBuilt();

// Thread-safe. Ends the process for a name that is not in the lists above.
void ReachFailpoint(const char* name);

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_FAILPOINT_H_

#ifndef STAGECOACH_BASE_FAILPOINT_SERVER_H_
#define STAGECOACH_BASE_FAILPOINT_SERVER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Switches the failpoints of a running process, from outside. Only builds with
// failpoints serve.
namespace stagecoach {

// Where the environment variable STAGECOACH_FAILPOINT_SOCKET names a path: a
// thread listens there on a unix socket that only this user may open, until the
// process ends. A connection says one line and reads the answer:
//
//   set NAME ACTION     ok, or: error MESSAGE
//   list                a line "NAME REACHED ACTION" for each, then "ok"
//
// OK without the variable, and in a build without failpoints.
absl::Status ServeFailpoints();
// The same at `path`, whatever the build and the environment.
absl::Status ServeFailpointsAt(const std::string& path);

// The other side: the whole answer, without its last line. kInvalidArgument for
// an answer that is an error, kUnavailable if nobody listens.
absl::StatusOr<std::string> AskFailpoints(const std::string& path,
                                          const std::string& line);

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_FAILPOINT_SERVER_H_

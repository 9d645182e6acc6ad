#ifndef STAGECOACH_CLIENT_CONTEXT_H_
#define STAGECOACH_CLIENT_CONTEXT_H_

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tls_files.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stagecoach::client {

// What every verb gets: where results and everything else go, and the options
// that may stand before or after any verb. Filled in by main and the parser.
struct Context {
  std::ostream* out = nullptr;    // stdout: results
  std::ostream* error = nullptr;  // stderr: all else
  bool error_is_terminal = false;
  int columns = 80;  // of the terminal

  std::string endpoint;  // of the coordinator
  // It was asked for, by flag or environment; not only found.
  bool endpoint_given = false;
  TlsFiles tls;        // as given
  std::string format;  // as -o gave it; empty: the verb's own default

  // What -o may be, by verb.
  std::map<const CLI::App*, std::vector<std::string>> formats;

  // What the verb on the command line does; its exit code, or an error that
  // becomes a message and an exit code. Set while the line is parsed.
  std::function<absl::StatusOr<int>()> action;

  // Whether results are JSON documents.
  bool json() const { return format == "json"; }
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_CONTEXT_H_

#ifndef STAGECOACH_JOB_FINDINGS_H_
#define STAGECOACH_JOB_FINDINGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "job/parse.h"

namespace stagecoach::job {

// All that is wrong with one spec, to be said in one message. Keeps a reference
// to `parsed`. Thread-compatible.
class Findings {
 public:
  explicit Findings(const ParsedSpec& parsed) : parsed_(parsed) {}

  // At the place of a key that the file may or may not have.
  void Add(absl::string_view key, absl::string_view message);
  // At a place of the file.
  void AddAt(SourcePosition position, absl::string_view key,
             absl::string_view message);
  // From --set.
  void AddOverride(absl::string_view key, absl::string_view message);

  bool empty() const { return lines_.empty(); }
  // OK, or kInvalidArgument with one finding per line: those of the file in
  // its order, then the others. At most 20, then their number.
  absl::Status ToStatus() const;

 private:
  struct Line {
    SourcePosition position;
    std::string text;
  };

  const ParsedSpec& parsed_;
  std::vector<Line> lines_;
};

// Where a message about `key` should point: the key, else its table, else the
// first line of the file. Line 0: the key comes from --set.
SourcePosition PlaceOf(const ParsedSpec& parsed, absl::string_view key);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_FINDINGS_H_

#ifndef STAGECOACH_JOB_PARSE_H_
#define STAGECOACH_JOB_PARSE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "job/job_spec.h"

namespace stagecoach::job {

struct SourcePosition {
  int line = 0;    // from 1; 0: not in the file (a default)
  int column = 0;  // from 1
};

// A spec and where each of its keys stands, for messages.
struct ParsedSpec {
  JobSpec spec;
  std::string text;       // the file as read
  std::string file_name;  // as the user named it
  // By dotted key ("pipeline.send_budget"); keys set by --set have line 0.
  std::map<std::string, SourcePosition> positions;

  // kInvalidArgument "file:line:column: key: message".
  absl::Status ErrorAt(absl::string_view key, absl::string_view message) const;
};

// Reads `text` as a job spec. Relative paths are resolved against the folder of
// `file_name`. `overrides` are "dotted.key=value" as --set takes them, applied
// over the file. kInvalidArgument, with position and remedy, for TOML errors,
// unknown keys ("did you mean"), wrong types, and unknown enum words. All
// errors of the file are in one message, one per line. Does not validate.
absl::StatusOr<ParsedSpec> ParseJobSpec(
    absl::string_view text, absl::string_view file_name,
    const std::vector<std::string>& overrides = {});

// Reads the file, then as above. kNotFound if it cannot be read.
absl::StatusOr<ParsedSpec> LoadJobSpec(
    const std::string& file_name,
    const std::vector<std::string>& overrides = {});

// Where `model.checkpoint` names a folder: reads its config.json into
// `spec.model`. Between parsing and validating; without a checkpoint there is
// nothing to do. kInvalidArgument, all findings in one message: what
// ParseHfConfig refuses, a config.json that cannot be read, and a key of the
// spec that contradicts it.
absl::Status ResolveModel(ParsedSpec* parsed);

// Everything about a spec that can be refused before anything starts: numbers
// that are impossible or do not fit together (heads not dividing hidden, K = 0,
// more stages than layers, V that the schedule does not have, a split that does
// not cover all layers), features not built yet ("not supported yet"), and data
// files that are missing, empty, unreadable or too short. All findings in one
// message, each with position and what would work. OK or kInvalidArgument.
absl::Status Validate(const ParsedSpec& parsed);

// The same of a spec that came over the wire, but for the files that it names,
// which need not be on this machine. Each finding names its key.
absl::Status Validate(const JobSpec& spec);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_PARSE_H_

#ifndef STAGECOACH_STAGE_WORKER_CHECKPOINT_STRICT_JSON_H_
#define STAGECOACH_STAGE_WORKER_CHECKPOINT_STRICT_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace stagecoach::checkpoint {

// Parses one JSON document that came from outside. More than the plain parser
// it refuses a key that stands twice in one object (which of the two counts is
// the reader's whim) and nesting deeper than 8 levels. kInvalidArgument says
// where. Thread-safe.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

// Whether a name that came from outside stays within its folder.
bool IsPlainFileName(const std::string& name);

}  // namespace stagecoach::checkpoint

#endif  // STAGECOACH_STAGE_WORKER_CHECKPOINT_STRICT_JSON_H_

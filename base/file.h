#ifndef STAGECOACH_BASE_FILE_H_
#define STAGECOACH_BASE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace stagecoach {

// The contents of a file (or a pipe), whole. kNotFound, kPermissionDenied, ...
// if it cannot be opened or read, kFailedPrecondition if it is a folder,
// kResourceExhausted if it is longer than `max_bytes`. Messages name the path.
// Blocks.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_FILE_H_

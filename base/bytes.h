#ifndef STAGECOACH_BASE_BYTES_H_
#define STAGECOACH_BASE_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stagecoach {

// "8GiB", "512 MiB", "1.5KiB", "4096" or "4096B" as bytes. Binary units only
// (KiB, MiB, GiB, TiB). kInvalidArgument for anything else, for negative sizes
// and for sizes past 2^62.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

// "1.50 MiB", "512 B": for people. At most two decimals.
std::string FormatByteSize(int64_t bytes);

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_BYTES_H_

#ifndef STAGECOACH_JOB_TOML_VALUE_H_
#define STAGECOACH_JOB_TOML_VALUE_H_

#include <toml++/toml.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "job/job_spec.h"
#include "job/keys.h"

namespace stagecoach::job {

// Sets one key of `spec` from a TOML value. Relative paths start from `folder`.
// kInvalidArgument says what was expected, what was found and how to write it.
// Checks type and words, not limits.
absl::Status SetFromToml(const Key& key, const toml::node& node,
                         const std::string& folder, JobSpec* spec);

// What --set gives a key, as {value = ...}: TOML, but words and strings need no
// quotes.
toml::table OverrideValue(const Key& key, absl::string_view text);

// "an integer", "a string", ...
absl::string_view TypeName(const toml::node& node);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_TOML_VALUE_H_

#ifndef STAGECOACH_JOB_HF_CONFIG_H_
#define STAGECOACH_JOB_HF_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "job/job_spec.h"

namespace stagecoach::job {

// Reads the text of a Hugging Face model's config.json: its family, its sizes
// and all else that changes its numbers, in the spelling of transformers 4 and
// 5 (rope_theta, rope_scaling, torch_dtype; rope_parameters, dtype). A key that
// is absent has the default of transformers. `checkpoint` stays empty.
//
// kInvalidArgument, one line per problem ("FILE: key: what, and what would
// work"): no JSON object, a family that is not supported, sizes that are
// missing or do not fit together, a supported key with a value that is not, and
// every key that is neither supported nor known to change nothing.
absl::StatusOr<ModelSpec> ParseHfConfig(absl::string_view text,
                                        absl::string_view file);

// The same for the config.json of a folder. kNotFound if there is none.
absl::StatusOr<ModelSpec> LoadHfConfig(const std::string& folder);

// The config.json that describes a job's model to transformers, its weights
// being float32: that of its checkpoint, or one made from the sizes.
std::string HfConfigText(const JobSpec& spec);

}  // namespace stagecoach::job

#endif  // STAGECOACH_JOB_HF_CONFIG_H_

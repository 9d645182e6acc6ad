#ifndef STAGECOACH_STAGE_WORKER_GENERATE_GENERATE_H_
#define STAGECOACH_STAGE_WORKER_GENERATE_GENERATE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "stage_worker/generate/request.h"

namespace stagecoach::worker {

// Calls `on_token` with each token as soon as it is chosen, the stopping one
// too; ends after request.tokens of them, at a stopping one, or once
// `cancelled` says so (asked between tokens). Blocks, on the thread that calls.
// Errors: LanguageModel's.
absl::Status Generate(const GenerateRequest& request,
                      const std::function<void(int64_t token)>& on_token,
                      const std::function<bool()>& cancelled);

// `stagecoach-worker --generate FILE`: reads a request from `file` and prints
// each token's id on a line of its own, at once, to stdout.
absl::Status GenerateToStdout(const std::string& file,
                              const std::function<bool()>& cancelled);

}  // namespace stagecoach::worker

#endif  // STAGECOACH_STAGE_WORKER_GENERATE_GENERATE_H_

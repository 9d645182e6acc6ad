#include "stage_worker/generate/request.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace stagecoach::worker {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr int64_t kMostThreads = 1024;

absl::Status Bad(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("request to generate: ", key, ": ", what));
}

bool IsTokenList(const Json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Json& token) {
           return token.is_number_unsigned();
         });
}

absl::StatusOr<int64_t> Integer(const Json& document, const char* key,
                                int64_t least, int64_t most) {
  const Json& value = document[key];
  if (value.is_number_integer() && value >= least && value <= most) {
    return value.get<int64_t>();
  }
  return Bad(key, absl::StrCat("must be an integer from ", least, " to ", most,
                               ", is ", value.dump()));
}

absl::StatusOr<std::vector<int64_t>> Tokens(const Json& document,
                                            const char* key) {
  if (IsTokenList(document[key])) {
    return document[key].get<std::vector<int64_t>>();
  }
  return Bad(key, "must be a list of token ids");
}

absl::StatusOr<double> Temperature(const Json& document) {
  const Json& value = document["temperature"];
  if (value.is_number() && value.get<double>() >= 0 &&
      std::isfinite(value.get<double>())) {
    return value.get<double>();
  }
  return Bad("temperature", "must be a number of at least 0");
}

// Exactly the keys that ToJson writes.
absl::Status CheckKeys(const Json& document) {
  const Json expected = Json::parse(GenerateRequestToJson({}));
  for (const auto& [key, value] : expected.items()) {
    if (!document.contains(key)) return Bad(key, "is missing");
  }
  for (const auto& [key, value] : document.items()) {
    if (!expected.contains(key)) return Bad(key, "is not known");
  }
  return absl::OkStatus();
}

}  // namespace

std::string GenerateRequestToJson(const GenerateRequest& request) {
  const Json document = {
      {"checkpoint", request.checkpoint},
      {"prompt", request.prompt},
      {"tokens", request.tokens},
      {"temperature", request.temperature},
      {"top_k", request.top_k},
      {"seed", request.seed},
      {"token_limit", request.token_limit},
      {"stop", request.stop},
      {"threads", request.threads},
  };
  return document.dump(-1, ' ', /*ensure_ascii=*/false,
                       Json::error_handler_t::replace);
}

absl::StatusOr<GenerateRequest> GenerateRequestFromJson(
    absl::string_view text) {
  const Json document = Json::parse(text.begin(), text.end(), nullptr,
                                    /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::InvalidArgumentError(
        "this is no request to generate; \"stagecoach generate\" writes one");
  }
  SC_RETURN_IF_ERROR(CheckKeys(document));
  GenerateRequest request;
  if (!document["checkpoint"].is_string()) {
    return Bad("checkpoint", "must be a path");
  }
  request.checkpoint = document["checkpoint"];
  SC_ASSIGN_OR_RETURN(request.prompt, Tokens(document, "prompt"));
  if (request.prompt.empty()) return Bad("prompt", "is empty");
  SC_ASSIGN_OR_RETURN(request.stop, Tokens(document, "stop"));
  SC_ASSIGN_OR_RETURN(request.temperature, Temperature(document));
  SC_ASSIGN_OR_RETURN(request.tokens,
                      Integer(document, "tokens", 1, kMostTokens));
  SC_ASSIGN_OR_RETURN(request.top_k,
                      Integer(document, "top_k", 0, kMostTokens));
  SC_ASSIGN_OR_RETURN(request.seed, Integer(document, "seed", 0, INT64_MAX));
  SC_ASSIGN_OR_RETURN(request.token_limit,
                      Integer(document, "token_limit", 0, kMostTokens));
  SC_ASSIGN_OR_RETURN(request.threads,
                      Integer(document, "threads", 1, kMostThreads));
  return request;
}

}  // namespace stagecoach::worker

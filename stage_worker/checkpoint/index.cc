#include "stage_worker/checkpoint/index.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/strict_json.h"

namespace stagecoach::checkpoint {

std::string IndexToJson(const WeightIndex& index) {
  nlohmann::ordered_json document;
  document["metadata"]["total_size"] = index.total_bytes;
  document["weight_map"] = index.files;
  return absl::StrCat(document.dump(2), "\n");
}

absl::StatusOr<WeightIndex> IndexFromJson(absl::string_view text) {
  SC_ASSIGN_OR_RETURN(const nlohmann::json document, ParseStrictJson(text));
  if (!document.is_object() || !document.contains("weight_map") ||
      !document["weight_map"].is_object()) {
    return absl::InvalidArgumentError("it has no object \"weight_map\"");
  }
  WeightIndex index;
  for (const auto& item : document["weight_map"].items()) {
    if (!item.value().is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the file of tensor ", item.key(), " is no string"));
    }
    const std::string file = item.value().get<std::string>();
    if (!IsPlainFileName(file)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the file of tensor ", item.key(), ", \"", file,
                       "\", is no plain file name"));
    }
    index.files[item.key()] = file;
  }
  return index;
}

}  // namespace stagecoach::checkpoint

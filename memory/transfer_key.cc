#include "memory/transfer_key.h"

#include <tuple>

#include "absl/strings/str_cat.h"

namespace stagecoach::memory {
namespace {

auto AsTuple(const TransferKey& key) {
  return std::tie(key.epoch, key.step, key.replica, key.microbatch, key.stage,
                  key.direction);
}

}  // namespace

bool operator==(const TransferKey& a, const TransferKey& b) {
  return AsTuple(a) == AsTuple(b);
}

bool operator<(const TransferKey& a, const TransferKey& b) {
  return AsTuple(a) < AsTuple(b);
}

std::string ToString(const TransferKey& key) {
  const bool tied = key.microbatch.value() < 0;
  return absl::StrCat(
      "stage ", key.stage.value(), ", step ", key.step.value(), ", ",
      tied ? "tied parameters"
           : absl::StrCat("microbatch ", key.microbatch.value()),
      ", ", DirectionName(key.direction), " (epoch ", key.epoch.value(),
      ", replica ", key.replica, ")");
}

}  // namespace stagecoach::memory

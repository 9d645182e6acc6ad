#include "transport/ucx/descriptor.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace stagecoach::transport::ucx {
namespace {

constexpr absl::string_view kFormat = "ucx/1";
constexpr absl::string_view kLoopback = "loopback";
constexpr absl::string_view kNetwork = "network";

bool ParseVersion(absl::string_view text, UcxDescriptor* descriptor) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  return parts.size() == 2 && absl::SimpleAtoi(parts[0], &descriptor->major) &&
         absl::SimpleAtoi(parts[1], &descriptor->minor);
}

std::string VersionText(const UcxDescriptor& descriptor) {
  return absl::StrCat(descriptor.major, ".", descriptor.minor);
}

}  // namespace

std::string FormatDescriptor(const UcxDescriptor& descriptor) {
  return absl::StrCat(
      kFormat, ";", VersionText(descriptor), ";", descriptor.location.boot_id,
      ";", descriptor.location.network_namespace, ";",
      descriptor.loopback_only ? kLoopback : kNetwork, ";", descriptor.address);
}

absl::StatusOr<UcxDescriptor> ParseDescriptor(absl::string_view text) {
  // The address is the rest, whatever it holds.
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits(';', 5));
  if (!absl::StartsWith(parts[0], "ucx/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("ucx: \"", text, "\" describes no UCX endpoint"));
  }
  if (parts[0] != kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("ucx: the peer speaks ", parts[0], ", this worker ",
                     kFormat, "; run the same version on both"));
  }
  UcxDescriptor descriptor;
  if (parts.size() != 6 || !ParseVersion(parts[1], &descriptor) ||
      !IsPlainWord(parts[2]) ||
      !absl::SimpleAtoi(parts[3], &descriptor.location.network_namespace) ||
      (parts[4] != kLoopback && parts[4] != kNetwork) || parts[5].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ucx: the peer's description \"", text, "\" is broken"));
  }
  descriptor.location.boot_id = parts[2];
  descriptor.loopback_only = parts[4] == kLoopback;
  descriptor.address = parts[5];
  return descriptor;
}

absl::Status CheckPair(const UcxDescriptor& one, const UcxDescriptor& other) {
  if (one.major != other.major || one.minor != other.minor) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ucx: one worker has UCX ", VersionText(one), ", the other ",
        VersionText(other), "; install the same on both"));
  }
  const bool apart =
      one.location.boot_id != other.location.boot_id ||
      one.location.network_namespace != other.location.network_namespace;
  // Each end connects to the other.
  if (apart && (one.loopback_only || other.loopback_only)) {
    return absl::FailedPreconditionError(
        "ucx: it may use its own machine's loopback only; start the workers "
        "with --allow-plaintext");
  }
  return absl::OkStatus();
}

}  // namespace stagecoach::transport::ucx

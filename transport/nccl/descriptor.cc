#include "transport/nccl/descriptor.h"

#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "transport/nccl/version.h"

namespace stagecoach::transport::nccl {
namespace {

constexpr absl::string_view kFormat = "nccl/1";

}  // namespace

std::string FormatDescriptor(const NcclDescriptor& descriptor) {
  return absl::StrCat(kFormat, ";", descriptor.nccl_version, ";",
                      descriptor.host, ";", descriptor.gpu, ";",
                      descriptor.address);
}

absl::StatusOr<NcclDescriptor> ParseDescriptor(absl::string_view text) {
  // The address is the rest, whatever it holds.
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::MaxSplits(';', 4));
  if (!absl::StartsWith(parts[0], "nccl/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("nccl: \"", text, "\" describes no NCCL endpoint"));
  }
  if (parts[0] != kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("nccl: the peer speaks ", parts[0], ", this worker ",
                     kFormat, "; run the same version on both"));
  }
  NcclDescriptor descriptor;
  if (parts.size() != 5 ||
      !absl::SimpleAtoi(parts[1], &descriptor.nccl_version) ||
      parts[2].empty() || parts[3].empty() || parts[4].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("nccl: the peer's description \"", text, "\" is broken"));
  }
  descriptor.host = parts[2];
  descriptor.gpu = parts[3];
  descriptor.address = parts[4];
  return descriptor;
}

absl::Status CheckPair(const NcclDescriptor& here, const NcclDescriptor& peer,
                       bool share_gpu) {
  if (here.nccl_version != peer.nccl_version) {
    return absl::FailedPreconditionError(absl::StrCat(
        "nccl: this worker has NCCL ", VersionText(here.nccl_version),
        ", the peer ", VersionText(peer.nccl_version),
        "; install the same on both"));
  }
  if (here.host == peer.host && here.gpu == peer.gpu && !share_gpu) {
    return absl::FailedPreconditionError(
        absl::StrCat("nccl: both workers are on GPU ", here.gpu,
                     " of this host, and NCCL takes one rank per GPU; give "
                     "each worker a GPU "
                     "of its own (--device), or use transport = \"shm\""));
  }
  return absl::OkStatus();
}

std::string ThisHost() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (file >> id) return id;
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || *name == '\0') return "?";
  return name;
}

}  // namespace stagecoach::transport::nccl

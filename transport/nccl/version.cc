#include "transport/nccl/version.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stagecoach::transport::nccl {
namespace {

// The first that aborts several communicators as one group. Aborted one after
// the other, two that have work under way wait for each other for ever.
constexpr int kFloor = 22203;

struct BadVersion {
  int version;
  bool arm_only;
  bool ras_only;
  const char* why;
};
constexpr BadVersion kBad[] = {
    {22602, false, true,
     "its monitoring (RAS) can crash the process while communicators are made; "
     "set NCCL_RAS_ENABLE=0, or use another version"},
    {22707, false, true,
     "its monitoring (RAS) can crash the process; set NCCL_RAS_ENABLE=0, or "
     "use "
     "another version"},
    {22902, true, false, "it can hang on ARM; use 2.29.3 or later"},
};

}  // namespace

std::string VersionText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

absl::Status CheckNcclVersion(int version, bool on_arm, bool ras_enabled) {
  if (version < kFloor) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL ", VersionText(version),
                     " is too old: it cannot abort several "
                     "communicators at once; use ",
                     VersionText(kFloor), " or later"));
  }
  for (const BadVersion& bad : kBad) {
    if (version != bad.version || (bad.arm_only && !on_arm) ||
        (bad.ras_only && !ras_enabled)) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "NCCL ", VersionText(version), " is known to be bad: ", bad.why));
  }
  return absl::OkStatus();
}

absl::Status CheckNcclVersion(int version) {
#if defined(__aarch64__)
  constexpr bool kOnArm = true;
#else
  constexpr bool kOnArm = false;
#endif
  const char* const ras = std::getenv("NCCL_RAS_ENABLE");
  const bool ras_enabled = ras == nullptr || absl::string_view(ras) != "0";
  return CheckNcclVersion(version, kOnArm, ras_enabled);
}

}  // namespace stagecoach::transport::nccl

#include "transport/location.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::transport {
namespace {

constexpr size_t kMaxWordBytes = 90;

}  // namespace

bool IsPlainWord(absl::string_view value) {
  return !value.empty() && value.size() <= kMaxWordBytes &&
         std::all_of(value.begin(), value.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '-';
         });
}

absl::StatusOr<Location> Location::Here() {
  Location here;
  std::ifstream boot_id("/proc/sys/kernel/random/boot_id");
  struct stat net;
  if (!std::getline(boot_id, here.boot_id) || !IsPlainWord(here.boot_id)) {
    return absl::FailedPreconditionError(
        "cannot read /proc/sys/kernel/random/boot_id; is /proc mounted?");
  }
  if (stat("/proc/self/ns/net", &net) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read /proc/self/ns/net: ", strerror(errno)));
  }
  here.network_namespace = net.st_ino;
  here.user_id = geteuid();
  return here;
}

}  // namespace stagecoach::transport

#include "transport/shm/descriptor.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace stagecoach::transport::shm {
namespace {

constexpr absl::string_view kFormat = "shm/1";

absl::StatusOr<std::string> RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  if (getrandom(&bytes[0], count, 0) != static_cast<ssize_t>(count)) {
    return absl::InternalError(
        absl::StrCat("getrandom failed: ", strerror(errno)));
  }
  return bytes;
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("shm: the peer's description ", what));
}

using Fields = std::map<std::string, std::string>;

absl::StatusOr<Fields> SplitFields(absl::string_view text) {
  // A view of nothing at all would be split into no parts, not into one.
  if (text.empty()) return Malformed("is empty");
  std::vector<absl::string_view> parts = absl::StrSplit(text, ';');
  if (parts[0] != kFormat) {
    if (!absl::StartsWith(parts[0], "shm/")) {
      return Malformed("is not one of shared memory");
    }
    return absl::FailedPreconditionError(
        absl::StrCat("shm: the peer speaks ", parts[0], ", this worker ",
                     kFormat, "; use the same release on both"));
  }
  Fields fields;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> field =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    if (!IsPlainWord(field.second)) {
      return Malformed(absl::StrCat("has a bad field \"", field.first, "\""));
    }
    if (!fields.insert(field).second) {
      return Malformed(absl::StrCat("has \"", field.first, "\" twice"));
    }
  }
  return fields;
}

absl::StatusOr<Token> ParseToken(const std::string& hex) {
  Token token{};
  const bool digits = std::all_of(hex.begin(), hex.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (hex.size() != 2 * token.size() || !digits) {
    return Malformed("has a bad token");
  }
  const std::string bytes = absl::HexStringToBytes(hex);
  std::copy(bytes.begin(), bytes.end(), token.begin());
  return token;
}

}  // namespace

absl::StatusOr<ShmDescriptor> NewDescriptor() {
  ShmDescriptor descriptor;
  SC_ASSIGN_OR_RETURN(descriptor.location, Location::Here());
  SC_ASSIGN_OR_RETURN(const std::string name, RandomBytes(16));
  SC_ASSIGN_OR_RETURN(const std::string token, RandomBytes(16));
  descriptor.socket_name =
      absl::StrCat("stagecoach-", absl::BytesToHexString(name));
  std::copy(token.begin(), token.end(), descriptor.token.begin());
  return descriptor;
}

std::string FormatDescriptor(const ShmDescriptor& descriptor) {
  const std::string token(descriptor.token.begin(), descriptor.token.end());
  return absl::StrCat(kFormat, ";boot=", descriptor.location.boot_id,
                      ";net=", descriptor.location.network_namespace,
                      ";uid=", descriptor.location.user_id,
                      ";socket=", descriptor.socket_name,
                      ";token=", absl::BytesToHexString(token));
}

absl::StatusOr<ShmDescriptor> ParseDescriptor(absl::string_view text) {
  SC_ASSIGN_OR_RETURN(Fields fields, SplitFields(text));
  for (const char* name : {"boot", "net", "uid", "socket", "token"}) {
    if (fields.count(name) == 0) {
      return Malformed(absl::StrCat("has no \"", name, "\""));
    }
  }
  ShmDescriptor descriptor;
  descriptor.location.boot_id = fields["boot"];
  descriptor.socket_name = fields["socket"];
  if (!absl::SimpleAtoi(fields["net"],
                        &descriptor.location.network_namespace) ||
      !absl::SimpleAtoi(fields["uid"], &descriptor.location.user_id)) {
    return Malformed("has a bad number");
  }
  SC_ASSIGN_OR_RETURN(descriptor.token, ParseToken(fields["token"]));
  return descriptor;
}

absl::Status CheckReachable(const Location& here, const Location& peer) {
  if (here.boot_id != peer.boot_id) {
    return absl::FailedPreconditionError(
        "shm: the peer runs on another host; use transport = \"tcp\"");
  }
  if (here.network_namespace != peer.network_namespace) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shm: the peer is in another network namespace of this host (",
        peer.network_namespace, ", here ", here.network_namespace,
        "); share it (a host network, or one pod) or use transport = "
        "\"tcp\""));
  }
  if (here.user_id != peer.user_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shm: the peer runs as user ", peer.user_id, ", this worker as ",
        here.user_id, "; run both as one user or use transport = \"tcp\""));
  }
  return absl::OkStatus();
}

bool SameToken(const Token& a, const Token& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace stagecoach::transport::shm

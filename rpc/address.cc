#include "rpc/address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace stagecoach::rpc {
namespace {

constexpr size_t kMaxUnixPath = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Unreadable(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", text, "\": ", why,
                   "; write HOST:PORT (127.0.0.1:7070, [::1]:7070) or "
                   "unix:/path/of/socket"));
}

absl::StatusOr<Address> ParseUnix(absl::string_view text,
                                  absl::string_view path) {
  // unix:///path and unix:/path name the same socket.
  absl::ConsumePrefix(&path, "//");
  if (path.empty()) return Unreadable(text, "the socket has no path");
  if (path.size() > kMaxUnixPath) {
    return Unreadable(text,
                      absl::StrCat("the path has ", path.size(),
                                   " bytes, the system allows ", kMaxUnixPath));
  }
  Address address;
  address.is_unix = true;
  address.path = std::string(path);
  return address;
}

bool IsIpv6(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

}  // namespace

bool Address::IsLoopback() const {
  if (is_unix || host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string Address::ToString() const {
  if (is_unix) return absl::StrCat("unix:", path);
  if (absl::StrContains(host, ':')) {
    return absl::StrCat("[", host, "]:", port);
  }
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) return ParseUnix(text, rest);
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) {
    return Unreadable(text, "the port is missing");
  }
  Address address;
  absl::string_view host = rest.substr(0, colon);
  const absl::string_view port = rest.substr(colon + 1);
  if (!absl::SimpleAtoi(port, &address.port) || address.port < 0 ||
      address.port > 65535) {
    return Unreadable(
        text, absl::StrCat("\"", port, "\" is not a port from 0 to 65535"));
  }
  const bool bracketed =
      absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  address.host = std::string(host);
  if (address.host.empty()) return Unreadable(text, "the host is missing");
  if (bracketed != absl::StrContains(host, ':') ||
      (bracketed && !IsIpv6(address.host)) ||
      host.find_first_of("[]/ \t") != absl::string_view::npos) {
    return Unreadable(text, absl::StrCat("\"", host, "\" is not a host"));
  }
  return address;
}

}  // namespace stagecoach::rpc

#include "transport/tcp/descriptor.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace stagecoach::transport::tcp {
namespace {

constexpr absl::string_view kFormat = "tcp/1";
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxAddresses = 32;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tcp: the peer's description ", what));
}

using Fields = std::map<std::string, std::string>;

absl::StatusOr<Fields> SplitFields(absl::string_view text) {
  if (text.size() > kMaxTextBytes) return Malformed("is absurdly long");
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ';');
  if (parts[0] != kFormat) {
    if (!absl::StartsWith(parts[0], "tcp/")) return Malformed("is not one");
    return absl::FailedPreconditionError(
        absl::StrCat("tcp: the peer speaks ", parts[0], ", this worker ",
                     kFormat, "; use the same release on both"));
  }
  Fields fields;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> field =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    if (field.second.empty() || !fields.insert(field).second) {
      return Malformed(absl::StrCat("has a bad field \"", field.first, "\""));
    }
  }
  for (const char* name : {"host", "net", "instance", "token", "at"}) {
    if (fields.count(name) == 0) {
      return Malformed(absl::StrCat("has no \"", name, "\""));
    }
  }
  return fields;
}

}  // namespace

absl::StatusOr<Descriptor> NewDescriptor() {
  Descriptor descriptor;
  absl::StatusOr<Location> here = Location::Here();
  if (!here.ok()) return Annotate(here.status(), "tcp");
  descriptor.location = *std::move(here);
  SC_ASSIGN_OR_RETURN(descriptor.instance, DrawToken());
  SC_ASSIGN_OR_RETURN(descriptor.token, DrawToken());
  return descriptor;
}

std::string Format(const Descriptor& descriptor) {
  const std::string addresses =
      absl::StrJoin(descriptor.addresses, ",",
                    [](std::string* out, const SocketAddress& address) {
                      out->append(address.ToString());
                    });
  return absl::StrCat(kFormat, ";host=", descriptor.location.boot_id,
                      ";net=", descriptor.location.network_namespace,
                      ";instance=", ToHex(descriptor.instance),
                      ";token=", ToHex(descriptor.token), ";at=", addresses);
}

absl::StatusOr<Descriptor> ParseDescriptor(absl::string_view text) {
  SC_ASSIGN_OR_RETURN(Fields fields, SplitFields(text));
  Descriptor descriptor;
  descriptor.location.boot_id = fields["host"];
  if (!IsPlainWord(fields["host"])) return Malformed("has a bad host");
  if (!absl::SimpleAtoi(fields["net"],
                        &descriptor.location.network_namespace)) {
    return Malformed("has a bad number");
  }
  SC_ASSIGN_OR_RETURN(descriptor.instance, TokenFromHex(fields["instance"]));
  SC_ASSIGN_OR_RETURN(descriptor.token, TokenFromHex(fields["token"]));
  for (absl::string_view part : absl::StrSplit(fields["at"], ',')) {
    SC_ASSIGN_OR_RETURN(const SocketAddress address,
                        SocketAddress::Parse(part));
    if (address.port() == 0) return Malformed("has an address without a port");
    descriptor.addresses.push_back(address);
  }
  if (descriptor.addresses.size() > kMaxAddresses) {
    return Malformed("has too many addresses");
  }
  return descriptor;
}

bool IsLoopbackOnly(const Descriptor& descriptor) {
  return std::all_of(descriptor.addresses.begin(), descriptor.addresses.end(),
                     [](const SocketAddress& a) { return a.IsLoopback(); });
}

absl::Status CheckReachable(const Location& from, const Location& to,
                            bool loopback_only) {
  if (!loopback_only || (from.boot_id == to.boot_id &&
                         from.network_namespace == to.network_namespace)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "tcp: the receiver listens on its own machine's loopback only; start it "
      "with --listen (or --data-listen) on an address that the other workers "
      "reach, and with TLS (--tls-authority, --tls-certificate, --tls-key) or "
      "--allow-plaintext");
}

}  // namespace stagecoach::transport::tcp

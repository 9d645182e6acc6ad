#include "rpc/tls_flags.h"

#include <memory>
#include <utility>

#include "base/tls_identity.h"
#include "rpc/channel.h"

namespace stagecoach::rpc {

void AddTlsFlags(CLI::App* app, TlsFiles* files) {
  for (const TlsFlag& flag : kTlsFlags) {
    app->add_option(flag.flag, files->*flag.member, flag.help)
        ->envname(flag.variable)
        ->type_name(flag.type);
  }
}

absl::Status UseTlsOf(const TlsFiles& files) {
  if (files.empty()) {
    UseTls(nullptr);
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const TlsIdentity>> identity =
      TlsIdentity::Load(files);
  absl::Status status = identity.status();
  UseTls(std::move(identity));
  return status;
}

}  // namespace stagecoach::rpc

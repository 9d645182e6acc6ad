#include "rpc/tls_flags.h"

#include <memory>
#include <utility>

#include "base/tls_identity.h"
#include "rpc/channel.h"

namespace stagecoach::rpc {

void AddTlsFlags(CLI::App* app, TlsFiles* files) {
  app->add_option("--tls-authority", files->authority,
                  "TLS with all others: the authority that issued every "
                  "certificate of the cluster (PEM)")
      ->envname(kTlsAuthorityVariable)
      ->type_name("FILE");
  app->add_option("--tls-certificate", files->certificate,
                  "The certificate that this program shows (PEM)")
      ->envname(kTlsCertificateVariable)
      ->type_name("FILE");
  app->add_option("--tls-key", files->key,
                  "The private key of that certificate (PEM)")
      ->envname(kTlsKeyVariable)
      ->type_name("FILE");
  app->add_option("--tls-name", files->name,
                  "Name that every server's certificate must have "
                  "(default: its host or address)")
      ->envname(kTlsNameVariable)
      ->type_name("NAME");
}

absl::Status UseTlsOf(const TlsFiles& files) {
  if (files.empty()) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const TlsIdentity>> identity =
      TlsIdentity::Load(files);
  const absl::Status status = identity.status();
  UseTls(std::move(identity));
  return status;
}

}  // namespace stagecoach::rpc

#ifndef STAGECOACH_BASE_TLS_IDENTITY_H_
#define STAGECOACH_BASE_TLS_IDENTITY_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tls_files.h"

namespace stagecoach {

// Who this process is to the others of its cluster, and whose word on them
// counts. Immutable.
class TlsIdentity {
 public:
  // kInvalidArgument, and which file and why, if one is missing, cannot be
  // read, the key is of another certificate, or the certificate would not be
  // accepted by a peer with the same authority (expired, issued by another).
  static absl::StatusOr<std::shared_ptr<const TlsIdentity>> Load(
      const TlsFiles& files);

  // Contents of the files.
  const std::string& authority() const { return authority_; }
  const std::string& certificate() const { return certificate_; }
  const std::string& key() const { return key_; }
  const std::string& name() const { return name_; }
  // For both sides of a connection: TLS 1.3, and a peer without a certificate
  // of the authority is refused. Names are not looked at.
  SSL_CTX* context() const { return context_.get(); }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  TlsIdentity() = default;
  absl::Status Read(const TlsFiles& files);
  absl::Status MakeContext(const TlsFiles& files);
  absl::Status CheckOwn(const TlsFiles& files) const;

  std::string authority_;
  std::string certificate_;
  std::string key_;
  std::string name_;
  std::unique_ptr<SSL_CTX, Free> context_;
};

// OpenSSL's words for its last error on this thread, which is then forgotten.
std::string TakeOpensslError();

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_TLS_IDENTITY_H_

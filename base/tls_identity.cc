#include "base/tls_identity.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"

namespace stagecoach {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

absl::Status Unusable(const std::string& file, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("TLS: ", file, ": ", why));
}

absl::Status ReadPem(const char* flag, const std::string& file,
                     std::string* contents) {
  if (file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: ", flag,
                     " is missing; TLS needs --tls-authority, "
                     "--tls-certificate and --tls-key (or their variables "
                     "STAGECOACH_TLS_...)"));
  }
  absl::StatusOr<std::string> read = ReadFile(file, kMaxFileBytes);
  if (!read.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: ", flag, ": ", read.status().message()));
  }
  *contents = *std::move(read);
  return absl::OkStatus();
}

}  // namespace

std::string TakeOpensslError() {
  const uint64_t error = ERR_get_error();
  ERR_clear_error();
  if (error == 0) return "no reason is given";
  const char* const reason = ERR_reason_error_string(error);
  return reason == nullptr ? absl::StrCat("error ", error) : reason;
}

absl::StatusOr<std::shared_ptr<const TlsIdentity>> TlsIdentity::Load(
    const TlsFiles& files) {
  const std::shared_ptr<TlsIdentity> identity(new TlsIdentity);
  SC_RETURN_IF_ERROR(identity->Read(files));
  SC_RETURN_IF_ERROR(identity->CheckOwn(files));
  return identity;
}

absl::Status TlsIdentity::Read(const TlsFiles& files) {
  SC_RETURN_IF_ERROR(ReadPem("--tls-authority", files.authority, &authority_));
  SC_RETURN_IF_ERROR(
      ReadPem("--tls-certificate", files.certificate, &certificate_));
  SC_RETURN_IF_ERROR(ReadPem("--tls-key", files.key, &key_));
  name_ = files.name;
  context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = context_.get();
  if (context == nullptr ||
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) {
    return absl::InternalError(absl::StrCat("TLS: ", TakeOpensslError()));
  }
  if (SSL_CTX_load_verify_locations(context, files.authority.c_str(),
                                    nullptr) != 1) {
    return Unusable(files.authority,
                    absl::StrCat("no certificates of an authority in PEM (",
                                 TakeOpensslError(), ")"));
  }
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) !=
      1) {
    return Unusable(files.certificate, absl::StrCat("no certificate in PEM (",
                                                    TakeOpensslError(), ")"));
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(),
                                  SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return Unusable(files.key,
                    absl::StrCat("not the key of ", files.certificate,
                                 " in PEM (", TakeOpensslError(), ")"));
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  // Connections last as long as a placement: none is resumed.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  return absl::OkStatus();
}

// As a peer will.
absl::Status TlsIdentity::CheckOwn(const TlsFiles& files) const {
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context_.get(), &chain);
  const std::unique_ptr<X509_STORE_CTX, void (*)(X509_STORE_CTX*)> check(
      X509_STORE_CTX_new(), X509_STORE_CTX_free);
  if (check == nullptr ||
      X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context_.get()),
                          SSL_CTX_get0_certificate(context_.get()),
                          chain) != 1) {
    return absl::InternalError(absl::StrCat("TLS: ", TakeOpensslError()));
  }
  if (X509_verify_cert(check.get()) == 1) return absl::OkStatus();
  ERR_clear_error();
  return Unusable(
      files.certificate,
      absl::StrCat(
          X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get())),
          " (checked against ", files.authority, "); peers would refuse it"));
}

}  // namespace stagecoach

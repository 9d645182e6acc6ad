#include "base/tls_identity.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <cstdint>
#include <vector>

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

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

std::unique_ptr<BIO, Free> Over(const std::string& text) {
  return std::unique_ptr<BIO, Free>(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Nobody is asked for a passphrase.
int NoPassphrase(char* /*to*/, int /*size*/, int /*writes*/, void* /*user*/) {
  return 0;
}

std::vector<Certificate> CertificatesIn(const std::string& pem) {
  std::vector<Certificate> certificates;
  const std::unique_ptr<BIO, Free> bio = Over(pem);
  while (X509* const certificate =
             PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(certificate);
  }
  ERR_clear_error();  // it ends with one
  return certificates;
}

Key KeyIn(const std::string& pem) {
  return Key(
      PEM_read_bio_PrivateKey(Over(pem).get(), nullptr, NoPassphrase, nullptr));
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
  SC_RETURN_IF_ERROR(identity->MakeContext(files));
  SC_RETURN_IF_ERROR(identity->CheckOwn(files));
  return identity;
}

absl::Status TlsIdentity::Read(const TlsFiles& files) {
  SC_RETURN_IF_ERROR(ReadPem("--tls-authority", files.authority, &authority_));
  SC_RETURN_IF_ERROR(
      ReadPem("--tls-certificate", files.certificate, &certificate_));
  SC_RETURN_IF_ERROR(ReadPem("--tls-key", files.key, &key_));
  name_ = files.name;
  return absl::OkStatus();
}

absl::Status TlsIdentity::MakeContext(const TlsFiles& files) {
  context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = context_.get();
  if (context == nullptr ||
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) {
    return absl::InternalError(absl::StrCat("TLS: ", TakeOpensslError()));
  }
  const std::vector<Certificate> authorities = CertificatesIn(authority_);
  for (const Certificate& certificate : authorities) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get());
  }
  if (authorities.empty()) {
    return Unusable(files.authority, "holds no certificates in PEM");
  }
  const std::vector<Certificate> chain = CertificatesIn(certificate_);
  if (chain.empty() ||
      SSL_CTX_use_certificate(context, chain.front().get()) != 1) {
    return Unusable(files.certificate, absl::StrCat("holds no certificate in "
                                                    "PEM that can be used (",
                                                    TakeOpensslError(), ")"));
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    SSL_CTX_add1_chain_cert(context, chain[i].get());
  }
  const Key key = KeyIn(key_);
  if (key == nullptr) {
    return Unusable(files.key, absl::StrCat("holds no key in PEM that is not "
                                            "encrypted (",
                                            TakeOpensslError(), ")"));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return Unusable(files.key,
                    absl::StrCat("not the key of ", files.certificate, " (",
                                 TakeOpensslError(), ")"));
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  // Connections last as long as a placement: none is resumed.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  return absl::OkStatus();
}

// As a peer will, whether it is dialled by us or dials us.
absl::Status TlsIdentity::CheckOwn(const TlsFiles& files) const {
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context_.get(), &chain);
  for (const char* const purpose : {"ssl_server", "ssl_client"}) {
    const std::unique_ptr<X509_STORE_CTX, void (*)(X509_STORE_CTX*)> check(
        X509_STORE_CTX_new(), X509_STORE_CTX_free);
    if (check == nullptr ||
        X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context_.get()),
                            SSL_CTX_get0_certificate(context_.get()),
                            chain) != 1 ||
        X509_STORE_CTX_set_default(check.get(), purpose) != 1) {
      return absl::InternalError(absl::StrCat("TLS: ", TakeOpensslError()));
    }
    X509_VERIFY_PARAM_set_auth_level(
        X509_STORE_CTX_get0_param(check.get()),
        SSL_CTX_get_security_level(context_.get()));
    if (X509_verify_cert(check.get()) == 1) continue;
    ERR_clear_error();
    return Unusable(files.certificate,
                    absl::StrCat(X509_verify_cert_error_string(
                                     X509_STORE_CTX_get_error(check.get())),
                                 " (checked as ", purpose, " against ",
                                 files.authority, "); peers would refuse it"));
  }
  return absl::OkStatus();
}

}  // namespace stagecoach

#include "base/testing/certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stagecoach::testing {
namespace {

void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "certificates for tests: %s failed\n", what);
  std::abort();
}

void Extend(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  Check(extension != nullptr, value);
  Check(X509_add_ext(certificate, extension, -1) == 1, value);
  X509_EXTENSION_free(extension);
}

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

File Open(const std::string& path) {
  File file(std::fopen(path.c_str(), "w"), std::fclose);
  Check(file != nullptr, path.c_str());
  return file;
}

}  // namespace

TestAuthority::TestAuthority(std::string folder, std::string name)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      key_(EVP_EC_gen("P-256")) {
  Check(key_ != nullptr, "EVP_EC_gen");
  certificate_ = Make(name_, key_.get(), Request(), /*is_authority=*/true);
  const File file = Open(Path("-ca.pem"));
  Check(PEM_write_X509(file.get(), certificate_.get()) == 1, "PEM_write_X509");
}

std::string TestAuthority::Path(const std::string& name) const {
  return absl::StrCat(folder_, "/", name_, name);
}

TestAuthority::Certificate TestAuthority::Make(const std::string& name,
                                               EVP_PKEY* key,
                                               const Request& request,
                                               bool is_authority) {
  Certificate certificate(X509_new());
  X509* const raw = certificate.get();
  X509* const issuer = is_authority ? raw : certificate_.get();
  X509_set_version(raw, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(raw), ++serial_);
  X509_gmtime_adj(X509_getm_notBefore(raw), request.begins_in_seconds);
  X509_gmtime_adj(X509_getm_notAfter(raw), request.ends_in_seconds);
  X509_set_pubkey(raw, key);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(raw), "CN", MBSTRING_ASC,
      reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(raw, X509_get_subject_name(issuer));
  if (is_authority) {
    Extend(raw, issuer, NID_basic_constraints, "critical,CA:TRUE");
    Extend(raw, issuer, NID_key_usage, "critical,keyCertSign");
  } else {
    Extend(raw, issuer, NID_subject_alt_name, request.names.c_str());
    if (!request.purpose.empty()) {
      Extend(raw, issuer, NID_ext_key_usage, request.purpose.c_str());
    }
  }
  Check(X509_sign(raw, key_.get(), EVP_sha256()) > 0, "X509_sign");
  return certificate;
}

TlsFiles TestAuthority::Issue(const std::string& file, const Request& request) {
  const Key key(EVP_EC_gen("P-256"));
  Check(key != nullptr, "EVP_EC_gen");
  const Certificate certificate =
      Make(file, key.get(), request, /*is_authority=*/false);
  TlsFiles files;
  files.authority = Path("-ca.pem");
  files.certificate = Path(absl::StrCat("-", file, ".pem"));
  files.key = Path(absl::StrCat("-", file, ".key"));
  const File certificate_file = Open(files.certificate);
  Check(PEM_write_X509(certificate_file.get(), certificate.get()) == 1,
        "PEM_write_X509");
  const File key_file = Open(files.key);
  Check(PEM_write_PrivateKey(key_file.get(), key.get(), nullptr, nullptr, 0,
                             nullptr, nullptr) == 1,
        "PEM_write_PrivateKey");
  return files;
}

std::string TestAuthority::EncryptKey(const std::string& file) {
  const File plain(std::fopen(file.c_str(), "r"), std::fclose);
  Check(plain != nullptr, file.c_str());
  const Key key(PEM_read_PrivateKey(plain.get(), nullptr, nullptr, nullptr));
  Check(key != nullptr, "PEM_read_PrivateKey");
  const std::string encrypted = file + ".encrypted";
  const File out = Open(encrypted);
  char passphrase[] = "secret";
  Check(PEM_write_PrivateKey(out.get(), key.get(), EVP_aes_256_cbc(), nullptr,
                             0, nullptr, passphrase) == 1,
        "PEM_write_PrivateKey");
  return encrypted;
}

}  // namespace stagecoach::testing

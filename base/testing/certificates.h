#ifndef STAGECOACH_BASE_TESTING_CERTIFICATES_H_
#define STAGECOACH_BASE_TESTING_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "base/tls_files.h"

namespace stagecoach::testing {

// An authority of its own, and what it issues, as files in a folder. EC keys on
// P-256. Any failure ends the process.
class TestAuthority {
 public:
  struct Request {
    // Subject alternative names, as OpenSSL's configuration writes them.
    std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
    std::string purpose;  // extended key usage; empty: any
    int64_t begins_in_seconds = -3600;
    int64_t ends_in_seconds = 3600;
  };

  // Writes FOLDER/NAME-ca.pem.
  TestAuthority(std::string folder, std::string name);

  // Writes FOLDER/NAME-FILE.pem and FOLDER/NAME-FILE.key.
  TlsFiles Issue(const std::string& file, const Request& request);
  TlsFiles Issue(const std::string& file) { return Issue(file, Request()); }
  // Writes the key of a file with a passphrase; the new file.
  static std::string EncryptKey(const std::string& file);

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  Certificate Make(const std::string& name, EVP_PKEY* key,
                   const Request& request, bool is_authority);
  std::string Path(const std::string& name) const;

  const std::string folder_;
  const std::string name_;
  int serial_ = 0;
  Key key_;
  Certificate certificate_;
};

}  // namespace stagecoach::testing

#endif  // STAGECOACH_BASE_TESTING_CERTIFICATES_H_

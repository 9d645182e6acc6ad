#ifndef STAGECOACH_BASE_TLS_FILES_H_
#define STAGECOACH_BASE_TLS_FILES_H_

#include <string>

namespace stagecoach {

// Paths of PEM files, and what they are given as on the command line.
struct TlsFiles {
  std::string authority;    // certificates of who may issue certificates
  std::string certificate;  // this process's, then those between it and one
                            // of the authority's
  std::string key;          // of the certificate, not encrypted
  // Expected in the certificate of every server; empty: its host or address.
  std::string name;

  bool empty() const {
    return authority.empty() && certificate.empty() && key.empty() &&
           name.empty();
  }
};

// How one of them is given to every program.
struct TlsFlag {
  const char* flag;
  const char* variable;  // stands for the flag where it is not given
  std::string TlsFiles::*member;
  const char* type;
  const char* help;
};
inline constexpr TlsFlag kTlsFlags[] = {
    {"--tls-authority", "STAGECOACH_TLS_AUTHORITY", &TlsFiles::authority,
     "FILE",
     "TLS with all others: the authority that issued every certificate of the "
     "cluster (PEM)"},
    {"--tls-certificate", "STAGECOACH_TLS_CERTIFICATE", &TlsFiles::certificate,
     "FILE", "The certificate that this program shows (PEM)"},
    {"--tls-key", "STAGECOACH_TLS_KEY", &TlsFiles::key, "FILE",
     "The private key of that certificate (PEM)"},
    {"--tls-name", "STAGECOACH_TLS_NAME", &TlsFiles::name, "NAME",
     "Name that every server's certificate must have (default: its host or "
     "address)"},
};

// What the variables say.
TlsFiles TlsFilesOfEnvironment();

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_TLS_FILES_H_

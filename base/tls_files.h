#ifndef STAGECOACH_BASE_TLS_FILES_H_
#define STAGECOACH_BASE_TLS_FILES_H_

#include <string>

namespace stagecoach {

// The variables that stand for the flags.
inline constexpr char kTlsAuthorityVariable[] = "STAGECOACH_TLS_AUTHORITY";
inline constexpr char kTlsCertificateVariable[] = "STAGECOACH_TLS_CERTIFICATE";
inline constexpr char kTlsKeyVariable[] = "STAGECOACH_TLS_KEY";
inline constexpr char kTlsNameVariable[] = "STAGECOACH_TLS_NAME";

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

}  // namespace stagecoach

#endif  // STAGECOACH_BASE_TLS_FILES_H_

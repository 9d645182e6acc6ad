#include "base/tls_files.h"

#include <cstdlib>

namespace stagecoach {

TlsFiles TlsFilesOfEnvironment() {
  TlsFiles files;
  for (const TlsFlag& flag : kTlsFlags) {
    const char* value = std::getenv(flag.variable);
    if (value != nullptr) files.*flag.member = value;
  }
  return files;
}

}  // namespace stagecoach

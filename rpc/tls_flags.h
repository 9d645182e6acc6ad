#ifndef STAGECOACH_RPC_TLS_FLAGS_H_
#define STAGECOACH_RPC_TLS_FLAGS_H_

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "base/tls_files.h"

namespace stagecoach::rpc {

// --tls-authority, --tls-certificate, --tls-key and --tls-name, which all
// programs have.
void AddTlsFlags(CLI::App* app, TlsFiles* files);

// UseTls: without TLS if no file is named, else with what the files hold, or
// why not. Errors as TlsIdentity::Load's.
absl::Status UseTlsOf(const TlsFiles& files);

}  // namespace stagecoach::rpc

#endif  // STAGECOACH_RPC_TLS_FLAGS_H_

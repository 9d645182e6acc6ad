#include "rpc/channel.h"

#include <grpc/support/log.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "rpc/address.h"
#include "rpc/channel_settings.h"

namespace stagecoach::rpc {
namespace {

// Percent-encoded, a message can be three times as long, and both ends take
// 64 KiB of metadata.
constexpr size_t kMaxStatusMessageBytes = size_t{16} << 10;

// gRPC prints its own lines for what we report better ourselves, such as a
// taken port. Who asks for them by GRPC_VERBOSITY gets them as gRPC writes
// them. And Debian builds the mutexes that gRPC takes with a search for
// deadlocks, which has a lock and a graph for the whole process.
void PrepareGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    if (std::getenv("GRPC_VERBOSITY") != nullptr) return;
    gpr_set_log_function([](gpr_log_func_args* line) {
      LogDebug(absl::StrCat("grpc: ", line->message));
    });
  });
}

absl::Status CannotListen(absl::StatusCode code, const Address& address,
                          absl::string_view why) {
  return absl::Status(
      code, absl::StrCat("cannot listen on ", address.ToString(), ": ", why));
}

// One identity a process.
struct Identity {
  Mutex mu;
  absl::StatusOr<std::shared_ptr<const TlsIdentity>> current SC_GUARDED_BY(mu) =
      nullptr;
};
Identity& ProcessIdentity() {
  static auto* const identity = new Identity;
  return *identity;
}

// Null: connections there are plain ones. Who may open a unix socket is the
// matter of its folder.
absl::StatusOr<std::shared_ptr<const TlsIdentity>> IdentityAt(
    const Address& address) {
  if (address.is_unix) return nullptr;
  return TlsInUse();
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(
    const std::shared_ptr<const TlsIdentity>& identity) {
  if (identity == nullptr) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = identity->authority();
  options.pem_key_cert_pairs.push_back(
      {identity->key(), identity->certificate()});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentialsOf(
    const std::shared_ptr<const TlsIdentity>& identity) {
  if (identity == nullptr) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = identity->authority();
  options.pem_private_key = identity->key();
  options.pem_cert_chain = identity->certificate();
  return grpc::SslCredentials(options);
}

constexpr char kTlsRemedy[] =
    "use TLS (--tls-authority, --tls-certificate, --tls-key)";

absl::Status CheckReach(const Address& address, const ListenOptions& options) {
  if (!options.allow_plaintext) {
    return CannotListen(
        absl::StatusCode::kPermissionDenied, address,
        absl::StrCat("anyone who reaches this address could run jobs, for "
                     "connections are not authenticated; listen on 127.0.0.1, "
                     "[::1] or a unix: socket, ",
                     kTlsRemedy,
                     ", or, in a closed network, give --allow-plaintext"));
  }
  LogWarning(absl::StrCat("listening on ", address.ToString(),
                          " without encryption or authentication "
                          "(--allow-plaintext): whoever reaches this address "
                          "can run jobs"));
  return absl::OkStatus();
}

// gRPC takes over the socket file of a server that still runs; asking it first
// is the only way to know.
bool UnixSocketAnswers(const std::string& path) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool answers =
      connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0;
  close(fd);
  return answers;
}

int BindErrno(const addrinfo& candidate) {
  const int fd = socket(candidate.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, candidate.ai_addr, candidate.ai_addrlen) != 0) return errno;
  return listen(fd, 1) == 0 ? 0 : errno;
}

absl::Status ExplainErrno(const Address& address, int error) {
  switch (error) {
    case EADDRINUSE:
      return CannotListen(absl::StatusCode::kAlreadyExists, address,
                          "another process has this port; stop it, or choose "
                          "another port (0 takes a free one)");
    case EADDRNOTAVAIL:
      return CannotListen(absl::StatusCode::kInvalidArgument, address,
                          "no interface of this machine has this address");
    case EACCES:
      return CannotListen(absl::StatusCode::kPermissionDenied, address,
                          "this port needs privileges; choose one above 1023");
    default:
      return CannotListen(absl::StatusCode::kUnavailable, address,
                          strerror(error));
  }
}

// After gRPC could not bind, which does not say why.
absl::Status Explain(const Address& address, bool encrypted) {
  if (address.is_unix) {
    return CannotListen(absl::StatusCode::kInvalidArgument, address,
                        "the socket cannot be made there; name a folder that "
                        "exists and can be written");
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (result != 0) {
    return CannotListen(absl::StatusCode::kInvalidArgument, address,
                        absl::StrCat("the host cannot be resolved (",
                                     gai_strerror(result), ")"));
  }
  const auto freer = absl::MakeCleanup([found] { freeaddrinfo(found); });
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    if (const int error = BindErrno(*it); error != 0) {
      return ExplainErrno(address, error);
    }
  }
  return CannotListen(
      absl::StatusCode::kUnavailable, address,
      encrypted ? "it was taken a moment ago, or gRPC does not take the "
                  "certificate; try again with GRPC_VERBOSITY=INFO"
                : "it was taken a moment ago and is free now; try again");
}

}  // namespace

void UseTls(absl::StatusOr<std::shared_ptr<const TlsIdentity>> identity) {
  Identity& process = ProcessIdentity();
  MutexLock lock(&process.mu);
  process.current = std::move(identity);
}

absl::StatusOr<std::shared_ptr<const TlsIdentity>> TlsInUse() {
  Identity& process = ProcessIdentity();
  MutexLock lock(&process.mu);
  return process.current;
}

absl::Status CheckDial(const std::string& address, bool allow_plaintext) {
  SC_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  SC_ASSIGN_OR_RETURN(const std::shared_ptr<const TlsIdentity> identity,
                      IdentityAt(parsed));
  if (parsed.IsLoopback() || identity != nullptr || allow_plaintext) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "will not connect to ", address,
      ": without TLS whoever answers there, or reads on the way, could run "
      "code here; ",
      kTlsRemedy, ", or, in a closed network, give --allow-plaintext"));
}

absl::StatusOr<ListeningServer> Listen(grpc::ServerBuilder& builder,
                                       const ListenOptions& options) {
  PrepareGrpc();
  SC_ASSIGN_OR_RETURN(Address address, ParseAddress(options.address));
  SC_ASSIGN_OR_RETURN(const std::shared_ptr<const TlsIdentity> identity,
                      IdentityAt(address));
  if (!address.IsLoopback() && identity == nullptr) {
    SC_RETURN_IF_ERROR(CheckReach(address, options));
  }
  if (address.is_unix && UnixSocketAnswers(address.path)) {
    return CannotListen(absl::StatusCode::kAlreadyExists, address,
                        "another process listens there; stop it, or choose "
                        "another path");
  }
  for (const ChannelSetting& setting : kChannelSettings) {
    builder.AddChannelArgument(setting.name, setting.value);
  }
  // The builder's own limits would win over the settings.
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  int port = 0;
  builder.AddListeningPort(address.ToString(), ServerCredentialsOf(identity),
                           &port);
  ListeningServer listening;
  listening.server = builder.BuildAndStart();
  if (listening.server == nullptr || port == 0) {
    return Explain(address, identity != nullptr);
  }
  if (!address.is_unix) address.port = port;
  listening.address = address.ToString();
  return listening;
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  PrepareGrpc();
  grpc::ChannelArguments arguments;
  for (const ChannelSetting& setting : kChannelSettings) {
    arguments.SetInt(setting.name, setting.value);
  }
  // An address that cannot be read fails in gRPC's words with the first call.
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  const absl::StatusOr<std::shared_ptr<const TlsIdentity>> identity =
      IdentityAt(parsed.value_or(Address()));
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: fails calls
  if (identity.ok()) credentials = ChannelCredentialsOf(*identity);
  if (identity.ok() && *identity != nullptr && !(*identity)->name().empty()) {
    arguments.SetSslTargetNameOverride((*identity)->name());
  }
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  std::string message(status.message().substr(0, kMaxStatusMessageBytes));
  if (message.size() < status.message().size()) message += " ...";
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
}

}  // namespace stagecoach::rpc

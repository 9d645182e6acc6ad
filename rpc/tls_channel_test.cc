// Who is heard by a server that uses TLS, and whom its clients believe.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/certificates.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"
#include "stagecoach/v1/cluster.grpc.pb.h"

namespace stagecoach::rpc {
namespace {

using stagecoach::testing::TestAuthority;

class Cluster final : public v1::ClusterService::Service {
 public:
  grpc::Status GetCoordinator(grpc::ServerContext*,
                              const v1::GetCoordinatorRequest*,
                              v1::GetCoordinatorResponse*) override {
    ++calls;
    return grpc::Status::OK;
  }
  std::atomic<int> calls{0};
};

class TlsChannelTest : public ::testing::Test {
 protected:
  ~TlsChannelTest() override { UseTls(nullptr); }

  static std::shared_ptr<const TlsIdentity> Identity(const TlsFiles& files) {
    return TlsIdentity::Load(files).value();
  }
  // With what is in use now.
  ListeningServer Serve(const std::string& address = "127.0.0.1:0") {
    ListenOptions options;
    options.address = address;
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    return Listen(builder, options).value();
  }
  // As a process that has `identity`.
  absl::Status Ask(const std::string& address,
                   std::shared_ptr<const TlsIdentity> identity) {
    UseTls(std::move(identity));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(20));
    v1::GetCoordinatorResponse response;
    const int before = service_.calls;
    const absl::Status status = FromGrpc(
        v1::ClusterService::NewStub(Connect(address))
            ->GetCoordinator(&context, v1::GetCoordinatorRequest(), &response));
    EXPECT_EQ(service_.calls, before + (status.ok() ? 1 : 0));
    return status;
  }

  Cluster service_;
  const std::string folder_ = ::testing::TempDir();
  TestAuthority authority_{folder_, "ours"};
  const std::shared_ptr<const TlsIdentity> server_ =
      Identity(authority_.Issue("server"));
  const std::shared_ptr<const TlsIdentity> client_ =
      Identity(authority_.Issue("client"));
};

TEST_F(TlsChannelTest, PeersOfOneAuthorityTalk) {
  UseTls(server_);
  const ListeningServer server = Serve();
  const absl::Status status = Ask(server.address, client_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(TlsChannelTest, WhoShowsNoCertificateIsNotHeard) {
  UseTls(server_);
  const ListeningServer server = Serve();
  EXPECT_TRUE(absl::IsUnavailable(Ask(server.address, nullptr)));
  // TLS, but nobody's.
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = client_->authority();
  const auto channel =
      grpc::CreateChannel(server.address, grpc::SslCredentials(options));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  v1::GetCoordinatorResponse response;
  EXPECT_EQ(
      v1::ClusterService::NewStub(channel)
          ->GetCoordinator(&context, v1::GetCoordinatorRequest(), &response)
          .error_code(),
      grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TlsChannelTest, AnotherAuthorityCountsForNeitherSide) {
  TestAuthority stranger(folder_, "theirs");
  const auto foreign = Identity(stranger.Issue("node"));
  UseTls(server_);
  const ListeningServer server = Serve();
  EXPECT_TRUE(absl::IsUnavailable(Ask(server.address, foreign)));
  UseTls(foreign);
  const ListeningServer other = Serve();
  EXPECT_TRUE(absl::IsUnavailable(Ask(other.address, client_)));
  EXPECT_TRUE(Ask(other.address, foreign).ok());
}

TEST_F(TlsChannelTest, TheServersNameCounts) {
  TestAuthority::Request request;
  request.names = "DNS:stagecoach";
  TlsFiles files = authority_.Issue("named", request);
  UseTls(Identity(files));
  const ListeningServer server = Serve();
  EXPECT_TRUE(absl::IsUnavailable(Ask(server.address, client_)))
      << "127.0.0.1 is not in its certificate";
  files.name = "stagecoach";
  const absl::Status named = Ask(server.address, Identity(files));
  EXPECT_TRUE(named.ok()) << named;
  files.name = "another";
  EXPECT_TRUE(absl::IsUnavailable(Ask(server.address, Identity(files))));
}

TEST_F(TlsChannelTest, AServerWithoutTlsIsNotBelieved) {
  UseTls(nullptr);
  const ListeningServer server = Serve();
  EXPECT_TRUE(absl::IsUnavailable(Ask(server.address, client_)));
  EXPECT_TRUE(Ask(server.address, nullptr).ok());
}

// Not in the clear because the certificate cannot be used.
TEST_F(TlsChannelTest, AnIdentityThatCannotBeUsedServesAndCarriesNothing) {
  const ListeningServer plain = Serve();
  UseTls(absl::InvalidArgumentError("TLS: bad file"));
  EXPECT_EQ(TlsInUse().status().message(), "TLS: bad file");
  ListenOptions options;
  grpc::ServerBuilder builder;
  EXPECT_EQ(Listen(builder, options).status().message(), "TLS: bad file");
  EXPECT_EQ(CheckDial("127.0.0.1:1", true).message(), "TLS: bad file");
  grpc::ClientContext context;
  v1::GetCoordinatorResponse response;
  EXPECT_FALSE(
      v1::ClusterService::NewStub(Connect(plain.address))
          ->GetCoordinator(&context, v1::GetCoordinatorRequest(), &response)
          .ok());
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(TlsChannelTest, ObeysNobodyElsewhereWithoutTls) {
  const absl::Status refused = CheckDial("192.0.2.1:7070", false);
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "--allow-plaintext"));
  EXPECT_TRUE(CheckDial("192.0.2.1:7070", true).ok());
  EXPECT_TRUE(CheckDial("127.0.0.1:7070", false).ok());
  EXPECT_TRUE(CheckDial("unix:/run/socket", false).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckDial("nonsense", true)));
  UseTls(client_);
  EXPECT_TRUE(CheckDial("192.0.2.1:7070", false).ok());
}

TEST_F(TlsChannelTest, MayListenBeyondThisMachine) {
  UseTls(server_);
  const ListeningServer server = Serve("0.0.0.0:0");
  const std::string port = server.address.substr(server.address.rfind(':'));
  const absl::Status status = Ask("127.0.0.1" + port, client_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(TlsChannelTest, AUnixSocketStaysPlain) {
  UseTls(server_);
  const std::string address = absl::StrCat("unix:/tmp/sc_tls_", getpid());
  const ListeningServer server = Serve(address);
  EXPECT_TRUE(Ask(address, nullptr).ok());
  EXPECT_TRUE(Ask(address, client_).ok());
}

}  // namespace
}  // namespace stagecoach::rpc

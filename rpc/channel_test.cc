#include "rpc/channel.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rpc/channel_settings.h"
#include "stagecoach/v1/cluster.grpc.pb.h"

namespace stagecoach::rpc {
namespace {

// Answers with as many bytes as the client's version asks for, or with an error
// of that many bytes.
class FakeCluster final : public v1::ClusterService::Service {
 public:
  grpc::Status GetCoordinator(grpc::ServerContext*,
                              const v1::GetCoordinatorRequest* request,
                              v1::GetCoordinatorResponse* response) override {
    const int bytes = request->version().protocol();
    if (request->version().version() == "fail") {
      return ToGrpc(absl::AbortedError(std::string(bytes, '\n')));
    }
    response->set_version(std::string(bytes, 'x'));
    return grpc::Status::OK;
  }
};

class ChannelTest : public ::testing::Test {
 protected:
  absl::StatusOr<ListeningServer> Start(const std::string& address,
                                        bool allow_plaintext = false) {
    ListenOptions options;
    options.address = address;
    options.allow_plaintext = allow_plaintext;
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    return Listen(builder, options);
  }

  static absl::StatusOr<std::string> Ask(const std::string& address, int bytes,
                                         const std::string& what = "") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    v1::GetCoordinatorRequest request;
    request.mutable_version()->set_protocol(bytes);
    request.mutable_version()->set_version(what);
    v1::GetCoordinatorResponse response;
    const grpc::Status status =
        v1::ClusterService::NewStub(Connect(address))
            ->GetCoordinator(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    return response.version();
  }

  // Of a unix socket that nobody else has.
  static std::string SocketPath(const std::string& name) {
    const char* folder = std::getenv("TEST_TMPDIR");
    const std::string path =
        absl::StrCat(folder == nullptr ? "/tmp" : folder, "/", name, getpid());
    // A sandbox's folder may be too deep for a socket.
    return path.size() < 100 ? path : absl::StrCat("/tmp/", name, getpid());
  }

  FakeCluster service_;
};

TEST_F(ChannelTest, TakesAFreePortAndTellsWhich) {
  const absl::StatusOr<ListeningServer> one = Start("127.0.0.1:0");
  const absl::StatusOr<ListeningServer> two = Start("127.0.0.1:0");
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_NE(one->address, two->address);
  EXPECT_FALSE(absl::EndsWith(one->address, ":0"));
  EXPECT_EQ(*Ask(one->address, 3), "xxx");
  EXPECT_EQ(*Ask(two->address, 1), "x");
}

TEST_F(ChannelTest, TakenPortIsRefusedWithARemedy) {
  const absl::StatusOr<ListeningServer> one = Start("127.0.0.1:0");
  ASSERT_TRUE(one.ok()) << one.status();
  const absl::Status status = Start(one->address).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), one->address)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "choose another port"))
      << status;
}

TEST_F(ChannelTest, PortIsFreeAgainAfterTheServerEnded) {
  absl::StatusOr<ListeningServer> one = Start("127.0.0.1:0");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(Ask(one->address, 1).ok());
  one->server->Shutdown();
  one->server.reset();
  const absl::StatusOr<ListeningServer> two = Start(one->address);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->address, one->address);
}

TEST_F(ChannelTest, ListensBeyondThisMachineOnlyWhenTold) {
  const absl::Status status = Start("0.0.0.0:0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "--allow-plaintext"));
  const absl::StatusOr<ListeningServer> open = Start("0.0.0.0:0", true);
  EXPECT_TRUE(open.ok()) << open.status();
}

TEST_F(ChannelTest, AddressThatCannotBeReadOrHadIsInvalid) {
  for (const char* address : {"nonsense", "127.0.0.1:99999"}) {
    EXPECT_EQ(Start(address).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  // A documentation address (RFC 5737) that no machine has.
  const absl::Status status = Start("192.0.2.1:0", true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(ChannelTest, ServesAUnixSocketAndDoesNotStealOne) {
  const std::string address = absl::StrCat("unix:", SocketPath("sc_rpc"));
  const absl::StatusOr<ListeningServer> one = Start(address);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->address, address);
  EXPECT_EQ(*Ask(address, 2), "xx");
  const absl::Status status = Start(address).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_EQ(*Ask(address, 2), "xx");
}

TEST_F(ChannelTest, SocketFileOfADeadServerIsNoObstacle) {
  const std::string path = SocketPath("sc_dead");
  {
    const absl::StatusOr<ListeningServer> one = Start("unix:" + path);
    ASSERT_TRUE(one.ok()) << one.status();
    // What a killed server leaves behind.
    ASSERT_EQ(link(path.c_str(), (path + "x").c_str()), 0) << strerror(errno);
  }
  ASSERT_EQ(rename((path + "x").c_str(), path.c_str()), 0);
  const absl::StatusOr<ListeningServer> two = Start("unix:" + path);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(*Ask(two->address, 1), "x");
}

TEST_F(ChannelTest, FolderOfTheSocketIsMissing) {
  const absl::Status status = Start("unix:/nonexistent/socket").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(ChannelTest, NobodyThereIsUnavailable) {
  absl::StatusOr<ListeningServer> one = Start("127.0.0.1:0");
  ASSERT_TRUE(one.ok()) << one.status();
  one->server->Shutdown();
  one->server.reset();
  EXPECT_EQ(Ask(one->address, 1).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ChannelTest, MessagesPastTheLimitAreRefused) {
  const absl::StatusOr<ListeningServer> one = Start("127.0.0.1:0");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(Ask(one->address, kMaxMessageBytes - 100)->size(),
            size_t{kMaxMessageBytes - 100});
  EXPECT_EQ(Ask(one->address, kMaxMessageBytes).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(ChannelTest, LongErrorsArriveWithTheirCode) {
  const absl::StatusOr<ListeningServer> one = Start("127.0.0.1:0");
  ASSERT_TRUE(one.ok()) << one.status();
  const absl::Status whole = Ask(one->address, 10'000, "fail").status();
  EXPECT_EQ(whole.code(), absl::StatusCode::kAborted) << whole;
  EXPECT_EQ(whole.message(), std::string(10'000, '\n'));
  const absl::Status cut = Ask(one->address, 100'000, "fail").status();
  EXPECT_EQ(cut.code(), absl::StatusCode::kAborted) << cut.code();
  EXPECT_TRUE(absl::EndsWith(cut.message(), " ..."));
}

TEST(ChannelSettingsTest, NoEndPingsMoreThanTheOtherTolerates) {
  EXPECT_GE(kKeepaliveMilliseconds, 2 * kPingIntervalToleratedMilliseconds);
  for (const ChannelSetting& setting : kChannelSettings) {
    if (setting.name == std::string(GRPC_ARG_HTTP2_MAX_PING_STRIKES) ||
        setting.name == std::string(GRPC_ARG_ALLOW_REUSEPORT)) {
      EXPECT_EQ(setting.value, 0) << setting.name;
    }
  }
}

TEST(StatusConversionTest, KeepsEveryCodeAndMessage) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

}  // namespace
}  // namespace stagecoach::rpc

#include "client/job_client.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"
#include "stagecoach/v1/memory.grpc.pb.h"

namespace stagecoach::client {
namespace {

using ::testing::HasSubstr;

TEST(JobClientTest, ACallTheCoordinatorDoesNotHaveIsAnotherVersion) {
  v1::MemoryService::Service other;
  grpc::ServerBuilder builder;
  builder.RegisterService(&other);
  rpc::ListeningServer server =
      rpc::Listen(builder, rpc::ListenOptions()).value();
  JobClient client(server.address);
  const absl::Status status = client.List().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("install the same version on both"));
}

}  // namespace
}  // namespace stagecoach::client

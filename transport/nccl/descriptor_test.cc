#include "transport/nccl/descriptor.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport::nccl {
namespace {

using ::testing::HasSubstr;

NcclDescriptor Example() {
  NcclDescriptor descriptor;
  descriptor.nccl_version = 22809;
  descriptor.host = "4d1f";
  descriptor.gpu = "0000:01:00.0";
  descriptor.address = "w0;1/2";
  return descriptor;
}

TEST(NcclDescriptorTest, RoundTripsWithAnyAddress) {
  const NcclDescriptor read =
      ParseDescriptor(FormatDescriptor(Example())).value();
  EXPECT_EQ(read.nccl_version, 22809);
  EXPECT_EQ(read.host, "4d1f");
  EXPECT_EQ(read.gpu, "0000:01:00.0");
  EXPECT_EQ(read.address, "w0;1/2");
}

TEST(NcclDescriptorTest, RefusesWhatIsNone) {
  for (const char* text : {"", "shm/1;x", "nccl/1", "nccl/1;2;h;g;",
                           "nccl/1;x;h;g;a", "nccl/1;2;;g;a"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDescriptor(text).status()))
        << text;
  }
  EXPECT_TRUE(
      absl::IsFailedPrecondition(ParseDescriptor("nccl/2;1;h;g;a").status()));
}

TEST(NcclDescriptorTest, OneGpuCannotBeBothEnds) {
  NcclDescriptor peer = Example();
  EXPECT_THAT(std::string(CheckPair(Example(), peer, false).message()),
              AllOf(HasSubstr("0000:01:00.0"), HasSubstr("--device")));
  EXPECT_TRUE(CheckPair(Example(), peer, /*share_gpu=*/true).ok());
  peer.host = "another";
  EXPECT_TRUE(CheckPair(Example(), peer, false).ok());
  peer.host = "4d1f";
  peer.gpu = "0000:02:00.0";
  EXPECT_TRUE(CheckPair(Example(), peer, false).ok());
}

TEST(NcclDescriptorTest, BothEndsHaveOneVersion) {
  NcclDescriptor peer = Example();
  peer.gpu = "0000:02:00.0";
  peer.nccl_version = 22703;
  EXPECT_THAT(std::string(CheckPair(Example(), peer, false).message()),
              AllOf(HasSubstr("2.28.9"), HasSubstr("2.27.3")));
}

}  // namespace
}  // namespace stagecoach::transport::nccl

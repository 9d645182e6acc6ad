#include "transport/ucx/descriptor.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport::ucx {
namespace {

using ::testing::HasSubstr;

UcxDescriptor Example() {
  UcxDescriptor descriptor;
  descriptor.major = 1;
  descriptor.minor = 13;
  descriptor.location.boot_id = "d7c7-1";
  descriptor.location.network_namespace = 4026531840;
  descriptor.loopback_only = false;
  descriptor.address = "w0;any=thing";
  return descriptor;
}

TEST(UcxDescriptorTest, RoundTrips) {
  const std::string text = FormatDescriptor(Example());
  EXPECT_EQ(text, "ucx/1;1.13;d7c7-1;4026531840;network;w0;any=thing");
  const UcxDescriptor read = ParseDescriptor(text).value();
  EXPECT_EQ(FormatDescriptor(read), text);
  EXPECT_EQ(read.address, "w0;any=thing");
}

TEST(UcxDescriptorTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "ucx/1", "nccl/1;22809;h;g;a", "ucx/1;1;h;4;loopback;a",
        "ucx/1;1.13;h/h;4;loopback;a", "ucx/1;1.13;h;x;loopback;a",
        "ucx/1;1.13;h;4;anywhere;a", "ucx/1;1.13;h;4;loopback;"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDescriptor(text).status()))
        << text;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ParseDescriptor("ucx/2;1.13;h;4;loopback;a").status()));
}

TEST(UcxDescriptorTest, BothEndsHaveOneVersion) {
  UcxDescriptor other = Example();
  EXPECT_TRUE(CheckPair(Example(), other).ok());
  other.minor = 14;
  const absl::Status status = CheckPair(Example(), other);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("UCX 1.13"));
}

TEST(UcxDescriptorTest, LoopbackReachesNoOtherNamespaceNorHost) {
  UcxDescriptor one = Example();
  one.loopback_only = true;
  UcxDescriptor other = one;
  EXPECT_TRUE(CheckPair(one, other).ok());
  other.location.network_namespace = 7;
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckPair(one, other)));
  other = one;
  other.location.boot_id = "another";
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckPair(one, other)));
  one.loopback_only = false;
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckPair(one, other)));
  other.loopback_only = false;
  EXPECT_TRUE(CheckPair(one, other).ok());
}

}  // namespace
}  // namespace stagecoach::transport::ucx

#include "transport/nccl/version.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport::nccl {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(int version, bool on_arm, bool ras_enabled) {
  return std::string(CheckNcclVersion(version, on_arm, ras_enabled).message());
}

TEST(NcclVersionTest, IsWrittenAsPeopleWriteIt) {
  EXPECT_EQ(VersionText(22809), "2.28.9");
  EXPECT_EQ(VersionText(22203), "2.22.3");
}

TEST(NcclVersionTest, TakesTheFloorAndLater) {
  EXPECT_TRUE(CheckNcclVersion(22203, false, true).ok());
  EXPECT_TRUE(CheckNcclVersion(22809, true, true).ok());
}

TEST(NcclVersionTest, RefusesWhatIsTooOldAndNamesTheFloor) {
  EXPECT_THAT(MessageOf(22105, false, true),
              AllOf(HasSubstr("2.21.5 is too old"), HasSubstr("2.22.3")));
}

TEST(NcclVersionTest, RefusesKnownBadOnesWithWhatHelps) {
  EXPECT_THAT(MessageOf(22602, false, true), HasSubstr("NCCL_RAS_ENABLE=0"));
  EXPECT_EQ(MessageOf(22602, false, false), "");
  EXPECT_THAT(MessageOf(22902, true, false), HasSubstr("2.29.3"));
  EXPECT_EQ(MessageOf(22902, false, true), "");
}

}  // namespace
}  // namespace stagecoach::transport::nccl

#include "base/version.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace stagecoach {
namespace {

TEST(VersionTest, IsTheOneInTheFileVersion) {
  std::ifstream file("VERSION");
  std::string version;
  ASSERT_TRUE(std::getline(file, version));
  EXPECT_EQ(version, kVersion);
}

}  // namespace
}  // namespace stagecoach

#include "base/file.h"

#include <fstream>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

std::string FileWith(const std::string& contents) {
  const std::string path = testing::TempDir() + "/file_test";
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

TEST(ReadFileTest, ReturnsEveryByte) {
  const std::string contents = std::string(100000, 'x') + '\0' + "\n\xff";
  EXPECT_EQ(*ReadFile(FileWith(contents), 1 << 20), contents);
  EXPECT_EQ(*ReadFile(FileWith(""), 0), "");
}

TEST(ReadFileTest, SaysWhyItCannot) {
  EXPECT_EQ(ReadFile("/nowhere/x", 10).status(),
            absl::NotFoundError(
                "cannot read \"/nowhere/x\": No such file or directory"));
  EXPECT_EQ(ReadFile("/tmp", 10).status(),
            absl::FailedPreconditionError("\"/tmp\" is a folder, not a file"));
}

TEST(ReadFileTest, StopsAtTheLimit) {
  EXPECT_TRUE(ReadFile(FileWith("12345"), 5).ok());
  EXPECT_EQ(ReadFile(FileWith("123456"), 5).status().code(),
            absl::StatusCode::kResourceExhausted);
  // A file that never ends.
  EXPECT_EQ(ReadFile("/dev/zero", 5).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace stagecoach

#include "bazel/fuzzing/fuzz_input.h"

#include "gtest/gtest.h"

namespace stagecoach::fuzzing {
namespace {

FuzzInput InputOf(const std::string& bytes) {
  return FuzzInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                   bytes.size());
}

TEST(FuzzInputTest, ReadsNumbersAndRecordsInOrder) {
  const std::string bytes = std::string("\x07\x01\x02\x03\x04", 5) +
                            AsRecord("hello") + AsRecord("") + "tail";
  FuzzInput input = InputOf(bytes);
  EXPECT_EQ(input.Below(4), 3);
  EXPECT_EQ(input.Word(), 0x04030201u);
  EXPECT_EQ(input.Record(), "hello");
  EXPECT_EQ(input.Record(), "");
  EXPECT_EQ(input.rest(), "tail");
}

TEST(FuzzInputTest, GivesZerosAndWhatIsLeftAtTheEnd) {
  const std::string bytes = AsRecord("hello").substr(0, 4);
  FuzzInput input = InputOf(bytes);
  EXPECT_EQ(input.Record(), "he");
  EXPECT_TRUE(input.empty());
  EXPECT_EQ(input.Byte(), 0);
  EXPECT_EQ(input.Word(), 0u);
  EXPECT_EQ(input.Record(), "");
}

TEST(FuzzInputDeathTest, RequireEndsTheProcess) {
  Require(true, "fine");
  EXPECT_DEATH(Require(false, "two and two"), "finding: two and two");
}

}  // namespace
}  // namespace stagecoach::fuzzing

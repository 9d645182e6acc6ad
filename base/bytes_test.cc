#include "base/bytes.h"

#include <limits>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

TEST(ParseByteSizeTest, ReadsBinaryUnits) {
  EXPECT_EQ(*ParseByteSize("0"), 0);
  EXPECT_EQ(*ParseByteSize("4096"), 4096);
  EXPECT_EQ(*ParseByteSize("4096B"), 4096);
  EXPECT_EQ(*ParseByteSize("512 MiB"), int64_t{512} << 20);
  EXPECT_EQ(*ParseByteSize(" 8GiB "), int64_t{8} << 30);
  EXPECT_EQ(*ParseByteSize("1.5KiB"), 1536);
  EXPECT_EQ(*ParseByteSize("0.1KiB"), 102);
  EXPECT_EQ(*ParseByteSize("2TiB"), int64_t{2} << 40);
}

TEST(ParseByteSizeTest, RefusesEverythingElse) {
  for (const char* text : {"", " ", "GiB", "-1", "-1GiB", "+1", "8GB", "8gib",
                           "8G", "8 GiB x", "1.GiB", ".5GiB", "1.5", "1.5B",
                           "1e3", "0x10", "1,5KiB", "nan", "inf"}) {
    EXPECT_EQ(ParseByteSize(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_EQ(ParseByteSize("8GB").status().message(),
            "\"8GB\" is not a size in bytes; write for example \"8GiB\", "
            "\"512MiB\" or \"4096\" (units KiB, MiB, GiB, TiB)");
}

TEST(ParseByteSizeTest, StopsAtTwoToThe62) {
  EXPECT_EQ(*ParseByteSize("4611686018427387904"), int64_t{1} << 62);
  EXPECT_EQ(*ParseByteSize("4194304TiB"), int64_t{1} << 62);
  for (const char* text : {"4611686018427387905", "4194304.5TiB", "4194305TiB",
                           "99999999999999999999", "99999999999999999999GiB"}) {
    EXPECT_EQ(ParseByteSize(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(FormatByteSizeTest, PicksTheUnitThatReadsWell) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1024), "1.00 KiB");
  EXPECT_EQ(FormatByteSize(1536 * 1024), "1.50 MiB");
  EXPECT_EQ(FormatByteSize((int64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(FormatByteSize(int64_t{3} << 40), "3.00 TiB");
  EXPECT_EQ(FormatByteSize(-2048), "-2.00 KiB");
  EXPECT_EQ(FormatByteSize(std::numeric_limits<int64_t>::min()),
            "-8388608.00 TiB");
}

}  // namespace
}  // namespace stagecoach

#include "base/bounded_log.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace stagecoach {
namespace {

constexpr int64_t kMany = 1 << 30;

TEST(BoundedLogTest, ReadsFromAnyOffset) {
  BoundedLog log(1000);
  log.Append("one\n");
  log.Append("two\n");
  EXPECT_EQ(log.Read(0, kMany).data, "one\ntwo\n");
  EXPECT_EQ(log.Read(2, kMany).data, "e\ntwo\n");
  EXPECT_EQ(log.Read(2, kMany).offset, 2);
  EXPECT_EQ(log.Read(8, kMany).data, "");
  EXPECT_EQ(log.Read(8, kMany).offset, 8);
  EXPECT_EQ(log.end(), 8);
}

TEST(BoundedLogTest, EndsBehindALineWhereItCan) {
  BoundedLog log(1000);
  log.Append("one\ntwo\nthree");
  EXPECT_EQ(log.Read(0, 6).data, "one\n");
  EXPECT_EQ(log.Read(4, 3).data, "two");  // no line fits
  EXPECT_EQ(log.Read(8, kMany).data, "three");
}

TEST(BoundedLogTest, DropsTheOldestAndSaysWhereItStarts) {
  constexpr int64_t kLimit = 64 << 10;
  BoundedLog log(kLimit);
  const std::string line(1023, 'x');
  for (int i = 0; i < 1000; ++i) log.Append(line + "\n");
  EXPECT_EQ(log.end(), 1024 * 1000);
  EXPECT_GE(log.size(), kLimit);
  EXPECT_LE(log.size(), kLimit + (16 << 10));
  EXPECT_EQ(log.Read(0, kMany).offset, log.begin());
  EXPECT_EQ(log.Read(0, kMany).end(), log.end());
}

TEST(BoundedLogTest, SkippedOffsetsAreNotUsedAgain) {
  BoundedLog log(1000);
  log.Append("one\n");
  log.SkipTo(100);
  log.Append("two\n");
  EXPECT_EQ(log.Read(0, kMany).offset, 100);
  EXPECT_EQ(log.Read(0, kMany).data, "two\n");
  EXPECT_EQ(log.end(), 104);
}

// Whatever the sizes, pieces put together are what was written.
TEST(BoundedLogTest, EveryByteIsReadOnce) {
  std::mt19937 random(7);
  BoundedLog log(1 << 20);
  std::string written;
  std::string read;
  for (int i = 0; i < 2000; ++i) {
    std::string part;
    const int size = static_cast<int>(random() % 200);
    for (int j = 0; j < size; ++j) {
      part += random() % 20 == 0 ? '\n' : static_cast<char>('a' + j % 26);
    }
    log.Append(part);
    written += part;
    const auto piece = log.Read(static_cast<int64_t>(read.size()),
                                1 + static_cast<int64_t>(random() % 300));
    ASSERT_EQ(piece.offset, static_cast<int64_t>(read.size()));
    read += piece.data;
  }
  while (read.size() < written.size()) {
    read += log.Read(static_cast<int64_t>(read.size()), 100).data;
  }
  EXPECT_EQ(read, written);
}

}  // namespace
}  // namespace stagecoach

#include "transport/tcp/crc32c.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::transport::tcp {
namespace {

struct Vector {
  std::string bytes;
  uint32_t crc;
};

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
std::vector<Vector> KnownVectors() {
  std::string ascending;
  std::string descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  return {{"", 0},
          {std::string(32, '\0'), 0x8A9136AA},
          {std::string(32, '\xFF'), 0x62A8AB43},
          {ascending, 0x46DD794E},
          {descending, 0x113FDB5C},
          {"123456789", 0xE3069283}};
}

TEST(Crc32cTest, GivesTheKnownValues) {
  for (const Vector& vector : KnownVectors()) {
    EXPECT_EQ(Crc32c(vector.bytes.data(), vector.bytes.size()), vector.crc);
    EXPECT_EQ(ExtendCrc32cByTable(0, vector.bytes.data(), vector.bytes.size()),
              vector.crc);
  }
}

TEST(Crc32cTest, BothWaysAgreeOnEveryLengthAndCut) {
  std::mt19937 random(7);
  std::string bytes(300, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const uint32_t whole = Crc32c(bytes.data(), length);
    EXPECT_EQ(ExtendCrc32cByTable(0, bytes.data(), length), whole);
    const size_t cut = length == 0 ? 0 : random() % length;
    EXPECT_EQ(ExtendCrc32c(Crc32c(bytes.data(), cut), bytes.data() + cut,
                           length - cut),
              whole);
  }
}

TEST(Crc32cTest, SeesEverySingleFlippedBit) {
  std::string bytes(64, 'x');
  const uint32_t whole = Crc32c(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(Crc32c(bytes.data(), bytes.size()), whole) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace stagecoach::transport::tcp

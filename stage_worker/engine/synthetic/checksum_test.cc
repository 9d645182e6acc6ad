#include "stage_worker/engine/synthetic/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace stagecoach::worker {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes RandomBytes(size_t size, std::mt19937* random) {
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((*random)());
  return bytes;
}

TEST(ChecksumTest, UnstirUndoesStirForAnySize) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (size_t size = 0; size < 70; ++size) {
    const Bytes in = RandomBytes(size, &random);
    const uint64_t key = random();
    Bytes out(size);
    Stir(in.data(), size, key, out.data());
    if (size >= 8) {
      EXPECT_NE(in, out);
    }
    Bytes back(size);
    Unstir(out.data(), size, key, back.data());
    EXPECT_EQ(in, back);
    Unstir(out.data(), size, key + (uint64_t{1} << 33), back.data());
    if (size >= 1) {
      EXPECT_NE(in, back) << "another key";
    }
  }
}

TEST(ChecksumTest, InvertTwiceIsNothing) {
  std::mt19937 random(1);
  const Bytes in = RandomBytes(21, &random);
  Bytes out(in.size());
  Invert(in.data(), in.size(), out.data());
  EXPECT_NE(in, out);
  Invert(out.data(), out.size(), out.data());
  EXPECT_EQ(in, out);
}

TEST(ChecksumTest, DependsOnEveryByteAndItsPlace) {
  std::mt19937 random(2);
  const Bytes bytes = RandomBytes(37, &random);
  std::set<uint64_t> sums = {Checksum(bytes.data(), bytes.size())};
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes changed = bytes;
    changed[i] ^= 1;
    sums.insert(Checksum(changed.data(), changed.size()));
  }
  Bytes swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 8, swapped.begin() + 8);
  sums.insert(Checksum(swapped.data(), swapped.size()));
  EXPECT_EQ(sums.size(), bytes.size() + 2);
}

TEST(ChecksumTest, MixDependsOnTheOrder) { EXPECT_NE(Mix(1, 2), Mix(2, 1)); }

TEST(ChecksumTest, UnitIsBelowOne) {
  EXPECT_EQ(ToUnit(0), 0);
  EXPECT_EQ(ToUnit(uint64_t{1} << 63), 0.5);
  EXPECT_LT(ToUnit(~uint64_t{0}), 1);
}

}  // namespace
}  // namespace stagecoach::worker

#include "coordinator/natural_order.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

TEST(NaturalOrderTest, CountsAsPeopleDo) {
  const std::vector<std::string> sorted = {"",
                                           "2",
                                           "10",
                                           "a",
                                           "a1b2",
                                           "a1b10",
                                           "a2b1",
                                           "node",
                                           "node-3/w9",
                                           "node-3/w10",
                                           "node-12/w1",
                                           "w0",
                                           "w1",
                                           "w2",
                                           "w10",
                                           "w99999999999999999999999998",
                                           "w99999999999999999999999999"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(NaturalLess(sorted[i], sorted[j]), i < j)
          << sorted[i] << " and " << sorted[j];
    }
  }
}

TEST(NaturalOrderTest, LeadingZerosDoNotMakeNamesEqual) {
  EXPECT_NE(NaturalLess("w1", "w01"), NaturalLess("w01", "w1"));
  EXPECT_TRUE(NaturalLess("w01", "w2"));
  EXPECT_TRUE(NaturalLess("w1", "w02"));
}

// Sorting anything with it gives one order, whatever it was before.
TEST(NaturalOrderTest, IsATotalOrder) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) {
    std::string name;
    const int length = static_cast<int>(random() % 6);
    for (int c = 0; c < length; ++c) name += "ab019"[random() % 5];
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<std::string> first = names;
  std::sort(first.begin(), first.end(), NaturalLess);
  std::shuffle(names.begin(), names.end(), random);
  std::sort(names.begin(), names.end(), NaturalLess);
  EXPECT_EQ(names, first);
}

}  // namespace
}  // namespace stagecoach::coordinator

#include "client/output/json.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

uint64_t BitsOf(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TEST(JsonTest, DoublesReadBackToTheSameBits) {
  const uint64_t seed = 20240611;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    Json document;
    document["loss"] = value;
    const Json read = Json::parse(Dump(document));
    ASSERT_EQ(BitsOf(read["loss"].get<double>()), bits) << Dump(document);
  }
}

TEST(JsonTest, NotANumberIsNull) {
  Json document;
  document["loss"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Dump(document), "{\n  \"loss\": null\n}\n");
}

TEST(JsonTest, BytesThatAreNotUtf8AreReplacedInsteadOfThrown) {
  Json document;
  document["name"] = "a\xff";
  EXPECT_EQ(Json::parse(Dump(document))["name"], "a\xEF\xBF\xBD");
}

TEST(JsonTest, KeysKeepTheirOrder) {
  Json document;
  document["zebra"] = 1;
  AddError(105, "worker w1 is lost", &document);
  EXPECT_EQ(Dump(document),
            "{\n  \"zebra\": 1,\n  \"error\": {\n    \"exit_code\": 105,\n"
            "    \"message\": \"worker w1 is lost\"\n  }\n}\n");
}

}  // namespace
}  // namespace stagecoach::client

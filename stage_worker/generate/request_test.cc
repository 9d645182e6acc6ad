#include "stage_worker/generate/request.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "nlohmann/json.hpp"

namespace stagecoach::worker {
namespace {

using nlohmann::json;

GenerateRequest Sample() {
  GenerateRequest request;
  request.checkpoint = "/models/a \"b\"";
  request.prompt = {1, 200, 50256};
  request.tokens = 20;
  request.temperature = 0.7;
  request.top_k = 40;
  request.seed = 12345678901234;
  request.token_limit = 256;
  request.stop = {2, 3};
  request.threads = 4;
  return request;
}

TEST(GenerateRequestTest, ComesBackAsItWasWritten) {
  const GenerateRequest sample = Sample();
  const auto read = GenerateRequestFromJson(GenerateRequestToJson(sample));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->checkpoint, sample.checkpoint);
  EXPECT_EQ(read->prompt, sample.prompt);
  EXPECT_EQ(read->tokens, sample.tokens);
  EXPECT_EQ(read->temperature, sample.temperature);
  EXPECT_EQ(read->top_k, sample.top_k);
  EXPECT_EQ(read->seed, sample.seed);
  EXPECT_EQ(read->token_limit, sample.token_limit);
  EXPECT_EQ(read->stop, sample.stop);
  EXPECT_EQ(read->threads, sample.threads);
}

TEST(GenerateRequestTest, RefusesWhatIsWrongByItsName) {
  const std::vector<std::pair<std::string, json>> wrong = {
      {"checkpoint", 7},     {"prompt", json::array()},
      {"prompt", {1, -1}},   {"prompt", "text"},
      {"tokens", 0},         {"tokens", 1.5},
      {"temperature", -0.1}, {"temperature", "hot"},
      {"top_k", -1},         {"seed", -1},
      {"seed", 1e300},       {"token_limit", "all"},
      {"stop", {{"a", 1}}},  {"threads", 0},
      {"threads", 100000},   {"surplus", 1},
  };
  for (const auto& [key, value] : wrong) {
    json document = json::parse(GenerateRequestToJson(Sample()));
    document[key] = value;
    const auto read = GenerateRequestFromJson(document.dump());
    ASSERT_FALSE(read.ok()) << key << " = " << value;
    EXPECT_TRUE(absl::IsInvalidArgument(read.status()));
    EXPECT_TRUE(absl::StrContains(read.status().message(), key))
        << read.status();
  }
}

TEST(GenerateRequestTest, EveryKeyMustBeThere) {
  const json whole = json::parse(GenerateRequestToJson(Sample()));
  for (const auto& [key, value] : whole.items()) {
    json document = whole;
    document.erase(key);
    const auto read = GenerateRequestFromJson(document.dump());
    ASSERT_FALSE(read.ok()) << key;
    EXPECT_TRUE(absl::StrContains(read.status().message(), key))
        << read.status();
  }
  EXPECT_FALSE(GenerateRequestFromJson("").ok());
  EXPECT_FALSE(GenerateRequestFromJson("[1]").ok());
}

}  // namespace
}  // namespace stagecoach::worker

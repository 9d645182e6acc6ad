// A folder that transformers wrote is fine-tuned by real processes.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

std::string Reference(const std::string& name) {
  return std::filesystem::absolute("tests/parity/data/" + name).string();
}

// uint16 tokens below 96, each following from the one before it.
std::string Tokens(int count) {
  std::string bytes;
  int token = 1;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(token));
    bytes.push_back('\0');
    token = i % 50 == 0 ? i % 96 : (token * 7 + 3) % 96;
  }
  return bytes;
}

std::string Spec(const std::string& checkpoint, int workers) {
  return absl::StrCat("name = \"fine-tune\"\n[model]\ncheckpoint = \"",
                      checkpoint,
                      "\"\n[data]\nkind = \"tokens\"\npath = \"tokens.bin\"\n"
                      "sequence_length = 24\n"
                      "[training]\nsteps = 6\nmicrobatches = 4\n"
                      "microbatch_size = 2\nlearning_rate = 1e-2\n"
                      "[pipeline]\nworkers = ",
                      workers, "\n");
}

TEST(HuggingFaceTest, AFolderTrainsToTheSameBitsOnAnyNumberOfWorkers) {
  const TemporaryFolder folder;
  folder.Write("tokens.bin", Tokens(2000));
  const auto cluster = Cluster::Start(4).value();
  for (const char* model :
       {"llama_gqa_sharded", "qwen3_norms_sliding", "gpt2_tied"}) {
    std::string expected;
    for (const int workers : {1, 2, 4}) {
      const nlohmann::json result = cluster->RunJob(
          folder.Write("job.toml", Spec(Reference(model), workers)));
      ASSERT_EQ(result.value("state", ""), "SUCCEEDED")
          << result.dump(1) << cluster->Logs();
      const std::string digest = result["parameters_sha256"];
      if (expected.empty()) expected = digest;
      EXPECT_EQ(digest, expected) << model << " on " << workers;
      EXPECT_LT(result["steps"].back()["loss"].get<double>(),
                result["steps"].front()["loss"].get<double>());
    }
  }
}

TEST(HuggingFaceTest, AFolderWithoutItsWeightsFailsWithTheFilesName) {
  const TemporaryFolder folder;
  folder.Write("tokens.bin", Tokens(2000));
  std::filesystem::copy_file(Reference("llama_gqa_tied") + "/config.json",
                             folder.path() + "/config.json");
  const auto cluster = Cluster::Start(2).value();
  const nlohmann::json result =
      cluster->RunJob(folder.Write("job.toml", Spec(folder.path(), 2)));
  EXPECT_EQ(result.value("state", ""), "FAILED");
  EXPECT_TRUE(absl::StrContains(result.dump(), "model.safetensors"))
      << result.dump(1);
}

}  // namespace
}  // namespace stagecoach::testing

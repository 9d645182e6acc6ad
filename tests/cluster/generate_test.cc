// What a job has learned, its checkpoint says: real processes train, and one
// goes on with a text.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

constexpr char kSentence[] = "Stagecoach rolls over the hills and far away. ";

std::string Spec(const std::string& folder) {
  return absl::StrCat(
      "name = \"parrot\"\n[model]\narchitecture = \"llama\"\nlayers = 2\n"
      "hidden = 64\nheads = 4\n[data]\npath = \"text.txt\"\n"
      "sequence_length = 64\nstride = 7\n[training]\nsteps = 80\n"
      "microbatches = 4\nmicrobatch_size = 2\nlearning_rate = 5e-3\n"
      "[pipeline]\nworkers = 2\n[checkpoint]\ndirectory = \"",
      folder, "/checkpoints\"\nevery_steps = 1000\n");
}

TEST(GenerateTest, ATrainedModelSaysWhatItHasRead) {
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < 4000) text += kSentence;
  folder.Write("text.txt", text);
  const CommandResult trained = RunClient(
      {"run", folder.Write("job.toml", Spec(folder.path())), "--local"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;

  const std::string checkpoints = folder.path() + "/checkpoints";
  const std::string exported = folder.path() + "/exported";
  ASSERT_EQ(
      RunClient({"checkpoint", "export", checkpoints, exported}).exit_code, 0);
  const std::string prompt = "far away. Stagecoach roll";
  const std::string expected =
      std::string(kSentence).substr(std::string("Stagecoach roll").size());
  // A directory of checkpoints, and a plain Hugging Face folder.
  for (const std::string& model : {checkpoints, exported}) {
    const CommandResult said = RunClient(
        {"-o", "json", "generate", model, "--prompt", prompt, "--temperature",
         "0", "--tokens", absl::StrCat(expected.size()), "--threads", "1"});
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(said.json["text"], expected) << said.out;
  }
  // Beyond the longest sequence it goes on with what it sees.
  const CommandResult longer =
      RunClient({"generate", checkpoints, "--prompt", kSentence,
                 "--temperature", "0", "--tokens", "100"});
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_TRUE(absl::StrContains(
      longer.out, absl::StrCat(kSentence, kSentence, "Stagecoach")))
      << longer.out;
}

TEST(GenerateTest, TheWeightsThatAreMissingAreNamed) {
  const TemporaryFolder folder;
  folder.Write("config.json",
               R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8,)"
               R"("n_head": 2, "n_positions": 16, "attn_pdrop": 0,)"
               R"("embd_pdrop": 0, "resid_pdrop": 0, "vocab_size": 256})");
  const CommandResult result =
      RunClient({"generate", folder.path(), "--prompt", "x"});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_TRUE(absl::StrContains(result.err, "model.safetensors")) << result.err;
}

}  // namespace
}  // namespace stagecoach::testing

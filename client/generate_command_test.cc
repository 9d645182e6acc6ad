#include "client/generate_command.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/process.h"
#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string FakeWorker() { return ExecutableFolder() + "/fake_daemon"; }

// A folder with the config of a GPT-2 and no weights, which the fake worker
// does not miss.
std::string ModelFolder(int vocabulary) {
  const std::string folder = MakeFolder();
  std::ofstream(folder + "/config.json")
      << R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2,)"
      << R"("n_positions": 16, "attn_pdrop": 0, "embd_pdrop": 0,)"
      << R"("resid_pdrop": 0, "vocab_size": )" << vocabulary << "}";
  return folder;
}

ClientResult Generate(std::vector<std::string> arguments,
                      ClientProcess::Environment environment = {}) {
  arguments.insert(arguments.begin(), "generate");
  environment.emplace_back("STAGECOACH_WORKER_BINARY", FakeWorker());
  return RunClient(std::move(arguments), std::move(environment));
}

TEST(GenerateCommandTest, PrintsThePromptAndWhatFollows) {
  const ClientResult result =
      Generate({ModelFolder(256), "--prompt", "It rolls on"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "It rolls on and on.\n");
  EXPECT_EQ(result.error, "");
}

TEST(GenerateCommandTest, OneDocumentSaysHowItEnded) {
  const ClientResult result = Generate(
      {"-o", "json", ModelFolder(256), "--prompt", "\xC3\xA4", "--tokens", "4"},
      {{"FAKE_GENERATED", "\xC3\xB6!"}});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const Json document = result.document();
  EXPECT_EQ(document["prompt"], "\xC3\xA4");
  EXPECT_EQ(document["prompt_tokens"], 2);
  EXPECT_EQ(document["text"], "\xC3\xB6!");
  EXPECT_EQ(document["tokens"].dump(), "[195,182,33]");
  EXPECT_EQ(document["end"], "length");
  EXPECT_GT(document["tokens_per_second"].get<double>(), 0);
}

// With the tokenizer that lies beside the weights. The fake worker's bytes are
// token ids.
TEST(GenerateCommandTest, ATokenizerGivesTextOfTokens) {
  const std::string packages =
      fs::absolute("external/python_packages/packages");
  if (!fs::exists(packages + "/tokenizers/__init__.py")) {
    GTEST_SKIP() << "no tokenizers library; scripts/python_env.sh gets it";
  }
  const std::string folder = ModelFolder(298);
  fs::copy_file("client/data/tokenizer_test.json", folder + "/tokenizer.json");
  std::ofstream(folder + "/generation_config.json")
      << R"({"eos_token_id": 15})";
  // "!" is token 2 and "." token 15, which ends the text.
  const ClientResult result =
      Generate({"-o", "json", folder, "--prompt", "The coach"},
               {{"FAKE_GENERATED", "\x02\x0F"},
                {"STAGECOACH_PYTHON_PACKAGES", packages}});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const Json document = result.document();
  EXPECT_EQ(document["prompt_tokens"], 3);  // <|begin|> comes first
  EXPECT_EQ(document["text"], "!.");
  EXPECT_EQ(document["end"], "stop");
}

TEST(GenerateCommandTest, AnInterruptEndsItWithWhatThereIs) {
  LifeLine line;
  ClientProcess client(
      {"generate", ModelFolder(256), "--prompt", "On", "-o", "json"},
      {{"STAGECOACH_WORKER_BINARY", FakeWorker()},
       {"FAKE_WORKER", "hangs"},
       {"FAKE_FIFO", line.path()}});
  EXPECT_THAT(line.ReadLine(), HasSubstr("worker "));
  EXPECT_EQ(line.ReadLine(), "hangs");
  client.Signal(SIGINT);
  const ClientResult result = client.Finish();
  EXPECT_EQ(result.exit_code, 130) << result.error;
  EXPECT_EQ(result.document()["end"], "interrupt");
  // The worker is gone, too.
  EXPECT_EQ(line.ReadLine(), "");
}

TEST(GenerateCommandTest, AWorkerThatFailsIsQuoted) {
  const ClientResult result = Generate({ModelFolder(256), "--prompt", "On"},
                                       {{"FAKE_WORKER", "exits"}});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error,
              HasSubstr("the worker that generates ended with exit code 2; the "
                        "end of its log:\nfake: the port is taken"));
}

TEST(GenerateCommandTest, NamesWhatIsMissing) {
  ClientResult result = Generate({"/no/such/folder", "--prompt", "On"});
  EXPECT_EQ(result.exit_code, 102) << result.error;
  EXPECT_THAT(result.error, HasSubstr("there is no folder /no/such/folder"));

  const std::string empty = MakeFolder();
  result = Generate({empty, "--prompt", "On"});
  EXPECT_EQ(result.exit_code, 102) << result.error;
  EXPECT_THAT(result.error, HasSubstr("it has no config.json"));

  result = Generate({ModelFolder(1000), "--prompt", "On"});
  EXPECT_EQ(result.exit_code, 2) << result.error;
  EXPECT_THAT(result.error, HasSubstr("no tokenizer.json"));
  EXPECT_THAT(result.error, HasSubstr("--tokenizer FILE"));

  result = Generate({ModelFolder(256), "--prompt", ""});
  EXPECT_EQ(result.exit_code, 2) << result.error;
  EXPECT_THAT(result.error, HasSubstr("--prompt is empty"));

  result =
      Generate({ModelFolder(256), "--prompt", "On", "--temperature", "-1"});
  EXPECT_EQ(result.exit_code, 2) << result.error;
  EXPECT_THAT(result.error, HasSubstr("--temperature"));

  result = Generate(
      {ModelFolder(256), "--prompt", "On", "--tokenizer", "/no/tokenizer"});
  EXPECT_EQ(result.exit_code, 102) << result.error;
  EXPECT_THAT(result.error, HasSubstr("there is no tokenizer /no/tokenizer"));
}

}  // namespace
}  // namespace stagecoach::client

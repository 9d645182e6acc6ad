#include "client/data_commands.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr char kTokenizer[] = "client/data/tokenizer_test.json";
constexpr char kPackages[] = "external/python_packages/packages";

ClientResult Prepare(Words arguments, const std::string& packages) {
  arguments.insert(arguments.begin(), {"data", "prepare"});
  return RunClient(std::move(arguments),
                   {{"STAGECOACH_PYTHON_PACKAGES", packages}});
}

class DataCommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(std::string(kPackages) + "/tokenizers/__init__.py")) {
      GTEST_SKIP() << "no tokenizers library; scripts/python_env.sh gets it";
    }
  }
  ClientResult Prepare(Words arguments) {
    return client::Prepare(std::move(arguments), fs::absolute(kPackages));
  }
  std::string Corpus(int documents) const {
    const std::string path = folder_ + "/corpus.jsonl";
    std::ofstream file(path);
    for (int i = 0; i < documents; ++i) {
      file << "{\"text\": \"The stage coach " << i << ".\"}\n";
    }
    file << "nonsense\n";
    return path;
  }

  const std::string folder_ = MakeFolder();
};

TEST_F(DataCommandsTest, SaysWhatASpecNeeds) {
  const std::string output = folder_ + "/corpus.bin";
  const ClientResult result =
      Prepare({"--input", Corpus(20), "--skip-bad", "--tokenizer", kTokenizer,
               "--output", output, "--validation", "0.1"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.error, "");  // no terminal, no bar
  EXPECT_THAT(result.out, HasSubstr("of 18 documents"));
  EXPECT_THAT(result.out, HasSubstr("of 2 documents"));
  EXPECT_THAT(result.out, HasSubstr("skipped 1 bad line\n"));
  EXPECT_THAT(result.out, HasSubstr("ends with <|endoftext|> (0)"));
  EXPECT_THAT(result.out, HasSubstr("vocabulary = 298\n"));
  EXPECT_THAT(result.out, HasSubstr("kind = \"tokens\"\npath = \"" + output));
  EXPECT_THAT(result.out, HasSubstr("token_type = \"uint16\"\n"));
}

TEST_F(DataCommandsTest, OneDocumentAsJson) {
  const ClientResult result = Prepare(
      {"-o", "json", "--input", Corpus(5), "--skip-bad", "--tokenizer",
       kTokenizer, "--output", folder_ + "/m.bin", "--format", "megatron"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const Json document = result.document();
  EXPECT_EQ(document["format"], "megatron");
  EXPECT_EQ(document["training"]["documents"], 5);
  EXPECT_EQ(document["training"]["tokens"], 5 * 7);
  EXPECT_TRUE(document["validation"].is_null());
  EXPECT_EQ(document["end_token_id"], 0);
  EXPECT_EQ(document["skipped"], 1);
  ASSERT_EQ(document["files"].size(), 3u);
  for (const Json& file : document["files"]) {
    EXPECT_TRUE(fs::exists(file.get<std::string>())) << file;
  }
  // Nothing is replaced.
  EXPECT_EQ(Prepare({"--input", Corpus(5), "--skip-bad", "--tokenizer",
                     kTokenizer, "--output", folder_ + "/m.bin"})
                .exit_code,
            6);
}

TEST_F(DataCommandsTest, ABadLineIsUsage) {
  const std::string corpus = Corpus(2);
  const ClientResult result =
      Prepare({"--input", corpus, "--tokenizer", kTokenizer, "--output",
               folder_ + "/x.bin"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr(corpus + ":3: the line is not JSON"));
}

TEST(DataCommandsUsageTest, NamesWhatIsWrong) {
  ClientResult result = client::Prepare(
      {"--input", "x.jsonl", "--tokenizer", kTokenizer, "--output", "x"}, "");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("--output x must end in .bin"));
  result = RunClient({"data", "prepare", "--input", "x.jsonl", "--tokenizer",
                      kTokenizer, "--output", "x.bin"},
                     {{"STAGECOACH_PYTHON", "/no/such/python"}});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error, HasSubstr("/no/such/python"));
}

}  // namespace
}  // namespace stagecoach::client

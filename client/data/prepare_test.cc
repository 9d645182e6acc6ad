// With the real tokenizers library, if scripts/python_env.sh has fetched it.
// tokenizer_test.json is a byte-level BPE of 298 tokens that the library has
// trained: "The" is 275, " stage" 269, " coach" 268, "." 15, <|endoftext|> 0,
// and prompts begin with <|begin|>, 1.
#include "client/data/prepare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/data/tokenizer_codec.h"
#include "client/data/tokenizer_process.h"
#include "stage_worker/data/token_stream.h"

namespace stagecoach::client {
namespace {

namespace fs = std::filesystem;

constexpr char kTokenizer[] = "client/data/tokenizer_test.json";
constexpr char kPackages[] = "external/python_packages/packages";

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class PrepareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(std::string(kPackages) + "/tokenizers/__init__.py")) {
      GTEST_SKIP() << "no tokenizers library; scripts/python_env.sh gets it";
    }
    setenv("STAGECOACH_PYTHON_PACKAGES", fs::absolute(kPackages).c_str(), 1);
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    auto tokenizer = TokenizerProcess::Start(kTokenizer, nullptr);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  PrepareOptions Options(const std::string& name, const std::string& input) {
    PrepareOptions options;
    options.input.path = Path(name);
    options.input.json_lines = absl::EndsWith(name, ".jsonl");
    std::ofstream(options.input.path, std::ios::binary) << input;
    options.tokenizer = kTokenizer;
    options.output = Path("out.bin");
    return options;
  }
  absl::StatusOr<Prepared> Prepare(const PrepareOptions& options) {
    return PrepareData(
        options, tokenizer_.get(),
        [this](const PrepareProgress& progress) { progress_ = progress; });
  }
  std::vector<int64_t> Tokens(const std::string& name) const {
    const auto stream =
        worker::OpenTokenFile(Path(name), worker::TokenType::kUInt16);
    EXPECT_TRUE(stream.ok()) << stream.status();
    std::vector<int64_t> tokens;
    for (int64_t i = 0; stream.ok() && i < (*stream)->tokens(); ++i) {
      tokens.push_back((*stream)->At(i));
    }
    return tokens;
  }
  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::string folder_ =
      std::string(std::getenv("TEST_TMPDIR")) + "/prepare";
  std::unique_ptr<TokenizerProcess> tokenizer_;
  PrepareProgress progress_;
};

using Ids = std::vector<int64_t>;
using Strings = std::vector<std::string>;

TEST_F(PrepareTest, JsonLinesBecomeTokensThatAJobReads) {
  const auto prepared =
      Prepare(Options("in.jsonl",
                      "{\"text\": \"The stage coach.\"}\n{\"text\": \"\"}\n"
                      "{\"text\": \"The coach.\"}\n"));
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(Tokens("out.bin"), (Ids{275, 269, 268, 15, 0, 275, 268, 15, 0}));
  EXPECT_EQ(prepared->training.tokens, 9);
  EXPECT_EQ(prepared->training.documents, 2);
  EXPECT_EQ(prepared->vocabulary, 298);
  EXPECT_EQ(prepared->token_type, "uint16");
  EXPECT_EQ(prepared->end_token, "<|endoftext|>");
  EXPECT_EQ(prepared->end_token_id, 0u);
  EXPECT_EQ(progress_.bytes_read, progress_.bytes);
  EXPECT_EQ(Names(), (Strings{"in.jsonl", "out.bin", "out.tokenizer.json"}));
  EXPECT_EQ(Contents(Path("out.tokenizer.json")), Contents(kTokenizer));
}

TEST_F(PrepareTest, ValidationTakesItsPartOfTheDocuments) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&lines, "{\"text\": \"", i, "\"}\n");
  }
  PrepareOptions options = Options("in.jsonl", lines);
  options.validation = 0.25;
  options.end_token = "none";
  const auto prepared = Prepare(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->training.documents, 6);
  ASSERT_TRUE(prepared->validation.has_value());
  EXPECT_EQ(prepared->validation->documents, 2);
  // Digits are single tokens, in order.
  const Ids held = Tokens("out.validation.bin");
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[1] - held[0], 4);
  EXPECT_EQ(Tokens("out.bin").size(), 6u);
}

TEST_F(PrepareTest, TheEndOfAPlainTextIsHeldBack) {
  PrepareOptions options = Options("in.txt", "The\nThe\nThe\nThe\n");
  options.validation = 0.25;
  const auto prepared = Prepare(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const Ids held = Tokens("out.validation.bin");
  ASSERT_EQ(held.size(), 3u);
  EXPECT_EQ(held.front(), 275);
  EXPECT_EQ(held.back(), 0);
  EXPECT_EQ(Tokens("out.bin").size(), 7u);
  EXPECT_EQ(prepared->training.documents, 1);
}

TEST_F(PrepareTest, ManyDocumentsComeOutInTheirOrder) {
  std::string lines;
  const Ids digits = [this] {
    const auto tokens = tokenizer_->EncodePrompt("0123456789");
    EXPECT_TRUE(tokens.ok());
    return Ids(tokens->begin() + 1, tokens->end());
  }();
  ASSERT_EQ(digits.size(), 10u);
  Ids expected;
  for (int i = 0; i < 10000; ++i) {  // more than one batch
    absl::StrAppend(&lines, "{\"text\": \"", i * 7 % 10, "\"}\n");
    expected.push_back(digits[static_cast<size_t>(i * 7 % 10)]);
  }
  PrepareOptions options = Options("in.jsonl", lines);
  options.end_token = "none";
  ASSERT_TRUE(Prepare(options).ok());
  EXPECT_EQ(Tokens("out.bin"), expected);
}

TEST_F(PrepareTest, AfterAnErrorThereIsNothing) {
  struct Case {
    const char* name;
    std::string input;
    const char* message;
  };
  for (const Case& bad : {
           Case{"in.jsonl", "{\"text\": \"x\"}\nnonsense\n", "in.jsonl:2: "},
           Case{"in.txt", "fine\n\xFF\xFE\n",
                "in.txt:1: the text is not UTF-8"},
           Case{"in.jsonl", "{\"text\": \"\"}\n", "leave no token"},
       }) {
    const auto prepared = Prepare(Options(bad.name, bad.input));
    EXPECT_TRUE(absl::IsInvalidArgument(prepared.status()));
    EXPECT_TRUE(absl::StrContains(prepared.status().message(), bad.message))
        << prepared.status();
    EXPECT_EQ(Names(), Strings{bad.name});
    fs::remove(Path(bad.name));
  }
  PrepareOptions options = Options("in.jsonl", "{\"text\": \"x\"}\n");
  options.end_token = "<|fin|>";
  EXPECT_TRUE(absl::StrContains(Prepare(options).status().message(),
                                "--end-token <|fin|>"));
  options.end_token.clear();
  options.validation = 0.5;  // the second of one document
  EXPECT_TRUE(absl::StrContains(Prepare(options).status().message(),
                                "larger --validation"));
  EXPECT_EQ(Names(), Strings{"in.jsonl"});
}

// ---- the tokenizer itself ---------------------------------------------------

TEST_F(PrepareTest, APromptBeginsWithItsSpecialTokenAndTextComesBack) {
  const auto codec =
      NewTokenizerCodec(TokenizerProcess::Start(kTokenizer, nullptr).value());
  // The tokenizer.json says to cut after 4 tokens, which is for training.
  EXPECT_EQ(*codec->Encode("The stage coach."), (Ids{1, 275, 269, 268, 15}));
  EXPECT_EQ(*codec->Append(269), " stage");
  EXPECT_EQ(*codec->Append(0), "");  // special
  // One character of two bytes: nothing until it is whole.
  const auto umlaut = tokenizer_->EncodePrompt("\xC3\xB6");
  ASSERT_TRUE(umlaut.ok() && umlaut->size() == 3u);
  EXPECT_EQ(*codec->Append((*umlaut)[1]), "");
  EXPECT_EQ(*codec->Append((*umlaut)[2]), "\xC3\xB6");
  EXPECT_EQ(*codec->Append((*umlaut)[1]), "");
  EXPECT_EQ(*codec->Finish(), "\xEF\xBF\xBD");
}

TEST_F(PrepareTest, WhatIsNoTokenizerIsNamed) {
  const std::string file = Path("bad.json");
  std::ofstream(file) << "{}";
  const auto bad = TokenizerProcess::Start(file, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status())) << bad.status();
  EXPECT_TRUE(absl::StartsWith(bad.status().message(), file)) << bad.status();
  EXPECT_FALSE(TokenizerProcess::Start("/no/file.json", nullptr).ok());
}

// ---- where there is none ----------------------------------------------------

TEST(TokenizerProcessTest, SaysHowToGetTheLibrary) {
  setenv("STAGECOACH_PYTHON_PACKAGES", "/no/such/folder", 1);
  const auto none = TokenizerProcess::Start(kTokenizer, nullptr);
  if (none.ok()) GTEST_SKIP() << "Python has the library by itself";
  EXPECT_TRUE(absl::IsNotFound(none.status())) << none.status();
  EXPECT_TRUE(
      absl::StrContains(none.status().message(), "scripts/python_env.sh"))
      << none.status();
  unsetenv("STAGECOACH_PYTHON_PACKAGES");
  setenv("STAGECOACH_PYTHON", "/no/such/python", 1);
  EXPECT_FALSE(TokenizerProcess::Start(kTokenizer, nullptr).ok());
  unsetenv("STAGECOACH_PYTHON");
}

TEST(TokenizerProcessTest, WantsTheVersionThatIsLocked) {
  EXPECT_TRUE(absl::StrContains(
      Contents("scripts/python.lock"),
      absl::StrCat("\ntokenizers==", kTokenizersVersion, " ")));
}

}  // namespace
}  // namespace stagecoach::client

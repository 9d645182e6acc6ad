#include "client/data/token_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "stage_worker/data/token_stream.h"

namespace stagecoach::client {
namespace {

namespace fs = std::filesystem;

class TokenFilesTest : public ::testing::Test {
 protected:
  TokenFilesTest() {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }

  std::unique_ptr<TokenFiles> Create(bool megatron, int64_t vocabulary) const {
    TokenFiles::Options options;
    options.path = Path("corpus.bin");
    options.megatron = megatron;
    options.vocabulary = vocabulary;
    auto files = TokenFiles::Create(options);
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? *std::move(files) : nullptr;
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
  static void Publish(TokenFiles* files) {
    ASSERT_TRUE(files->Finish().ok());
    for (PendingFile* file : files->files()) {
      ASSERT_TRUE(file->Publish().ok());
    }
  }

  const std::string folder_ = std::string(std::getenv("TEST_TMPDIR")) + "/out";
};

std::vector<int64_t> TokensOf(const worker::TokenStream& stream) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < stream.tokens(); ++i) tokens.push_back(stream.At(i));
  return tokens;
}

using Tokens = std::vector<int64_t>;
using Strings = std::vector<std::string>;

TEST_F(TokenFilesTest, PlainTokensAreReadBack) {
  const auto files = Create(false, 65536);
  ASSERT_TRUE(files->Append({1, 65535}).ok());
  files->EndDocument();
  ASSERT_TRUE(files->Append({7}).ok());
  files->EndDocument();
  files->EndDocument();  // of nothing
  EXPECT_STREQ(files->token_type(), "uint16");
  EXPECT_EQ(files->tokens(), 3);
  EXPECT_EQ(files->documents(), 2);
  Publish(files.get());
  EXPECT_EQ(Names(), Strings{"corpus.bin"});
  const auto stream =
      worker::OpenTokenFile(Path("corpus.bin"), worker::TokenType::kUInt16);
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(TokensOf(**stream), (Tokens{1, 65535, 7}));
}

TEST_F(TokenFilesTest, ALargerVocabularyTakesWiderTokens) {
  const auto files = Create(false, 65537);
  ASSERT_TRUE(files->Append({65536, 2}).ok());
  EXPECT_STREQ(files->token_type(), "uint32");
  Publish(files.get());
  const auto stream =
      worker::OpenTokenFile(Path("corpus.bin"), worker::TokenType::kUInt32);
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(TokensOf(**stream), (Tokens{65536, 2}));
}

TEST_F(TokenFilesTest, MegatronsIndexFitsTheData) {
  for (const int64_t vocabulary : {1000, 100000}) {
    fs::remove(Path("corpus.bin"));
    fs::remove(Path("corpus.idx"));
    const auto files = Create(true, vocabulary);
    ASSERT_TRUE(files->Append({1, 2}).ok());
    ASSERT_TRUE(files->Append({3}).ok());
    files->EndDocument();
    ASSERT_TRUE(files->Append({999}).ok());
    files->EndDocument();
    Publish(files.get());
    EXPECT_EQ(Names(), (Strings{"corpus.bin", "corpus.idx"}));
    const auto stream = worker::OpenMegatron(Path("corpus.bin"));
    ASSERT_TRUE(stream.ok()) << stream.status();
    EXPECT_EQ(TokensOf(**stream), (Tokens{1, 2, 3, 999}));
    EXPECT_STREQ(worker::NameOf((*stream)->type()), files->token_type());
  }
}

TEST_F(TokenFilesTest, NothingIsLeftOfWhatWasNotPublished) {
  {
    const auto files = Create(true, 1000);
    ASSERT_TRUE(files->Append({1}).ok());
    EXPECT_EQ(Names().size(), 2u);
    for (const std::string& name : Names()) {
      EXPECT_NE(name.find(".partial-"), std::string::npos) << name;
    }
  }
  EXPECT_EQ(Names(), Strings{});
}

TEST_F(TokenFilesTest, WhatIsThereStays) {
  std::ofstream(Path("corpus.bin")) << "precious";
  TokenFiles::Options options;
  options.path = Path("corpus.bin");
  EXPECT_TRUE(absl::IsAlreadyExists(TokenFiles::Create(options).status()));
  EXPECT_EQ(Names(), Strings{"corpus.bin"});
}

}  // namespace
}  // namespace stagecoach::client

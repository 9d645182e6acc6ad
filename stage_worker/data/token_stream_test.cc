#include "stage_worker/data/token_stream.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::worker {
namespace {

using absl::StatusCode;
using Tokens = std::vector<int64_t>;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(&bytes[0], values.data(), bytes.size());
  return bytes;
}

std::string Write(const std::string& name, const std::string& bytes) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

using Opened = absl::StatusOr<std::unique_ptr<TokenStream>>;

Tokens All(const Opened& stream) {
  EXPECT_TRUE(stream.ok()) << stream.status();
  Tokens tokens;
  if (!stream.ok()) return tokens;
  for (int64_t i = 0; i < (*stream)->tokens(); ++i) {
    tokens.push_back((*stream)->At(i));
  }
  return tokens;
}

void ExpectRefused(const Opened& stream, StatusCode code,
                   const std::string& part) {
  EXPECT_EQ(stream.status().code(), code) << stream.status();
  EXPECT_TRUE(absl::StrContains(stream.status().message(), part))
      << stream.status();
}

TEST(TokenFileTest, TokensAreUnsigned) {
  const std::string narrow =
      Write("narrow.bin", Bytes<uint16_t>({0, 1, 256, 65535}));
  EXPECT_EQ(All(OpenTokenFile(narrow, TokenType::kUInt16)),
            (Tokens{0, 1, 256, 65535}));
  const std::string wide =
      Write("wide.bin", Bytes<uint32_t>({7, 128255, 4294967295}));
  EXPECT_EQ(All(OpenTokenFile(wide, TokenType::kUInt32)),
            (Tokens{7, 128255, 4294967295}));
}

TEST(TokenFileTest, RefusesHalfATokenAndNothing) {
  ExpectRefused(OpenTokenFile(Write("odd.bin", "12345"), TokenType::kUInt16),
                StatusCode::kInvalidArgument,
                "5 bytes are no whole number of tokens of data.token_type = "
                "\"uint16\"");
  ExpectRefused(OpenTokenFile(Write("none.bin", ""), TokenType::kUInt16),
                StatusCode::kInvalidArgument, "empty");
  ExpectRefused(OpenTokenFile("/nothing.bin", TokenType::kUInt16),
                StatusCode::kNotFound, "/nothing.bin");
}

std::string LlmC(int32_t magic, int32_t tokens) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = 1;
  header[2] = tokens;
  return Bytes(header);
}

TEST(TokenFileTest, SkipsTheHeaderOfLlmC) {
  const std::string gpt2 =
      Write("gpt2.bin", LlmC(20240520, 3) + Bytes<uint16_t>({5, 6, 50256}));
  EXPECT_EQ(All(OpenTokenFile(gpt2, TokenType::kUInt16)),
            (Tokens{5, 6, 50256}));
  const std::string llama3 =
      Write("llama3.bin", LlmC(20240801, 2) + Bytes<uint32_t>({9, 128000}));
  EXPECT_EQ(All(OpenTokenFile(llama3, TokenType::kUInt32)),
            (Tokens{9, 128000}));
  ExpectRefused(OpenTokenFile(llama3, TokenType::kUInt16),
                StatusCode::kInvalidArgument,
                "its header says uint32; set data.token_type to it");
  const std::string cut =
      Write("cut.bin", LlmC(20240520, 3) + Bytes<uint16_t>({5, 6}));
  ExpectRefused(OpenTokenFile(cut, TokenType::kUInt16),
                StatusCode::kInvalidArgument,
                "its header counts 3 tokens, but 4 bytes follow");
}

// ---- Megatron ---------------------------------------------------------------

struct Megatron {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t type = 8;
  std::vector<int32_t> lengths = {2, 3};
  std::vector<int64_t> offsets = {0, 4};
  std::vector<int64_t> documents = {0, 1, 2};
  std::string data = Bytes<uint16_t>({1, 2, 3, 4, 50000});

  std::string IndexBytes() const {
    return magic + Bytes<uint64_t>({version}) +
           std::string(1, static_cast<char>(type)) +
           Bytes<uint64_t>({lengths.size(), documents.size()}) +
           Bytes(lengths) + Bytes(offsets) + Bytes(documents);
  }
};

Opened Open(const std::string& data, const std::string& index) {
  Write("corpus.idx", index);
  return OpenMegatron(Write("corpus.bin", data));
}
Opened Open(const Megatron& files) {
  return Open(files.data, files.IndexBytes());
}

TEST(MegatronTest, SequencesAreOneStream) {
  EXPECT_EQ(All(Open(Megatron())), (Tokens{1, 2, 3, 4, 50000}));
}

TEST(MegatronTest, TypesOfTokens) {
  Megatron wide;
  wide.type = 4;
  wide.offsets = {0, 8};
  wide.data = Bytes<int32_t>({1, 2, 3, 4, 128000});
  EXPECT_EQ(All(Open(wide)), (Tokens{1, 2, 3, 4, 128000}));
  Megatron narrow;
  narrow.type = 1;
  narrow.offsets = {0, 2};
  narrow.data = "abcde";
  EXPECT_EQ(All(Open(narrow)), (Tokens{97, 98, 99, 100, 101}));
  Megatron widest;
  widest.type = 5;
  widest.offsets = {0, 16};
  widest.data = Bytes<int64_t>({1, 2, 3, 4, -5});
  EXPECT_EQ(All(Open(widest)), (Tokens{1, 2, 3, 4, -5}));
  Megatron floating;
  floating.type = 7;
  ExpectRefused(Open(floating), StatusCode::kInvalidArgument,
                "tokens of type 7 are not supported");
}

TEST(MegatronTest, RefusesWhatDoesNotFit) {
  Megatron magic;
  magic.magic[0] = 'X';
  ExpectRefused(Open(magic), StatusCode::kInvalidArgument,
                "corpus.idx: not an index of Megatron");
  Megatron version;
  version.version = 2;
  ExpectRefused(Open(version), StatusCode::kInvalidArgument, "version 2");
  Megatron gap;
  gap.offsets = {0, 6};
  ExpectRefused(Open(gap), StatusCode::kInvalidArgument,
                "sequence 1 does not begin where the one before ends");
  Megatron negative;
  negative.lengths = {2, -3};
  ExpectRefused(Open(negative), StatusCode::kInvalidArgument,
                "sequence 1 has -3 tokens");
  Megatron longer;
  longer.data += "xy";
  ExpectRefused(Open(longer), StatusCode::kInvalidArgument,
                "counts 5 tokens of uint16");
}

TEST(MegatronTest, RefusesAMissingFile) {
  const std::string bin = Write("alone.bin", "ab");
  ExpectRefused(OpenMegatron(bin), StatusCode::kNotFound, "alone.idx");
  ExpectRefused(OpenMegatron(Write("corpus.txt", "ab")),
                StatusCode::kInvalidArgument, "ends in .bin");
}

// Counts that would overflow, an index that is cut anywhere, any bit flipped:
// refused, or a stream within its file.
TEST(MegatronTest, DamagedIndicesAreRefused) {
  const Megatron good;
  const std::string index = good.IndexBytes();
  for (size_t i = 0; i < index.size(); ++i) {
    ASSERT_FALSE(Open(good.data, index.substr(0, i)).ok()) << i;
    for (const int mask : {0x01, 0x80, 0xFF}) {
      std::string flipped = index;
      flipped[i] = static_cast<char>(flipped[i] ^ mask);
      const Opened stream = Open(good.data, flipped);
      if (stream.ok()) {
        EXPECT_EQ((*stream)->tokens() * BytesOf((*stream)->type()), 10) << i;
      }
    }
  }
  std::string huge = index;
  for (size_t i = 18; i < 26; ++i) huge[i] = '\xFF';
  ExpectRefused(Open(good.data, huge), StatusCode::kInvalidArgument,
                "do not fit");
}

}  // namespace
}  // namespace stagecoach::worker

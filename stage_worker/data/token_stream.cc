#include "stage_worker/data/token_stream.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::worker {
namespace {

// llm.c's dev/data: GPT-2 tokens are uint16, Llama 3's uint32.
constexpr int32_t kMagicUInt16 = 20240520;
constexpr int32_t kMagicUInt32 = 20240801;
constexpr int64_t kHeaderBytes = int64_t{256} * 4;

template <typename T>
int64_t Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return static_cast<int64_t>(value);
}

absl::Status Refused(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("data file ", path, ": ", why));
}

bool HasHeader(const MappedFile& file) {
  if (file.size_bytes() < kHeaderBytes) return false;
  const int64_t magic = Load<int32_t>(file.data());
  return (magic == kMagicUInt16 || magic == kMagicUInt32) &&
         Load<int32_t>(file.data() + 4) == 1;
}

}  // namespace

int64_t BytesOf(TokenType type) {
  switch (type) {
    case TokenType::kUInt8:
      return 1;
    case TokenType::kUInt16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kUInt32:
      return 4;
    case TokenType::kInt64:
      break;
  }
  return 8;
}

const char* NameOf(TokenType type) {
  switch (type) {
    case TokenType::kUInt8:
      return "uint8";
    case TokenType::kUInt16:
      return "uint16";
    case TokenType::kInt32:
      return "int32";
    case TokenType::kUInt32:
      return "uint32";
    case TokenType::kInt64:
      break;
  }
  return "int64";
}

int64_t TokenStream::At(int64_t position) const {
  const uint8_t* const bytes =
      file_->data() + begin_ + position * BytesOf(type_);
  switch (type_) {
    case TokenType::kUInt8:
      return *bytes;
    case TokenType::kUInt16:
      return Load<uint16_t>(bytes);
    case TokenType::kInt32:
      return Load<int32_t>(bytes);
    case TokenType::kUInt32:
      return Load<uint32_t>(bytes);
    case TokenType::kInt64:
      break;
  }
  return Load<int64_t>(bytes);
}

absl::StatusOr<std::unique_ptr<TokenStream>> OpenText(const std::string& path) {
  SC_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  const int64_t tokens = file->size_bytes();
  return std::make_unique<TokenStream>(std::move(file), TokenType::kUInt8, 0,
                                       tokens);
}

absl::StatusOr<std::unique_ptr<TokenStream>> OpenTokenFile(
    const std::string& path, TokenType type) {
  SC_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  int64_t begin = 0;
  if (HasHeader(*file)) {
    const TokenType stored = Load<int32_t>(file->data()) == kMagicUInt16
                                 ? TokenType::kUInt16
                                 : TokenType::kUInt32;
    if (type != stored) {
      return Refused(path, absl::StrCat("its header says ", NameOf(stored),
                                        "; set data.token_type to it"));
    }
    begin = kHeaderBytes;
    const int64_t counted = Load<int32_t>(file->data() + 8);
    const int64_t stored_bytes = file->size_bytes() - begin;
    if (counted * BytesOf(type) != stored_bytes) {
      return Refused(
          path, absl::StrCat("its header counts ", counted, " tokens, but ",
                             stored_bytes, " bytes follow; is it whole?"));
    }
  }
  const int64_t bytes = file->size_bytes() - begin;
  if (bytes % BytesOf(type) != 0) {
    return Refused(path, absl::StrCat(bytes,
                                      " bytes are no whole number of tokens "
                                      "of data.token_type = \"",
                                      NameOf(type), "\""));
  }
  return std::make_unique<TokenStream>(std::move(file), type, begin,
                                       bytes / BytesOf(type));
}

}  // namespace stagecoach::worker

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "stage_worker/data/mapped_file.h"
#include "stage_worker/data/token_stream.h"

// The index of Megatron-LM's IndexedDataset (megatron/core/datasets), all
// little-endian:
//
//   9 bytes   "MMIDIDX\0\0"
//   uint64    version, 1
//   uint8     type of a token
//   uint64    sequences, s
//   uint64    documents and 1, d
//   int32[s]  tokens of each sequence
//   int64[s]  offset of each sequence in the data file, in bytes
//   int64[d]  the sequence at which each document begins; the last is s
namespace stagecoach::worker {
namespace {

constexpr absl::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;

struct Index {
  TokenType type = TokenType::kUInt16;
  int64_t tokens = 0;
};

absl::Status Damaged(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("data index ", path, ": ", why));
}

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

absl::StatusOr<TokenType> TypeOf(const std::string& path, int code) {
  switch (code) {
    case 1:
      return TokenType::kUInt8;
    case 4:
      return TokenType::kInt32;
    case 5:
      return TokenType::kInt64;
    case 8:
      return TokenType::kUInt16;
    default:
      return Damaged(path, absl::StrCat("tokens of type ", code,
                                        " are not supported; supported are 1 "
                                        "(uint8), 4 (int32), 5 (int64), 8 "
                                        "(uint16)"));
  }
}

// Sequence after sequence, without a gap.
absl::StatusOr<int64_t> CountTokens(const std::string& path,
                                    const MappedFile& file, int64_t sequences,
                                    int64_t token_bytes) {
  const uint8_t* const lengths = file.data() + kHeaderBytes;
  const uint8_t* const offsets = lengths + 4 * sequences;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 16;
  int64_t tokens = 0;
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t length = Load<int32_t>(lengths + 4 * i);
    if (length < 0 || tokens > kMost) {
      return Damaged(path,
                     absl::StrCat("sequence ", i, " has ", length, " tokens"));
    }
    if (Load<int64_t>(offsets + 8 * i) != tokens * token_bytes) {
      return Damaged(path, absl::StrCat("sequence ", i,
                                        " does not begin where the one before "
                                        "ends; write the data set anew"));
    }
    tokens += length;
  }
  return tokens;
}

absl::StatusOr<Index> ReadIndex(const std::string& path) {
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file,
                      MappedFile::Open(path, "data index"));
  const uint8_t* const bytes = file->data();
  if (file->size_bytes() < kHeaderBytes ||
      std::memcmp(bytes, kMagic.data(), kMagic.size()) != 0) {
    return Damaged(path, "not an index of Megatron");
  }
  const uint64_t version = Load<uint64_t>(bytes + 9);
  if (version != 1) {
    return Damaged(
        path, absl::StrCat("version ", version, " is not supported, only 1"));
  }
  Index index;
  SC_ASSIGN_OR_RETURN(index.type, TypeOf(path, bytes[17]));
  const uint64_t sequences = Load<uint64_t>(bytes + 18);
  const uint64_t documents = Load<uint64_t>(bytes + 26);
  // Bounded first, so that the products below stay in 64 bits.
  const uint64_t size = static_cast<uint64_t>(file->size_bytes());
  if (sequences > size || documents > size ||
      kHeaderBytes + 12 * sequences + 8 * documents != size) {
    return Damaged(path, absl::StrCat(size, " bytes do not fit ", sequences,
                                      " sequences and ", documents,
                                      " documents; is it whole?"));
  }
  SC_ASSIGN_OR_RETURN(index.tokens,
                      CountTokens(path, *file, static_cast<int64_t>(sequences),
                                  BytesOf(index.type)));
  return index;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenStream>> OpenMegatron(
    const std::string& path) {
  constexpr absl::string_view kEnd = ".bin";
  if (!absl::EndsWith(path, kEnd)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", path,
                     ": Megatron's data ends in .bin, with an .idx beside it"));
  }
  const std::string index_path =
      path.substr(0, path.size() - kEnd.size()) + ".idx";
  SC_ASSIGN_OR_RETURN(const Index index, ReadIndex(index_path));
  SC_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  if (file->size_bytes() != index.tokens * BytesOf(index.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", path, ": ", file->size_bytes(),
                     " bytes, but ", index_path, " counts ", index.tokens,
                     " tokens of ", NameOf(index.type)));
  }
  return std::make_unique<TokenStream>(std::move(file), index.type, 0,
                                       index.tokens);
}

}  // namespace stagecoach::worker

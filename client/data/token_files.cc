#include "client/data/token_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace stagecoach::client {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNarrowVocabulary = 65536;
// Of Megatron's index.
constexpr char kMagic[] = "MMIDIDX\0";  // and the 0 that ends it
constexpr char kInt32Code = 4;
constexpr char kUInt16Code = 8;

template <typename T>
void Put(T number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

// ---- one file ---------------------------------------------------------------

absl::StatusOr<std::unique_ptr<PendingFile>> PendingFile::Create(
    const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error))) {
    return absl::AlreadyExistsError(absl::StrCat(
        path, " is there already; remove it, or name another output"));
  }
  const std::string temporary = absl::StrCat(path, ".partial-", getpid());
  SC_ASSIGN_OR_RETURN(auto file, checkpoint::DurableFile::Create(temporary));
  return std::unique_ptr<PendingFile>(
      new PendingFile(path, temporary, std::move(file)));
}

PendingFile::PendingFile(std::string path, std::string temporary,
                         std::unique_ptr<checkpoint::DurableFile> file)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      file_(std::move(file)) {}

PendingFile::~PendingFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status PendingFile::Publish() {
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path_));
  }
  temporary_.clear();
  return absl::OkStatus();
}

// ---- tokens -----------------------------------------------------------------

absl::StatusOr<std::unique_ptr<TokenFiles>> TokenFiles::Create(
    const Options& options) {
  std::unique_ptr<TokenFiles> files(new TokenFiles(options));
  SC_ASSIGN_OR_RETURN(files->data_, PendingFile::Create(options.path));
  if (options.megatron) {
    const std::string stem(absl::StripSuffix(options.path, ".bin"));
    SC_ASSIGN_OR_RETURN(files->index_, PendingFile::Create(stem + ".idx"));
  }
  return files;
}

TokenFiles::TokenFiles(const Options& options)
    : options_(options), wide_(options.vocabulary > kNarrowVocabulary) {}

const char* TokenFiles::token_type() const {
  if (!wide_) return "uint16";
  return options_.megatron ? "int32" : "uint32";
}

std::vector<PendingFile*> TokenFiles::files() const {
  std::vector<PendingFile*> files = {data_.get()};
  if (index_ != nullptr) files.push_back(index_.get());
  return files;
}

absl::Status TokenFiles::Append(absl::Span<const uint32_t> tokens) {
  tokens_ += static_cast<int64_t>(tokens.size());
  if (tokens_ - document_begin_ > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        "a document of more than 2^31 tokens; cut the input into several");
  }
  if (wide_) {
    return data_->Write(
        absl::string_view(reinterpret_cast<const char*>(tokens.data()),
                          tokens.size() * sizeof(uint32_t)));
  }
  std::string bytes;
  bytes.reserve(tokens.size() * sizeof(uint16_t));
  for (const uint32_t token : tokens) {
    Put(static_cast<uint16_t>(token), &bytes);
  }
  return data_->Write(bytes);
}

void TokenFiles::EndDocument() {
  if (tokens_ == document_begin_) return;
  lengths_.push_back(static_cast<int32_t>(tokens_ - document_begin_));
  document_begin_ = tokens_;
}

std::string TokenFiles::Index() const {
  std::string bytes(kMagic, sizeof(kMagic));
  Put(uint64_t{1}, &bytes);
  Put(wide_ ? kInt32Code : kUInt16Code, &bytes);
  Put(static_cast<uint64_t>(lengths_.size()), &bytes);
  Put(static_cast<uint64_t>(lengths_.size() + 1), &bytes);
  for (const int32_t length : lengths_) Put(length, &bytes);
  int64_t offset = 0;
  for (const int32_t length : lengths_) {
    Put(offset, &bytes);
    offset += int64_t{length} * (wide_ ? 4 : 2);
  }
  // Every document is one sequence.
  for (size_t i = 0; i <= lengths_.size(); ++i) {
    Put(static_cast<int64_t>(i), &bytes);
  }
  return bytes;
}

absl::Status TokenFiles::Finish() {
  SC_RETURN_IF_ERROR(data_->Finish());
  if (index_ == nullptr) return absl::OkStatus();
  SC_RETURN_IF_ERROR(index_->Write(Index()));
  return index_->Finish();
}

}  // namespace stagecoach::client

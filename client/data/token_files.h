#ifndef STAGECOACH_CLIENT_DATA_TOKEN_FILES_H_
#define STAGECOACH_CLIENT_DATA_TOKEN_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "stage_worker/checkpoint/durable_file.h"

namespace stagecoach::client {

// One file that appears under its name whole or not at all: written under
// another name beside it, which is removed unless Publish has been called.
class PendingFile {
 public:
  // kAlreadyExists if `path` is there.
  static absl::StatusOr<std::unique_ptr<PendingFile>> Create(
      const std::string& path);
  ~PendingFile();

  absl::Status Write(absl::string_view bytes) { return file_->Write(bytes); }
  // Everything written is on the disk.
  absl::Status Finish() { return file_->Finish().status(); }
  // Gives it its name; after Finish.
  absl::Status Publish();
  const std::string& path() const { return path_; }

 private:
  PendingFile(std::string path, std::string temporary,
              std::unique_ptr<checkpoint::DurableFile> file);

  const std::string path_;
  std::string temporary_;  // empty: published
  const std::unique_ptr<checkpoint::DurableFile> file_;
};

// Tokens as a job reads them: data.kind = "tokens", or "megatron" with an index
// of the documents beside them. Thread-compatible; blocks.
class TokenFiles {
 public:
  struct Options {
    std::string path;  // ends in ".bin"
    bool megatron = false;
    int64_t vocabulary = 0;  // decides how wide a token is
  };
  static absl::StatusOr<std::unique_ptr<TokenFiles>> Create(
      const Options& options);

  // Tokens of the present document.
  absl::Status Append(absl::Span<const uint32_t> tokens);
  // Ends it; one without tokens leaves no trace.
  void EndDocument();
  // Everything is on the disk, the index too.
  absl::Status Finish();
  // In the order in which they may get their names: the data first, since an
  // index without its data would be a promise.
  std::vector<PendingFile*> files() const;

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return static_cast<int64_t>(lengths_.size()); }
  // Of the present document, so far.
  int64_t document_tokens() const { return tokens_ - document_begin_; }
  // "uint16", as data.token_type has it; Megatron's wide tokens are int32.
  const char* token_type() const;

 private:
  explicit TokenFiles(const Options& options);
  std::string Index() const;

  const Options options_;
  const bool wide_;  // 4 bytes a token
  std::unique_ptr<PendingFile> data_;
  std::unique_ptr<PendingFile> index_;  // Megatron's
  std::vector<int32_t> lengths_;        // of documents that have ended
  int64_t tokens_ = 0;
  int64_t document_begin_ = 0;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DATA_TOKEN_FILES_H_

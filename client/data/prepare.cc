#include "client/data/prepare.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"
#include "client/data/token_files.h"
#include "stage_worker/checkpoint/durable_file.h"

namespace stagecoach::client {
namespace {

constexpr int64_t kMostTokenizerBytes = int64_t{1} << 30;
// What is tokenized at once: enough for all cores, not much memory.
constexpr size_t kBatchBytes = size_t{1} << 20;
constexpr size_t kBatchPieces = 4096;
constexpr char kNone[] = "none";
constexpr const char* kUsualEnds[] = {"<|endoftext|>", "<|end_of_text|>",
                                      "</s>", "<eos>", "<|eos|>"};

class Preparation {
 public:
  Preparation(const PrepareOptions& options, TokenizerProcess* tokenizer,
              const std::function<void(const PrepareProgress&)>& on_progress)
      : options_(options), tokenizer_(tokenizer), on_progress_(on_progress) {}

  absl::StatusOr<Prepared> Run();

 private:
  absl::Status Open();
  absl::Status ChooseEnd();
  absl::StatusOr<std::unique_ptr<TokenFiles>> NewFiles(const char* infix) const;
  absl::Status CopyTokenizer();
  absl::StatusOr<bool> ReadBatch(std::vector<Piece>* batch);
  absl::StatusOr<std::vector<std::vector<uint32_t>>> Encode(
      const std::vector<Piece>& batch);
  absl::Status WriteBatch(const std::vector<Piece>& batch);
  // Where the next piece goes.
  TokenFiles* Target() const;
  absl::Status EndDocument(TokenFiles* files);
  void Report() const;
  absl::Status CheckNotEmpty(const TokenFiles& files) const;
  absl::Status Publish();

  const PrepareOptions& options_;
  TokenizerProcess* const tokenizer_;
  const std::function<void(const PrepareProgress&)>& on_progress_;
  std::unique_ptr<Corpus> corpus_;
  std::unique_ptr<TokenFiles> training_;
  std::unique_ptr<TokenFiles> validation_;
  std::unique_ptr<PendingFile> tokenizer_copy_;
  int64_t documents_ = 0;    // that have ended
  int64_t piece_begin_ = 0;  // of plain text: bytes before the piece
  Prepared prepared_;
};

absl::StatusOr<std::unique_ptr<TokenFiles>> Preparation::NewFiles(
    const char* infix) const {
  TokenFiles::Options files;
  files.path =
      absl::StrCat(absl::StripSuffix(options_.output, ".bin"), infix, ".bin");
  files.megatron = options_.megatron;
  files.vocabulary = tokenizer_->vocabulary();
  return TokenFiles::Create(files);
}

absl::Status Preparation::ChooseEnd() {
  if (options_.end_token == kNone) return absl::OkStatus();
  if (!options_.end_token.empty()) {
    SC_ASSIGN_OR_RETURN(prepared_.end_token_id,
                        tokenizer_->TokenOf(options_.end_token));
    prepared_.end_token = options_.end_token;
    if (prepared_.end_token_id.has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--end-token ", options_.end_token, ": ",
                     options_.tokenizer, " has no such token"));
  }
  for (const char* usual : kUsualEnds) {
    SC_ASSIGN_OR_RETURN(prepared_.end_token_id, tokenizer_->TokenOf(usual));
    prepared_.end_token = usual;
    if (prepared_.end_token_id.has_value()) return absl::OkStatus();
  }
  prepared_.end_token.clear();
  return absl::OkStatus();
}

absl::Status Preparation::CopyTokenizer() {
  SC_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(options_.tokenizer, kMostTokenizerBytes));
  SC_ASSIGN_OR_RETURN(
      tokenizer_copy_,
      PendingFile::Create(absl::StrCat(
          absl::StripSuffix(options_.output, ".bin"), ".tokenizer.json")));
  SC_RETURN_IF_ERROR(tokenizer_copy_->Write(text));
  return tokenizer_copy_->Finish();
}

absl::Status Preparation::Open() {
  SC_RETURN_IF_ERROR(ChooseEnd());
  Corpus::Options input = options_.input;
  input.tail = options_.validation;
  SC_ASSIGN_OR_RETURN(corpus_, Corpus::Open(input));
  SC_ASSIGN_OR_RETURN(training_, NewFiles(""));
  if (options_.validation > 0) {
    SC_ASSIGN_OR_RETURN(validation_, NewFiles(".validation"));
  }
  return CopyTokenizer();
}

absl::StatusOr<bool> Preparation::ReadBatch(std::vector<Piece>* batch) {
  batch->clear();
  size_t bytes = 0;
  while (bytes < kBatchBytes && batch->size() < kBatchPieces) {
    Piece piece;
    SC_ASSIGN_OR_RETURN(const bool more, corpus_->Next(&piece));
    if (!more) break;
    bytes += piece.text.size();
    batch->push_back(std::move(piece));
  }
  return !batch->empty();
}

absl::StatusOr<std::vector<std::vector<uint32_t>>> Preparation::Encode(
    const std::vector<Piece>& batch) {
  std::vector<std::string> texts;
  texts.reserve(batch.size());
  for (const Piece& piece : batch) texts.push_back(piece.text);
  auto tokens = tokenizer_->EncodeTexts(texts);
  size_t index = 0;
  if (absl::IsInvalidArgument(tokens.status()) &&
      absl::SimpleAtoi(tokens.status().message(), &index) &&
      index < batch.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(batch[index].place, ": the text is not UTF-8"));
  }
  return tokens;
}

TokenFiles* Preparation::Target() const {
  if (validation_ == nullptr) return training_.get();
  if (!options_.input.json_lines) {
    return piece_begin_ < corpus_->tail_begin() ? training_.get()
                                                : validation_.get();
  }
  const double part = options_.validation;
  const double document = static_cast<double>(documents_);
  return std::floor((document + 1) * part) > std::floor(document * part)
             ? validation_.get()
             : training_.get();
}

absl::Status Preparation::EndDocument(TokenFiles* files) {
  if (prepared_.end_token_id.has_value() && files->document_tokens() > 0) {
    SC_RETURN_IF_ERROR(files->Append({*prepared_.end_token_id}));
  }
  files->EndDocument();
  ++documents_;
  return absl::OkStatus();
}

absl::Status Preparation::WriteBatch(const std::vector<Piece>& batch) {
  SC_ASSIGN_OR_RETURN(const auto tokens, Encode(batch));
  for (size_t i = 0; i < batch.size(); ++i) {
    TokenFiles* const files = Target();
    SC_RETURN_IF_ERROR(files->Append(tokens[i]));
    piece_begin_ += static_cast<int64_t>(batch[i].text.size());
    // Of a plain text both parts are documents.
    if (batch[i].ends_document || Target() != files) {
      SC_RETURN_IF_ERROR(EndDocument(files));
    }
  }
  return absl::OkStatus();
}

void Preparation::Report() const {
  PrepareProgress progress;
  progress.bytes_read = corpus_->bytes_read();
  progress.bytes = corpus_->bytes();
  progress.documents = documents_;
  progress.tokens = training_->tokens();
  if (validation_ != nullptr) progress.tokens += validation_->tokens();
  on_progress_(progress);
}

absl::Status Preparation::CheckNotEmpty(const TokenFiles& files) const {
  if (files.tokens() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      options_.input.path, ": ", documents_, " documents leave no token for ",
      files.files()[0]->path(),
      &files == validation_.get() ? "; try a larger --validation" : ""));
}

absl::Status Preparation::Publish() {
  std::vector<PendingFile*> files = training_->files();
  if (validation_ != nullptr) {
    for (PendingFile* file : validation_->files()) files.push_back(file);
  }
  files.push_back(tokenizer_copy_.get());
  for (PendingFile* file : files) {
    SC_RETURN_IF_ERROR(file->Publish());
    prepared_.files.push_back(file->path());
  }
  const std::filesystem::path output =
      std::filesystem::absolute(options_.output);
  return checkpoint::SyncFolder(output.parent_path().string());
}

Prepared::Part PartOf(const TokenFiles& files) {
  Prepared::Part part;
  part.path = files.files()[0]->path();
  part.documents = files.documents();
  part.tokens = files.tokens();
  return part;
}

absl::StatusOr<Prepared> Preparation::Run() {
  SC_RETURN_IF_ERROR(Open());
  std::vector<Piece> batch;
  while (true) {
    SC_ASSIGN_OR_RETURN(const bool more, ReadBatch(&batch));
    if (!more) break;
    SC_RETURN_IF_ERROR(WriteBatch(batch));
    Report();
  }
  SC_RETURN_IF_ERROR(CheckNotEmpty(*training_));
  SC_RETURN_IF_ERROR(training_->Finish());
  prepared_.training = PartOf(*training_);
  if (validation_ != nullptr) {
    SC_RETURN_IF_ERROR(CheckNotEmpty(*validation_));
    SC_RETURN_IF_ERROR(validation_->Finish());
    prepared_.validation = PartOf(*validation_);
  }
  SC_RETURN_IF_ERROR(Publish());
  prepared_.token_type = training_->token_type();
  prepared_.vocabulary = tokenizer_->vocabulary();
  prepared_.bytes = corpus_->bytes();
  prepared_.skipped = corpus_->skipped();
  return prepared_;
}

}  // namespace

absl::StatusOr<Prepared> PrepareData(
    const PrepareOptions& options, TokenizerProcess* tokenizer,
    const std::function<void(const PrepareProgress&)>& on_progress) {
  return Preparation(options, tokenizer, on_progress).Run();
}

}  // namespace stagecoach::client

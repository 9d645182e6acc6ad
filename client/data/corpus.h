#ifndef STAGECOACH_CLIENT_DATA_CORPUS_H_
#define STAGECOACH_CLIENT_DATA_CORPUS_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stagecoach::client {

// A piece of a document, small enough to be tokenized at once.
struct Piece {
  std::string text;
  bool ends_document = true;
  std::string place;  // "corpus.jsonl:12", for messages
};

// The documents of a file, one after another: each line's text of JSON lines,
// or the whole of a plain text. Thread-compatible; blocks.
class Corpus {
 public:
  struct Options {
    std::string path;
    bool json_lines = false;
    std::string field = "text";  // of an object that is a line
    bool skip_bad = false;       // lines that are no such object
    // Plain text: pieces end at the first line end behind so many bytes.
    int64_t piece_bytes = int64_t{1} << 20;
    // Plain text: no piece goes over into this part of the file's bytes, at its
    // end, by more than a line.
    double tail = 0;
  };

  // kNotFound, kInvalidArgument (no file, or an empty one).
  static absl::StatusOr<std::unique_ptr<Corpus>> Open(const Options& options);

  // False at the end. kInvalidArgument names file and line of what is no JSON
  // object with a text in the field, unless such lines are skipped. Lines of
  // white space are passed over.
  absl::StatusOr<bool> Next(Piece* piece);

  int64_t bytes() const { return bytes_; }  // of the whole file
  // Where Options::tail begins.
  int64_t tail_begin() const;
  int64_t bytes_read() const { return bytes_read_; }  // so far
  int64_t skipped() const { return skipped_; }        // bad lines

 private:
  Corpus(const Options& options, std::ifstream file, int64_t bytes)
      : options_(options), file_(std::move(file)), bytes_(bytes) {}
  bool ReadLine(std::string* line);
  absl::StatusOr<bool> NextLine(Piece* piece);
  absl::StatusOr<bool> NextText(Piece* piece);
  absl::Status CheckRead() const;

  const Options options_;
  std::ifstream file_;
  const int64_t bytes_;
  int64_t bytes_read_ = 0;
  int64_t line_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_DATA_CORPUS_H_

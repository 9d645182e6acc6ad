#include "client/data/corpus.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stagecoach::client {
namespace {

std::string WriteFile(const std::string& name, const std::string& contents) {
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

Corpus::Options JsonLines(const std::string& contents) {
  Corpus::Options options;
  options.path = WriteFile("corpus.jsonl", contents);
  options.json_lines = true;
  return options;
}

Corpus::Options Text(const std::string& contents, int64_t piece_bytes) {
  Corpus::Options options;
  options.path = WriteFile("corpus.txt", contents);
  options.piece_bytes = piece_bytes;
  return options;
}

struct Read {
  std::vector<Piece> pieces;
  absl::Status status;
  int64_t skipped = 0;
  int64_t bytes_read = 0;
};

Read ReadAll(const Corpus::Options& options) {
  Read read;
  const auto corpus = Corpus::Open(options);
  read.status = corpus.status();
  while (read.status.ok()) {
    Piece piece;
    const auto more = (*corpus)->Next(&piece);
    read.status = more.status();
    if (!more.ok() || !*more) break;
    read.pieces.push_back(piece);
  }
  if (corpus.ok()) {
    read.skipped = (*corpus)->skipped();
    read.bytes_read = (*corpus)->bytes_read();
    if (read.status.ok()) {
      EXPECT_EQ((*corpus)->bytes(), read.bytes_read);
    }
  }
  return read;
}

std::vector<std::string> Texts(const Read& read) {
  std::vector<std::string> texts;
  for (const Piece& piece : read.pieces) {
    texts.push_back(absl::StrCat(piece.text, piece.ends_document ? "|" : ""));
  }
  return texts;
}

using Strings = std::vector<std::string>;

TEST(JsonLinesTest, EachLineIsADocument) {
  const Read read = ReadAll(
      JsonLines("{\"text\": \"one\", \"id\": 1}\n\n  \r\n{\"text\": \"\"}\r\n"
                "{\"id\": {\"a\": [1]}, \"text\": \"l\\u00f6we\\n2\"}"));
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(Texts(read), (Strings{"one|", "|", "l\xC3\xB6we\n2|"}));
  EXPECT_TRUE(absl::EndsWith(read.pieces[2].place, "corpus.jsonl:5"));
}

TEST(JsonLinesTest, TheFieldMayHaveAnotherName) {
  Corpus::Options options = JsonLines("{\"text\": 1, \"body\": \"b\"}\n");
  options.field = "body";
  EXPECT_EQ(Texts(ReadAll(options)), (Strings{"b|"}));
}

TEST(JsonLinesTest, BadLinesAreNamedOrCounted) {
  struct Case {
    const char* line;
    const char* message;
  };
  for (const Case& bad : {
           Case{"{\"text\": \"unfinished", "is not JSON"},
           Case{"[\"text\"]", "is no JSON object"},
           Case{"{\"body\": \"x\", \"n\": 1, \"url\": \"u\"}",
                "has no field \"text\"; its texts are: \"body\", \"url\"; "
                "choose by --field"},
           Case{"{\"n\": 1}", "its texts are: none"},
           Case{"{\"text\": 7}", "field \"text\" is number, no text"},
           Case{"{\"text\": \"\xFF\xFE\"}", "is not JSON"},
       }) {
    Corpus::Options options =
        JsonLines(absl::StrCat("{\"text\": \"good\"}\n", bad.line,
                               "\n{\"text\": \"too\"}\n", bad.line));
    const Read refused = ReadAll(options);
    EXPECT_EQ(Texts(refused), (Strings{"good|"}));
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status));
    EXPECT_TRUE(absl::StrContains(refused.status.message(), ".jsonl:2: "))
        << refused.status;
    EXPECT_TRUE(absl::StrContains(refused.status.message(), bad.message))
        << refused.status;
    options.skip_bad = true;
    const Read skipping = ReadAll(options);
    ASSERT_TRUE(skipping.status.ok()) << skipping.status;
    EXPECT_EQ(Texts(skipping), (Strings{"good|", "too|"}));
    EXPECT_EQ(skipping.skipped, 2);
  }
}

TEST(PlainTextTest, PiecesEndAtLineEndsAndAreOneDocument) {
  EXPECT_EQ(Texts(ReadAll(Text("one\ntwo\nthree\n", 5))),
            (Strings{"one\ntwo\n", "three\n|"}));
  EXPECT_EQ(Texts(ReadAll(Text("one\ntwo", 100))), (Strings{"one\ntwo|"}));
  EXPECT_EQ(Texts(ReadAll(Text("\n\n", 1))), (Strings{"\n", "\n|"}));
  const Read read = ReadAll(Text("one\ntwo\nthree\n", 1));
  ASSERT_EQ(read.pieces.size(), 3u);
  EXPECT_TRUE(absl::EndsWith(read.pieces[2].place, "corpus.txt:3"));
}

TEST(PlainTextTest, NoPieceGoesOverIntoTheTail) {
  Corpus::Options options = Text("0123\n5678\n0123\n5678\n", 1000);
  options.tail = 0.5;
  EXPECT_EQ(Texts(ReadAll(options)),
            (Strings{"0123\n5678\n", "0123\n5678\n|"}));
  options.tail = 0.4;  // in the midst of a line, which stays whole
  EXPECT_EQ(Texts(ReadAll(options)),
            (Strings{"0123\n5678\n0123\n", "5678\n|"}));
}

TEST(CorpusTest, WhatIsNoFileIsNamed) {
  Corpus::Options options;
  options.path = "/no/such/file";
  EXPECT_TRUE(absl::IsNotFound(ReadAll(options).status));
  options.path = std::getenv("TEST_TMPDIR");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadAll(options).status));
  const Read empty = ReadAll(Text("", 1));
  EXPECT_TRUE(absl::StrContains(empty.status.message(), "corpus.txt is empty"))
      << empty.status;
}

}  // namespace
}  // namespace stagecoach::client

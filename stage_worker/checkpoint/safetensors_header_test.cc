#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "stage_worker/checkpoint/safetensors.h"

namespace stagecoach::checkpoint {
namespace {

std::string FileOf(const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  uint64_t size = header.size();
  std::memcpy(file.data(), &size, sizeof(size));
  return file + header + std::string(data_bytes, '\1');
}

std::string Entry(const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return absl::StrCat(R"({"dtype":")", dtype, R"(","shape":)", shape,
                      R"(,"data_offsets":)", offsets, "}");
}

std::string MessageOf(const std::string& file) {
  const auto header = ParseSafetensorsHeader(file);
  EXPECT_TRUE(absl::IsInvalidArgument(header.status())) << header.status();
  return std::string(header.status().message());
}

std::string MessageOf(const std::string& header, size_t data_bytes) {
  return MessageOf(FileOf(header, data_bytes));
}

TEST(SafetensorsHeaderTest, ReadsTensorsAndMetadata) {
  const std::string file =
      FileOf(absl::StrCat(R"({"__metadata__":{"format":"pt"},"a":)",
                          Entry("F32", "[2,1]", "[0,8]"), R"(,"b":)",
                          Entry("BF16", "[]", "[8,10]"), R"(,"none":)",
                          Entry("I64", "[3,0]", "[8,8]"), "}   "),
             10);
  const auto header = ParseSafetensorsHeader(file);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->tensors.at("a").descriptor.ToString(), "float32[2, 1]");
  EXPECT_EQ(header->tensors.at("a").begin, file.size() - 10);
  EXPECT_EQ(header->tensors.at("b").descriptor.ToString(), "bfloat16[]");
  EXPECT_EQ(header->tensors.at("b").begin, file.size() - 2);
  EXPECT_EQ(header->tensors.at("none").descriptor.elements(), 0);
}

TEST(SafetensorsHeaderTest, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(ParseSafetensorsHeader(FileOf("{}", 0)).ok());
}

TEST(SafetensorsHeaderTest, RefusesWhatIsNoHeader) {
  EXPECT_EQ(MessageOf("1234567"),
            "truncated: 7 bytes, the header's length takes 8");
  EXPECT_EQ(MessageOf(std::string(8, '\xff')),
            "its header claims 18446744073709551615 bytes, more than any real "
            "one (100000000)");
  EXPECT_EQ(MessageOf(FileOf("{}", 0).substr(0, 9)),
            "truncated: its header has 2 bytes, the file 9");
  EXPECT_EQ(MessageOf("", 0), "its header does not begin with {");
  EXPECT_EQ(MessageOf(" {}", 0), "its header does not begin with {");
  EXPECT_EQ(MessageOf("{\"a\":", 0), "its header: no valid JSON at byte 6");
  EXPECT_EQ(MessageOf("{}x", 0), "its header: no valid JSON at byte 3");
  EXPECT_EQ(MessageOf(R"({"a":[[[[[[[[1]]]]]]]]})", 0),
            "its header: nested deeper than 8 levels");
  EXPECT_EQ(MessageOf(R"({"__metadata__":{"a":1}})", 0),
            "__metadata__: the value of \"a\" is no string");
  EXPECT_EQ(MessageOf(R"({"__metadata__":[]})", 0),
            "__metadata__ is no object");
}

TEST(SafetensorsHeaderTest, RefusesAKeyThatStandsTwice) {
  const std::string entry = Entry("F32", "[1]", "[0,4]");
  EXPECT_EQ(
      MessageOf(absl::StrCat(R"({"a":)", entry, R"(,"a":)", entry, "}"), 4),
      "its header: the key \"a\" stands twice");
  EXPECT_EQ(MessageOf(R"({"a":{"dtype":"F32","dtype":"F32"}})", 0),
            "its header: the key \"dtype\" stands twice");
}

TEST(SafetensorsHeaderTest, NamesTheTensorWhoseEntryIsWrong) {
  const auto message = [](const std::string& entry, size_t data_bytes = 4) {
    return MessageOf(absl::StrCat(R"({"h.0.w":)", entry, "}"), data_bytes);
  };
  EXPECT_EQ(message("[]"), "tensor h.0.w: its entry is no object");
  EXPECT_EQ(message("{}"), "tensor h.0.w: dtype is missing");
  EXPECT_EQ(message(R"({"dtype":"F32","shape":[1]})"),
            "tensor h.0.w: data_offsets is missing");
  EXPECT_EQ(message(R"({"dtype":1,"shape":[1],"data_offsets":[0,4]})"),
            "tensor h.0.w: dtype is no string");
  EXPECT_EQ(
      message(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})"),
      "tensor h.0.w: unknown key \"x\"");
  EXPECT_EQ(message(Entry("F8_E4M3", "[4]", "[0,4]")),
            "tensor h.0.w: unknown dtype \"F8_E4M3\"");
  for (const char* shape :
       {"1", "[-1]", "[1.0]", "[\"1\"]", "[null]", "[9223372036854775808]"}) {
    EXPECT_EQ(message(Entry("F32", shape, "[0,4]")),
              "tensor h.0.w: shape is no list of sizes");
  }
  EXPECT_EQ(message(Entry("F32", "[4294967296,4294967296]", "[0,4]")),
            "tensor h.0.w: impossible shape float32[4294967296, 4294967296]");
  for (const char* offsets : {"[0]", "[0,4,4]", "0", "{}"}) {
    EXPECT_EQ(message(Entry("F32", "[1]", offsets)),
              "tensor h.0.w: data_offsets is no pair");
  }
  EXPECT_EQ(message(Entry("F32", "[1]", "[-4,0]")),
            "tensor h.0.w: data_offsets is no list of sizes");
}

TEST(SafetensorsHeaderTest, RefusesOffsetsThatDoNotFit) {
  EXPECT_EQ(
      MessageOf(absl::StrCat(R"({"a":)", Entry("F32", "[2]", "[0,4]"), "}"), 4),
      "tensor a: data_offsets 0 to 4, but float32[2] has 8 bytes");
  EXPECT_EQ(
      MessageOf(absl::StrCat(R"({"a":)", Entry("F32", "[0]", "[4,0]"), "}"), 4),
      "tensor a: data_offsets 4 to 0, but float32[0] has 0 bytes");
  const std::string a = Entry("F32", "[1]", "[0,4]");
  const std::string header = absl::StrCat(R"({"a":)", a, "}");
  EXPECT_EQ(
      MessageOf(header, 3),
      absl::StrCat("tensor a: truncated: it ends at byte ", header.size() + 12,
                   ", the file at byte ", header.size() + 11));
  EXPECT_EQ(MessageOf(header, 5), "1 bytes behind the last tensor's end");
  EXPECT_EQ(MessageOf(absl::StrCat(R"({"a":)", a, R"(,"b":)",
                                   Entry("F32", "[1]", "[2,6]"), "}"),
                      6),
            "tensor b overlaps tensor a");
  EXPECT_EQ(MessageOf(absl::StrCat(R"({"a":)", a, R"(,"b":)", a, "}"), 4),
            "tensor b overlaps tensor a");
  EXPECT_EQ(MessageOf(absl::StrCat(R"({"a":)", a, R"(,"b":)",
                                   Entry("F32", "[1]", "[6,10]"), "}"),
                      10),
            "no tensor covers the 2 bytes before tensor b");
}

TEST(SafetensorsHeaderTest, HoldsAgainstEveryTruncationAndEveryFlippedBit) {
  const std::string whole =
      FileOf(absl::StrCat(R"({"__metadata__":{"format":"pt"},"a.weight":)",
                          Entry("F32", "[2,3]", "[0,24]"), R"(,"b.bias":)",
                          Entry("F16", "[4]", "[24,32]"), "}  "),
             32);
  ASSERT_TRUE(ParseSafetensorsHeader(whole).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    // An exact copy, so that a sanitizer sees a read past its end.
    const std::string cut(whole.data(), length);
    EXPECT_FALSE(ParseSafetensorsHeader(cut).ok()) << "cut to " << length;
  }
  int accepted = 0;
  for (size_t bit = 0; bit < 8 * (whole.size() - 32); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto header = ParseSafetensorsHeader(flipped);
    if (!header.ok()) continue;
    ++accepted;
    for (const auto& [name, tensor] : header->tensors) {
      EXPECT_LE(tensor.begin + tensor.descriptor.bytes(), flipped.size())
          << "bit " << bit << ", tensor " << name;
    }
  }
  // Letters of names, of the metadata, F16 for BF16 and the like: the header is
  // another one, and sound. A checkpoint's manifest has its hash.
  EXPECT_GT(accepted, 0);
  std::cout << "a header of " << whole.size() - 32 << " bytes: " << whole.size()
            << " truncations, all seen; " << 8 * (whole.size() - 32)
            << " flipped bits, "
            << 8 * (whole.size() - 32) - static_cast<size_t>(accepted)
            << " seen by the header alone, none read past its end\n";
}

}  // namespace
}  // namespace stagecoach::checkpoint

#include "stage_worker/checkpoint/safetensors.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/safetensors_writer.h"

namespace stagecoach::checkpoint {
namespace {

TensorDescriptor Describe(DType dtype, std::vector<int64_t> shape) {
  TensorDescriptor descriptor;
  descriptor.dtype = dtype;
  descriptor.shape = std::move(shape);
  return descriptor;
}

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest()
      : folder_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  void WriteText(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::binary) << text;
  }

  std::string ReadText(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(Path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  // A file of float32 tensors of one dimension, filled with their name's first
  // letter as a number.
  void WriteFloats(const std::string& name,
                   const std::vector<std::string>& tensors) {
    std::vector<std::vector<float>> values;
    std::vector<TensorToWrite> to_write;
    for (const std::string& tensor : tensors) {
      values.emplace_back(2, static_cast<float>(tensor[0]));
      to_write.push_back(
          {tensor, Describe(DType::kFloat32, {2}), values.back().data()});
    }
    ASSERT_TRUE(WriteSafetensors(Path(name), to_write, {}).ok());
  }

  void WriteIndex(const nlohmann::json& weight_map) {
    WriteText("model.safetensors.index.json",
              nlohmann::json({{"metadata", {{"total_size", 16}}},
                              {"weight_map", weight_map}})
                  .dump());
  }

  std::string OpenMessage() {
    const auto opened = SafetensorsFolder::Open(folder_);
    EXPECT_FALSE(opened.ok());
    return std::string(opened.status().message());
  }

  const std::string folder_;
};

TEST_F(SafetensorsTest, WritesWhatItReads) {
  const std::vector<float> floats = {1.5F, -0.0F, 3e-40F, NAN};
  const std::vector<int64_t> integers = {1, -2};
  const std::vector<uint8_t> bytes = {7, 8, 9};
  const auto digest =
      WriteSafetensors(Path("x.safetensors"),
                       {{"u", Describe(DType::kUInt8, {3}), bytes.data()},
                        {"f", Describe(DType::kFloat32, {2, 2}), floats.data()},
                        {"i", Describe(DType::kInt64, {2}), integers.data()},
                        {"e", Describe(DType::kFloat32, {0}), nullptr}},
                       {{"format", "pt"}});
  ASSERT_TRUE(digest.ok()) << digest.status();
  const auto file = SafetensorsFile::Open(Path("x.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->header().metadata.at("format"), "pt");
  const auto same = [&](const std::string& name, const void* data) {
    const auto tensor = (*file)->Find(name);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(std::memcmp(tensor->data, data, tensor->descriptor.bytes()), 0);
  };
  same("f", floats.data());
  same("i", integers.data());
  same("u", bytes.data());
  EXPECT_EQ((*file)->Find("g").status(),
            absl::NotFoundError(absl::StrCat("tensor g is missing in ",
                                             Path("x.safetensors"))));
  const auto found = DigestFile(Path("x.safetensors"));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->bytes, digest->bytes);
  EXPECT_EQ(found->sha256, digest->sha256);
}

// The bytes of Hugging Face's safetensors 0.8 for the same tensors.
TEST_F(SafetensorsTest, WritesTheBytesOfTheReferenceImplementation) {
  const float one = 1;
  const uint16_t half = 0x3C00;
  ASSERT_TRUE(WriteSafetensors(Path("x"),
                               {{"a", Describe(DType::kFloat16, {1}), &half},
                                {"z", Describe(DType::kFloat32, {1, 1}), &one},
                                {"b", Describe(DType::kFloat32, {}), &one}},
                               {{"format", "pt"}})
                  .ok());
  const std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("z":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"F16","shape":[1],"data_offsets":[8,10]}})";
  const size_t padded = (header.size() + 7) / 8 * 8;
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(padded);
  expected += header + std::string(padded - header.size(), ' ');
  expected += std::string("\0\0\x80\x3F\0\0\x80\x3F\0\x3C", 10);
  EXPECT_EQ(ReadText("x"), expected);
}

TEST_F(SafetensorsTest, RefusesToWriteANameTwice) {
  const float one = 1;
  const TensorToWrite tensor = {"a", Describe(DType::kFloat32, {}), &one};
  EXPECT_EQ(WriteSafetensors(Path("x"), {tensor, tensor}, {}).status(),
            absl::InvalidArgumentError("tensor a twice in one file"));
  EXPECT_FALSE(std::filesystem::exists(Path("x")));
}

TEST_F(SafetensorsTest, ReadsTensorsThatAreNotAligned) {
  const std::string header =
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
      R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  WriteText("model.safetensors", file + header + "\x09\x01\x02\x03\x04");
  const auto folder = SafetensorsFolder::Open(folder_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  float value = 0;
  ASSERT_TRUE(CopyAsFloat32(*(*folder)->Find("f", {1}), &value).ok());
  EXPECT_EQ(std::memcmp(&value, "\x01\x02\x03\x04", 4), 0);
}

TEST_F(SafetensorsTest, WidensEveryHalfExactly) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  StoredTensor tensor;
  tensor.descriptor = Describe(DType::kFloat16, {1 << 16});
  tensor.data = reinterpret_cast<const uint8_t*>(all.data());
  std::vector<float> wide(all.size());
  ASSERT_TRUE(CopyAsFloat32(tensor, wide.data()).ok());
  for (size_t i = 0; i < all.size(); ++i) {
    const int exponent = static_cast<int>((i >> 10) & 0x1F);
    const double mantissa = static_cast<double>(i & 0x3FF);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(wide[i]), mantissa != 0) << i;
      EXPECT_EQ(std::isinf(wide[i]), mantissa == 0) << i;
      continue;
    }
    const double magnitude = exponent == 0
                                 ? std::ldexp(mantissa, -24)
                                 : std::ldexp(mantissa + 1024, exponent - 25);
    EXPECT_EQ(static_cast<double>(wide[i]),
              (i & 0x8000) != 0 ? -magnitude : magnitude)
        << i;
  }
  tensor.descriptor.dtype = DType::kBFloat16;
  ASSERT_TRUE(CopyAsFloat32(tensor, wide.data()).ok());
  for (size_t i = 0; i < all.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &wide[i], sizeof(bits));
    EXPECT_EQ(bits, static_cast<uint32_t>(i) << 16);
  }
}

TEST_F(SafetensorsTest, RefusesIntegersAsWeights) {
  StoredTensor tensor;
  tensor.descriptor = Describe(DType::kInt64, {1});
  float value = 0;
  EXPECT_EQ(CopyAsFloat32(tensor, &value),
            absl::InvalidArgumentError("int64[1] cannot be a weight; float32, "
                                       "bfloat16 and float16 can"));
}

TEST_F(SafetensorsTest, AnIndexNamesTheFilesAndNoOthersAreRead) {
  WriteFloats("one.safetensors", {"a", "b"});
  WriteFloats("two.safetensors", {"c"});
  WriteText("model-00003-of-00002.safetensors", "no safetensors at all");
  WriteIndex({{"a", "one.safetensors"},
              {"b", "one.safetensors"},
              {"c", "two.safetensors"}});
  const auto folder = SafetensorsFolder::Open(folder_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->names(), (std::vector<std::string>{"a", "b", "c"}));
  float values[2] = {};
  ASSERT_TRUE(CopyAsFloat32(*(*folder)->Find("c", {2}), values).ok());
  EXPECT_EQ(values[1], 'c');
}

TEST_F(SafetensorsTest, ASingleFileIsPreferredToAnIndex) {
  WriteFloats("model.safetensors", {"a"});
  WriteIndex({{"b", "absent.safetensors"}});
  const auto folder = SafetensorsFolder::Open(folder_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_TRUE((*folder)->Has("a"));
}

TEST_F(SafetensorsTest, NamesTensorAndFileOfWhatDoesNotFit) {
  WriteFloats("model.safetensors", {"a", "b"});
  const auto folder = SafetensorsFolder::Open(folder_);
  ASSERT_TRUE(folder.ok());
  const std::string file = Path("model.safetensors");
  EXPECT_EQ((*folder)->Find("c", {2}).status(),
            absl::NotFoundError(absl::StrCat("tensor c is missing in ", file)));
  EXPECT_EQ(
      (*folder)->Find("a", {2, 1}).status(),
      absl::InvalidArgumentError(absl::StrCat(
          "tensor a in ", file, ": its shape is [2], the model's [2, 1]")));
  EXPECT_EQ((*folder)->CheckNoSurplus({"a"}),
            absl::InvalidArgumentError(absl::StrCat(
                "tensor b in ", file, ": the model has no such parameter")));
  EXPECT_TRUE((*folder)->CheckNoSurplus({"a", "b", "c"}).ok());
}

TEST_F(SafetensorsTest, SaysWhichFolderHoldsNoWeights) {
  EXPECT_EQ(
      SafetensorsFolder::Open(folder_).status(),
      absl::NotFoundError(absl::StrCat("weights: ", folder_,
                                       " holds neither model.safetensors nor "
                                       "model.safetensors.index.json")));
}

TEST_F(SafetensorsTest, NamesFileAndTensorOfATruncatedFile) {
  WriteFloats("model.safetensors", {"a", "b"});
  std::filesystem::resize_file(
      Path("model.safetensors"),
      std::filesystem::file_size(Path("model.safetensors")) - 1);
  const std::string message = OpenMessage();
  EXPECT_TRUE(absl::StartsWith(
      message, absl::StrCat("weights ", Path("model.safetensors"),
                            ": tensor b: truncated: ")))
      << message;
}

TEST_F(SafetensorsTest, RefusesAnIndexThatDoesNotFitItsFiles) {
  WriteFloats("one.safetensors", {"a", "b"});
  const std::string index =
      absl::StrCat("weights index ", Path("model.safetensors.index.json"));
  WriteIndex({{"a", "one.safetensors"}});
  EXPECT_EQ(OpenMessage(),
            absl::StrCat("tensor b in ", Path("one.safetensors"),
                         ": the index ", Path("model.safetensors.index.json"),
                         " does not place it there"));
  WriteIndex({{"a", "one.safetensors"},
              {"b", "one.safetensors"},
              {"c", "one.safetensors"}});
  EXPECT_EQ(OpenMessage(), absl::StrCat(index, ": tensor c is missing in ",
                                        Path("one.safetensors")));
  WriteIndex({{"a", "two.safetensors"}});
  EXPECT_EQ(OpenMessage(), absl::StrCat("weights ", Path("two.safetensors"),
                                        ": No such file or directory"));
  for (const char* name : {"", "..", "../one.safetensors", "/etc/passwd"}) {
    WriteIndex({{"a", name}});
    EXPECT_EQ(OpenMessage(), absl::StrCat(index, ": the file of tensor a, \"",
                                          name, "\", is no plain file name"));
  }
  WriteIndex(nlohmann::json::array());
  EXPECT_EQ(OpenMessage(), absl::StrCat(index,
                                        ": it has no object "
                                        "\"weight_map\""));
  WriteIndex({{"a", 1}});
  EXPECT_EQ(OpenMessage(),
            absl::StrCat(index, ": the file of tensor a is no string"));
  WriteText("model.safetensors.index.json",
            R"({"weight_map":{"a":"x","a":"y"}})");
  EXPECT_EQ(OpenMessage(), absl::StrCat(index, ": the key \"a\" stands twice"));
}

TEST_F(SafetensorsTest, ATensorInTwoFilesIsRefused) {
  WriteFloats("one.safetensors", {"a"});
  WriteFloats("two.safetensors", {"a", "b"});
  WriteIndex({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  EXPECT_TRUE(absl::StartsWith(
      OpenMessage(),
      absl::StrCat("tensor a in ", Path("two.safetensors"), ": the index")));
}

}  // namespace
}  // namespace stagecoach::checkpoint

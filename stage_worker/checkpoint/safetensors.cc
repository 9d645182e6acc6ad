#include "stage_worker/checkpoint/safetensors.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/strict_json.h"
#include "stage_worker/data/mapped_file.h"

namespace stagecoach::checkpoint {
namespace {

using nlohmann::json;
using worker::MappedFile;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr int64_t kMostIndexBytes = 100'000'000;

absl::Status Missing(const std::string& name, const std::string& file) {
  return absl::NotFoundError(
      absl::StrCat("tensor ", name, " is missing in ", file));
}

absl::Status Surplus(const std::string& name, const std::string& file,
                     absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", name, " in ", file, ": ", why));
}

// Tensor -> file name. A name that could lead out of the folder is refused.
absl::StatusOr<std::map<std::string, std::string>> ParseIndex(
    absl::string_view text) {
  SC_ASSIGN_OR_RETURN(const json document, ParseStrictJson(text));
  if (!document.is_object() || !document.contains("weight_map") ||
      !document["weight_map"].is_object()) {
    return absl::InvalidArgumentError("it has no object \"weight_map\"");
  }
  std::map<std::string, std::string> files;
  for (const auto& item : document["weight_map"].items()) {
    if (!item.value().is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the file of tensor ", item.key(), " is no string"));
    }
    const std::string file = item.value().get<std::string>();
    if (file.empty() || file == "." || file == ".." ||
        file.find('/') != std::string::npos ||
        file.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("the file of tensor ", item.key(), ", \"", file,
                       "\", is no plain file name"));
    }
    files[item.key()] = file;
  }
  return files;
}

float FromBFloat16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

float FromFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  uint32_t exponent = (bits >> 10) & 0x1Fu;
  uint32_t mantissa = bits & 0x3FFu;
  uint32_t wide = sign;
  if (exponent == 0x1F) {  // infinity and NaN
    wide |= 0x7F800000u | (mantissa << 13);
  } else if (exponent != 0) {
    wide |= ((exponent + 112) << 23) | (mantissa << 13);
  } else if (mantissa != 0) {  // subnormal there, normal here
    exponent = 113;
    while ((mantissa & 0x400u) == 0) {
      mantissa <<= 1;
      --exponent;
    }
    wide |= (exponent << 23) | ((mantissa & 0x3FFu) << 13);
  }
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

template <float (*kConvert)(uint16_t)>
void ConvertAll(const uint8_t* data, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, data + 2 * i, sizeof(bits));
    out[i] = kConvert(bits);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path,
                                 std::unique_ptr<MappedFile> bytes,
                                 SafetensorsHeader header)
    : path_(std::move(path)),
      bytes_(std::move(bytes)),
      header_(std::move(header)) {}

SafetensorsFile::~SafetensorsFile() = default;

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path) {
  SC_ASSIGN_OR_RETURN(auto bytes, MappedFile::Open(path, "weights"));
  auto header = ParseSafetensorsHeader(
      absl::string_view(reinterpret_cast<const char*>(bytes->data()),
                        static_cast<size_t>(bytes->size_bytes())));
  if (!header.ok()) {
    return Annotate(header.status(), absl::StrCat("weights ", path));
  }
  return std::unique_ptr<SafetensorsFile>(
      new SafetensorsFile(path, std::move(bytes), *std::move(header)));
}

absl::StatusOr<StoredTensor> SafetensorsFile::Find(
    const std::string& name) const {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) return Missing(name, path_);
  StoredTensor tensor;
  tensor.descriptor = found->second.descriptor;
  tensor.data = bytes_->data() + found->second.begin;
  return tensor;
}

SafetensorsFolder::SafetensorsFolder(std::string folder)
    : folder_(std::move(folder)) {}

absl::StatusOr<std::unique_ptr<SafetensorsFolder>> SafetensorsFolder::Open(
    const std::string& folder) {
  std::unique_ptr<SafetensorsFolder> opened(new SafetensorsFolder(folder));
  auto single = SafetensorsFile::Open(absl::StrCat(folder, "/", kSingleFile));
  if (single.ok()) {
    SC_RETURN_IF_ERROR(opened->OpenSingle(*std::move(single)));
    return opened;
  }
  if (!absl::IsNotFound(single.status())) return single.status();
  SC_RETURN_IF_ERROR(opened->OpenIndex(absl::StrCat(folder, "/", kIndexFile)));
  return opened;
}

absl::Status SafetensorsFolder::OpenSingle(
    std::unique_ptr<SafetensorsFile> file) {
  for (const auto& [name, tensor] : file->header().tensors) {
    tensors_[name] = file.get();
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status SafetensorsFolder::OpenIndex(const std::string& path) {
  auto text = ReadFile(path, kMostIndexBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat("weights: ", folder_,
                                            " holds neither ", kSingleFile,
                                            " nor ", kIndexFile));
  }
  if (!text.ok()) return text.status();
  auto index = ParseIndex(*text);
  if (!index.ok()) {
    return Annotate(index.status(), absl::StrCat("weights index ", path));
  }
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [name, file_name] : *index) {
    const SafetensorsFile*& file = opened[file_name];
    if (file == nullptr) {
      SC_ASSIGN_OR_RETURN(auto next, SafetensorsFile::Open(absl::StrCat(
                                         folder_, "/", file_name)));
      file = next.get();
      files_.push_back(std::move(next));
    }
    if (file->header().tensors.count(name) == 0) {
      return Annotate(Missing(name, file->path()),
                      absl::StrCat("weights index ", path));
    }
    tensors_[name] = file;
  }
  for (const auto& file : files_) {
    for (const auto& [name, tensor] : file->header().tensors) {
      const auto found = tensors_.find(name);
      if (found == tensors_.end() || found->second != file.get()) {
        return Surplus(
            name, file->path(),
            absl::StrCat("the index ", path, " does not place it there"));
      }
    }
  }
  return absl::OkStatus();
}

bool SafetensorsFolder::Has(const std::string& name) const {
  return tensors_.count(name) != 0;
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : tensors_) names.push_back(name);
  return names;
}

absl::StatusOr<StoredTensor> SafetensorsFolder::Find(
    const std::string& name, const std::vector<int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return Missing(name, files_.size() == 1 ? files_[0]->path() : folder_);
  }
  SC_ASSIGN_OR_RETURN(StoredTensor tensor, found->second->Find(name));
  if (tensor.descriptor.shape != shape) {
    return Surplus(
        name, found->second->path(),
        absl::StrCat("its shape is [",
                     absl::StrJoin(tensor.descriptor.shape, ", "),
                     "], the model's [", absl::StrJoin(shape, ", "), "]"));
  }
  return tensor;
}

absl::Status SafetensorsFolder::CheckNoSurplus(
    const std::set<std::string>& expected) const {
  for (const auto& [name, file] : tensors_) {
    if (expected.count(name) != 0) continue;
    return Surplus(name, file->path(), "the model has no such parameter");
  }
  return absl::OkStatus();
}

absl::Status CopyAsFloat32(const StoredTensor& tensor, float* out) {
  const int64_t elements = tensor.descriptor.elements();
  switch (tensor.descriptor.dtype) {
    case DType::kFloat32:
      if (elements > 0) {
        std::memcpy(out, tensor.data, tensor.descriptor.bytes());
      }
      return absl::OkStatus();
    case DType::kBFloat16:
      ConvertAll<FromBFloat16>(tensor.data, elements, out);
      return absl::OkStatus();
    case DType::kFloat16:
      ConvertAll<FromFloat16>(tensor.data, elements, out);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(tensor.descriptor.ToString(),
                       " cannot be a weight; float32, bfloat16 and float16 "
                       "can"));
  }
}

}  // namespace stagecoach::checkpoint

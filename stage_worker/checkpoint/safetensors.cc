#include "stage_worker/checkpoint/safetensors.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "stage_worker/checkpoint/index.h"
#include "stage_worker/data/mapped_file.h"

namespace stagecoach::checkpoint {
namespace {

using worker::MappedFile;

constexpr char kSingleFile[] = "model.safetensors";
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
    SC_RETURN_IF_ERROR(opened->Add(*std::move(single)));
    return opened;
  }
  if (!absl::IsNotFound(single.status())) return single.status();
  SC_RETURN_IF_ERROR(opened->OpenIndex(absl::StrCat(folder, "/", kIndexFile)));
  return opened;
}

absl::StatusOr<std::unique_ptr<SafetensorsFolder>> SafetensorsFolder::OpenFiles(
    const std::string& folder, const std::vector<std::string>& files) {
  std::unique_ptr<SafetensorsFolder> opened(new SafetensorsFolder(folder));
  for (const std::string& name : files) {
    SC_ASSIGN_OR_RETURN(auto file,
                        SafetensorsFile::Open(absl::StrCat(folder, "/", name)));
    SC_RETURN_IF_ERROR(opened->Add(std::move(file)));
  }
  return opened;
}

absl::Status SafetensorsFolder::Add(std::unique_ptr<SafetensorsFile> file) {
  for (const auto& [name, tensor] : file->header().tensors) {
    const auto [place, added] = tensors_.emplace(name, file.get());
    if (!added) {
      return Surplus(name, file->path(),
                     absl::StrCat("it is also in ", place->second->path()));
    }
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
  auto index = IndexFromJson(*text);
  if (!index.ok()) {
    return Annotate(index.status(), absl::StrCat("weights index ", path));
  }
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [name, file_name] : index->files) {
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

std::string SafetensorsFolder::FileOf(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return "";
  return found->second->path().substr(folder_.size() + 1);
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : tensors_) names.push_back(name);
  return names;
}

absl::StatusOr<StoredTensor> SafetensorsFolder::Find(
    const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second->Find(name);
  return Missing(name, files_.size() == 1 ? files_[0]->path() : folder_);
}

absl::StatusOr<StoredTensor> SafetensorsFolder::Find(
    const std::string& name, const std::vector<int64_t>& shape) const {
  SC_ASSIGN_OR_RETURN(StoredTensor tensor, Find(name));
  if (tensor.descriptor.shape != shape) {
    return Surplus(
        name, tensors_.at(name)->path(),
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

#include "stage_worker/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/safetensors_dtype.h"

namespace stagecoach::checkpoint {
namespace {

// Keeps the order in which keys are added: that of the data.
using nlohmann::ordered_json;

constexpr size_t kHeaderAlignment = 8;
constexpr char kMetadata[] = "__metadata__";

absl::Status CheckTensors(const std::vector<TensorToWrite>& tensors) {
  std::set<std::string> names;
  for (const TensorToWrite& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == kMetadata) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", tensor.name, "\" cannot be a tensor's name"));
    }
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, " twice in one file"));
    }
    if (!tensor.descriptor.IsValid()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", tensor.name, " is ", tensor.descriptor.ToString()));
    }
  }
  return absl::OkStatus();
}

std::string Header(const std::vector<TensorToWrite>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    ordered_json& entry = header[tensor.name];
    entry["dtype"] = kSafetensorsDTypes[RankOf(tensor.descriptor.dtype)].name;
    entry["shape"] = tensor.descriptor.shape;
    const uint64_t end = offset + tensor.descriptor.bytes();
    entry["data_offsets"] = {offset, end};
    offset = end;
  }
  std::string text =
      header.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  const size_t padded = (text.size() + kHeaderAlignment - 1) /
                        kHeaderAlignment * kHeaderAlignment;
  text.resize(padded, ' ');
  return text;
}

std::string LittleEndian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(value & 0xFFu));
    value >>= 8;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<FileDigest> WriteSafetensors(
    const std::string& path, std::vector<TensorToWrite> tensors,
    const std::map<std::string, std::string>& metadata) {
  SC_RETURN_IF_ERROR(CheckTensors(tensors));
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorToWrite& a, const TensorToWrite& b) {
              const size_t rank_a = RankOf(a.descriptor.dtype);
              const size_t rank_b = RankOf(b.descriptor.dtype);
              if (rank_a != rank_b) return rank_a > rank_b;
              return a.name < b.name;
            });
  const std::string header = Header(tensors, metadata);
  SC_ASSIGN_OR_RETURN(const auto file, DurableFile::Create(path));
  SC_RETURN_IF_ERROR(file->Write(LittleEndian(header.size())));
  SC_RETURN_IF_ERROR(file->Write(header));
  for (const TensorToWrite& tensor : tensors) {
    SC_RETURN_IF_ERROR(file->Write(tensor.data, tensor.descriptor.bytes()));
  }
  return file->Finish();
}

}  // namespace stagecoach::checkpoint

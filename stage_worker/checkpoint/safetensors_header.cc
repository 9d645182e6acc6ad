#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/safetensors.h"
#include "stage_worker/checkpoint/safetensors_dtype.h"
#include "stage_worker/checkpoint/strict_json.h"

namespace stagecoach::checkpoint {
namespace {

using nlohmann::json;

constexpr uint64_t kPrefixBytes = 8;
// The bound of the format's own implementation.
constexpr uint64_t kMostHeaderBytes = 100'000'000;

absl::Status Refused(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = kPrefixBytes; i > 0; --i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

absl::StatusOr<uint64_t> HeaderBytes(absl::string_view file) {
  if (file.size() < kPrefixBytes) {
    return Refused(absl::StrCat("truncated: ", file.size(),
                                " bytes, the header's length takes 8"));
  }
  const uint64_t bytes = LittleEndian(file);
  if (bytes > kMostHeaderBytes) {
    return Refused(absl::StrCat("its header claims ", bytes,
                                " bytes, more than any real one (",
                                kMostHeaderBytes, ")"));
  }
  if (bytes > file.size() - kPrefixBytes) {
    return Refused(absl::StrCat("truncated: its header has ", bytes,
                                " bytes, the file ", file.size()));
  }
  return bytes;
}

absl::StatusOr<uint64_t> Unsigned(const json& value, const char* what) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number <= uint64_t{std::numeric_limits<int64_t>::max()}) return number;
  }
  return Refused(absl::StrCat(what, " is no list of sizes"));
}

absl::StatusOr<DType> ParseDType(const json& value) {
  if (!value.is_string()) return Refused("dtype is no string");
  const std::string& name = value.get_ref<const std::string&>();
  const std::optional<DType> dtype = DTypeOf(name);
  if (!dtype) return Refused(absl::StrCat("unknown dtype \"", name, "\""));
  return *dtype;
}

absl::StatusOr<TensorDescriptor> ParseDescriptor(const json& entry) {
  TensorDescriptor descriptor;
  SC_ASSIGN_OR_RETURN(descriptor.dtype, ParseDType(entry.at("dtype")));
  const json& shape = entry.at("shape");
  if (!shape.is_array()) return Refused("shape is no list of sizes");
  for (const json& size : shape) {
    SC_ASSIGN_OR_RETURN(const uint64_t number, Unsigned(size, "shape"));
    descriptor.shape.push_back(static_cast<int64_t>(number));
  }
  if (!descriptor.IsValid()) {
    return Refused(absl::StrCat("impossible shape ", descriptor.ToString()));
  }
  return descriptor;
}

absl::Status CheckKeys(const json& entry) {
  if (!entry.is_object()) return Refused("its entry is no object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) return Refused(absl::StrCat(key, " is missing"));
  }
  for (const auto& item : entry.items()) {
    if (item.key() != "dtype" && item.key() != "shape" &&
        item.key() != "data_offsets") {
      return Refused(absl::StrCat("unknown key \"", item.key(), "\""));
    }
  }
  return absl::OkStatus();
}

// `data_begin`, `data_end`: where the tensors lie in the file.
absl::StatusOr<SafetensorsHeader::Tensor> ParseTensor(const json& entry,
                                                      uint64_t data_begin,
                                                      uint64_t data_end) {
  SC_RETURN_IF_ERROR(CheckKeys(entry));
  SafetensorsHeader::Tensor tensor;
  SC_ASSIGN_OR_RETURN(tensor.descriptor, ParseDescriptor(entry));
  const json& offsets = entry.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) {
    return Refused("data_offsets is no pair");
  }
  SC_ASSIGN_OR_RETURN(const uint64_t begin,
                      Unsigned(offsets[0], "data_offsets"));
  SC_ASSIGN_OR_RETURN(const uint64_t end, Unsigned(offsets[1], "data_offsets"));
  if (begin > end || end - begin != tensor.descriptor.bytes()) {
    return Refused(absl::StrCat("data_offsets ", begin, " to ", end, ", but ",
                                tensor.descriptor.ToString(), " has ",
                                tensor.descriptor.bytes(), " bytes"));
  }
  if (end > data_end - data_begin) {
    return Refused(absl::StrCat("truncated: it ends at byte ", data_begin + end,
                                ", the file at byte ", data_end));
  }
  tensor.begin = data_begin + begin;
  return tensor;
}

absl::StatusOr<std::map<std::string, std::string>> ParseMetadata(
    const json& value) {
  if (!value.is_object()) return Refused("__metadata__ is no object");
  std::map<std::string, std::string> metadata;
  for (const auto& item : value.items()) {
    if (!item.value().is_string()) {
      return Refused(absl::StrCat("__metadata__: the value of \"", item.key(),
                                  "\" is no string"));
    }
    metadata[item.key()] = item.value().get<std::string>();
  }
  return metadata;
}

// The tensors cover the data: none overlaps another, no byte is left over.
absl::Status CheckCoverage(const SafetensorsHeader& header, uint64_t data_begin,
                           uint64_t data_end) {
  using Entry = std::pair<const std::string, SafetensorsHeader::Tensor>;
  std::vector<const Entry*> order;
  for (const Entry& entry : header.tensors) order.push_back(&entry);
  const auto end_of = [](const Entry* entry) {
    return entry->second.begin + entry->second.descriptor.bytes();
  };
  std::sort(order.begin(), order.end(), [&](const Entry* a, const Entry* b) {
    if (a->second.begin != b->second.begin) {
      return a->second.begin < b->second.begin;
    }
    return end_of(a) < end_of(b);
  });
  uint64_t covered = data_begin;
  const Entry* before = nullptr;
  for (const Entry* entry : order) {
    if (entry->second.begin < covered) {
      return Refused(absl::StrCat("tensor ", entry->first, " overlaps tensor ",
                                  before->first));
    }
    if (entry->second.begin > covered) {
      return Refused(absl::StrCat("no tensor covers the ",
                                  entry->second.begin - covered,
                                  " bytes before tensor ", entry->first));
    }
    covered = end_of(entry);
    before = entry;
  }
  if (covered == data_end) return absl::OkStatus();
  return Refused(
      absl::StrCat(data_end - covered, " bytes behind the last tensor's end"));
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    absl::string_view file) {
  SC_ASSIGN_OR_RETURN(const uint64_t bytes, HeaderBytes(file));
  const absl::string_view text = file.substr(kPrefixBytes, bytes);
  if (text.empty() || text.front() != '{') {
    return Refused("its header does not begin with {");
  }
  auto document = ParseStrictJson(text);
  if (!document.ok()) return Annotate(document.status(), "its header");
  const uint64_t data_begin = kPrefixBytes + bytes;
  SafetensorsHeader header;
  for (const auto& item : document->items()) {
    if (item.key() == "__metadata__") {
      SC_ASSIGN_OR_RETURN(header.metadata, ParseMetadata(item.value()));
      continue;
    }
    auto tensor = ParseTensor(item.value(), data_begin, file.size());
    if (!tensor.ok()) {
      return Annotate(tensor.status(), absl::StrCat("tensor ", item.key()));
    }
    header.tensors[item.key()] = *std::move(tensor);
  }
  SC_RETURN_IF_ERROR(CheckCoverage(header, data_begin, file.size()));
  return header;
}

}  // namespace stagecoach::checkpoint

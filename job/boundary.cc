#include "job/boundary.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "job/model_shape.h"

namespace stagecoach::job {
namespace {

constexpr int64_t kMaxSize = 1 << 20;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                            DType::kFloat16, DType::kInt64,   DType::kInt32,
                            DType::kUInt8,   DType::kBool};

bool ReadType(absl::string_view name, DType* type) {
  for (const DType known : kTypes) {
    if (name != DTypeName(known)) continue;
    *type = known;
    return true;
  }
  return false;
}

TensorDescriptor WithRows(int64_t rows, TensorDescriptor row) {
  row.shape.insert(row.shape.begin(), rows);
  return row;
}

}  // namespace

size_t Boundary::OffsetOf(size_t tensor) const {
  size_t offset = 0;
  for (size_t i = 0; i < tensor; ++i)
    offset += AlignedBytes(tensors[i].bytes());
  return offset;
}

int64_t Boundary::bytes() const {
  if (tensors.empty()) return 0;
  return static_cast<int64_t>(OffsetOf(tensors.size() - 1) +
                              tensors.back().bytes());
}

std::string Boundary::ToString() const {
  return absl::StrJoin(tensors, ", ",
                       [](std::string* out, const TensorDescriptor& tensor) {
                         absl::StrAppend(out, tensor.ToString());
                       });
}

Boundary BoundaryOf(const JobSpec& spec) {
  Boundary boundary;
  const int64_t rows = spec.training.microbatch_size;
  for (const std::string& text : spec.model.boundaries) {
    boundary.tensors.push_back(WithRows(rows, *ParseBoundaryRow(text)));
  }
  if (!boundary.tensors.empty()) return boundary;
  TensorDescriptor row;
  row.dtype = ComputeTypeOf(spec.training.precision);
  row.shape = spec.model.boundary;
  if (row.shape.empty()) {
    row.shape = {spec.data.sequence_length, spec.model.hidden};
  }
  boundary.tensors.push_back(WithRows(rows, row));
  return boundary;
}

absl::StatusOr<TensorDescriptor> ParseBoundaryRow(absl::string_view text) {
  const auto refuse = [text](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" ", why,
                     "; write a tensor as \"float32[128, 256]\", without its "
                     "rows"));
  };
  TensorDescriptor row;
  absl::string_view sizes = text;
  const size_t bracket = text.find('[');
  if (bracket == absl::string_view::npos || !absl::ConsumeSuffix(&sizes, "]")) {
    return refuse("has no sizes");
  }
  if (!ReadType(text.substr(0, bracket), &row.dtype)) {
    return refuse("begins with no type");
  }
  sizes.remove_prefix(bracket + 1);
  // A tensor of one number per row.
  if (sizes.empty()) return row;
  for (const absl::string_view part : absl::StrSplit(sizes, ',')) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 1 || size > kMaxSize) {
      return refuse(
          absl::StrCat("has a size that is not from 1 to ", kMaxSize));
    }
    row.shape.push_back(size);
  }
  return row;
}

}  // namespace stagecoach::job

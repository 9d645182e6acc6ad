#include "job/memory_proto.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace stagecoach::job {
namespace {

void ToProto(const CategoryBytes& bytes, v1::BytesByCategory* proto) {
  proto->set_total(bytes.total);
  for (const int64_t category : bytes.categories) {
    proto->add_categories(category);
  }
}

// Reads many figures; the first that cannot be read is told at the end.
class Reader {
 public:
  CategoryBytes Read(const v1::BytesByCategory& proto) {
    CategoryBytes bytes;
    bytes.total = proto.total();
    if (proto.categories_size() > kMemoryCategories) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("bytes of ", proto.categories_size(),
                       " categories; this build knows ", kMemoryCategories));
      return bytes;
    }
    for (int i = 0; i < proto.categories_size(); ++i) {
      bytes.categories[static_cast<size_t>(i)] = proto.categories(i);
    }
    return bytes;
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

void ToProto(const StageMemory& stage, v1::StageMemoryProfile* proto) {
  proto->set_stage(stage.stage.value());
  ToProto(stage.forward_peak, proto->mutable_forward_peak());
  ToProto(stage.retained, proto->mutable_retained());
  ToProto(stage.output, proto->mutable_output());
  proto->set_keeps_input(stage.keeps_input);
  ToProto(stage.backward_peak, proto->mutable_backward_peak());
  ToProto(stage.backward_output, proto->mutable_backward_output());
  proto->set_splits(stage.splits);
  ToProto(stage.backward_input_peak, proto->mutable_backward_input_peak());
  ToProto(stage.backward_input_output, proto->mutable_backward_input_output());
  ToProto(stage.kept_for_weight, proto->mutable_kept_for_weight());
  proto->set_keeps_input_for_weight(stage.keeps_input_for_weight);
  proto->set_keeps_gradient_for_weight(stage.keeps_gradient_for_weight);
  ToProto(stage.backward_weight_peak, proto->mutable_backward_weight_peak());
  ToProto(stage.evaluation_peak, proto->mutable_evaluation_peak());
  ToProto(stage.evaluation_output, proto->mutable_evaluation_output());
}

StageMemory FromProto(const v1::StageMemoryProfile& proto, Reader* reader) {
  StageMemory stage;
  stage.stage = StageIndex(proto.stage());
  stage.forward_peak = reader->Read(proto.forward_peak());
  stage.retained = reader->Read(proto.retained());
  stage.output = reader->Read(proto.output());
  stage.keeps_input = proto.keeps_input();
  stage.backward_peak = reader->Read(proto.backward_peak());
  stage.backward_output = reader->Read(proto.backward_output());
  stage.splits = proto.splits();
  stage.backward_input_peak = reader->Read(proto.backward_input_peak());
  stage.backward_input_output = reader->Read(proto.backward_input_output());
  stage.kept_for_weight = reader->Read(proto.kept_for_weight());
  stage.keeps_input_for_weight = proto.keeps_input_for_weight();
  stage.keeps_gradient_for_weight = proto.keeps_gradient_for_weight();
  stage.backward_weight_peak = reader->Read(proto.backward_weight_peak());
  stage.evaluation_peak = reader->Read(proto.evaluation_peak());
  stage.evaluation_output = reader->Read(proto.evaluation_output());
  return stage;
}

}  // namespace

void ToProto(const WorkerMemoryProfile& profile,
             v1::WorkerMemoryProfile* proto) {
  ToProto(profile.resident, proto->mutable_resident());
  ToProto(profile.norms_peak, proto->mutable_norms_peak());
  ToProto(profile.update_peak, proto->mutable_update_peak());
  proto->set_state_copy_bytes(profile.state_copy_bytes);
  proto->set_tied_gradient_bytes(profile.tied_gradient_bytes);
  for (const StageMemory& stage : profile.stages) {
    ToProto(stage, proto->add_stages());
  }
}

void ToProto(const MemoryInterval& interval, v1::MemoryInterval* proto) {
  ToProto(interval.low, proto->mutable_low());
  ToProto(interval.high, proto->mutable_high());
}

absl::StatusOr<WorkerMemoryProfile> FromProto(
    const v1::WorkerMemoryProfile& proto) {
  Reader reader;
  WorkerMemoryProfile profile;
  profile.resident = reader.Read(proto.resident());
  profile.norms_peak = reader.Read(proto.norms_peak());
  profile.update_peak = reader.Read(proto.update_peak());
  profile.state_copy_bytes = proto.state_copy_bytes();
  profile.tied_gradient_bytes = proto.tied_gradient_bytes();
  for (const v1::StageMemoryProfile& stage : proto.stages()) {
    profile.stages.push_back(FromProto(stage, &reader));
  }
  SC_RETURN_IF_ERROR(reader.status());
  return profile;
}

absl::StatusOr<MemoryInterval> FromProto(const v1::MemoryInterval& proto) {
  Reader reader;
  MemoryInterval interval;
  interval.low = reader.Read(proto.low());
  interval.high = reader.Read(proto.high());
  SC_RETURN_IF_ERROR(reader.status());
  return interval;
}

}  // namespace stagecoach::job

#include "stage_worker/profile_command.h"

#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "job/profile_proto.h"
#include "job/spec_proto.h"
#include "stage_worker/engine/model_profiler.h"

namespace stagecoach::worker {
namespace {

constexpr int64_t kMaxSpecBytes = 4 << 20;

absl::StatusOr<job::JobSpec> ReadSpec(const std::string& file) {
  SC_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kMaxSpecBytes));
  v1::JobSpec proto;
  if (!proto.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file,
                     " holds no serialized job spec; \"stagecoach plan "
                     "SPEC\" writes and reads it"));
  }
  return job::FromProto(proto);
}

}  // namespace

absl::StatusOr<std::string> ProfileAsJson(const PlacementParts& parts,
                                          const std::string& file,
                                          std::function<bool()> cancelled) {
  ProfilerOptions options;
  SC_ASSIGN_OR_RETURN(options.spec, ReadSpec(file));
  SC_ASSIGN_OR_RETURN(const std::unique_ptr<DataSource> data,
                      parts.data_factory(options.spec));
  options.data = data.get();
  options.engine_factory = parts.engine_factory;
  options.allocator = parts.allocator;
  options.clock = parts.clock;
  options.cancelled = std::move(cancelled);
  SC_ASSIGN_OR_RETURN(const job::ModelProfile profile, ProfileModel(options));
  v1::ModelProfile proto;
  job::ToProto(profile, &proto);
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(proto, &json);
  if (status.ok()) return json;
  return absl::InternalError(status.ToString());
}

}  // namespace stagecoach::worker

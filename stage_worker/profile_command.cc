#include "stage_worker/profile_command.h"

#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "job/plan.h"
#include "job/profile_proto.h"
#include "job/spec_proto.h"
#include "stage_worker/engine/memory_profiler.h"
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

// The stages of one worker of a plan.
std::vector<StageAssignment> StagesOf(const job::JobPlan& plan,
                                      WorkerIndex worker) {
  std::vector<StageAssignment> stages;
  for (const StageIndex stage : plan.schedule.StagesOf(worker)) {
    StageAssignment assignment;
    assignment.stage = stage;
    assignment.layers = plan.stages[stage.index()];
    assignment.first = plan.schedule.IsFirst(stage);
    assignment.last = plan.schedule.IsLast(stage);
    stages.push_back(assignment);
  }
  return stages;
}

// Builds one worker's stages after the other's: together they may be more than
// this machine has memory for.
absl::Status ProfileWorkers(const ProfilerOptions& options,
                            job::ModelProfile* profile) {
  SC_ASSIGN_OR_RETURN(const job::JobPlan plan,
                      job::PlanJob(options.spec, profile));
  std::vector<job::WorkerMemoryProfile> workers;
  for (int i = 0; i < plan.schedule.workers; ++i) {
    if (options.cancelled()) return absl::CancelledError("cancelled");
    EngineOptions engine;
    engine.spec = options.spec;
    engine.stages = StagesOf(plan, WorkerIndex(i));
    engine.data = options.data;
    engine.made_up_inputs = true;
    SC_ASSIGN_OR_RETURN(const std::unique_ptr<StageEngine> built,
                        options.engine_factory(engine));
    MemoryProfilerOptions memory;
    memory.engine = built.get();
    memory.spec = options.spec;
    memory.stages = engine.stages;
    memory.data = options.data;
    memory.allocator = options.allocator;
    SC_ASSIGN_OR_RETURN(job::WorkerMemoryProfile measured,
                        ProfileWorkerMemory(memory));
    workers.push_back(std::move(measured));
  }
  profile->workers = std::move(workers);
  return absl::OkStatus();
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
  SC_ASSIGN_OR_RETURN(job::ModelProfile profile, ProfileModel(options));
  if (parts.profile_memory) {
    SC_RETURN_IF_ERROR(ProfileWorkers(options, &profile));
  }
  v1::ModelProfile proto;
  job::ToProto(profile, &proto);
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(proto, &json);
  if (status.ok()) return json;
  return absl::InternalError(status.ToString());
}

}  // namespace stagecoach::worker

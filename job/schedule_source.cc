#include "job/schedule_source.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "base/suggest.h"
#include "schedule/formats/formats.h"
#include "schedule/generator.h"

namespace stagecoach::job {
namespace {

constexpr int64_t kMaxScheduleBytes = int64_t{1} << 30;

std::vector<std::string> KindsThatTrain() {
  std::vector<std::string> kinds;
  for (const schedule::Generator& generator : schedule::Generators()) {
    if (generator.trains) kinds.emplace_back(generator.kind);
  }
  return kinds;
}

std::string List(const std::vector<std::string>& kinds) {
  return absl::StrCat("\"", absl::StrJoin(kinds, "\", \""), "\"");
}

// One number that file and spec must agree on.
absl::Status SameNumber(const std::string& file, absl::string_view what,
                        int64_t in_file, absl::string_view key,
                        int64_t in_spec) {
  if (in_file == in_spec) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", file, "\" is for ", what, " = ", in_file,
                   ", the spec says ", in_spec, "; set ", key, " = ", in_file));
}

absl::StatusOr<schedule::Schedule> LoadSchedule(const JobSpec& spec) {
  const std::string& file = spec.pipeline.schedule;
  const absl::StatusOr<std::string> contents =
      ReadFile(file, kMaxScheduleBytes);
  if (!contents.ok()) {
    return absl::InvalidArgumentError(contents.status().message());
  }
  SC_ASSIGN_OR_RETURN(schedule::Schedule loaded,
                      schedule::ParseAny(*contents, file));
  SC_RETURN_IF_ERROR(SameNumber(file, "workers", loaded.workers,
                                "pipeline.workers", spec.pipeline.workers));
  SC_RETURN_IF_ERROR(SameNumber(
      file, "stages per worker", loaded.stages_per_worker,
      "pipeline.stages_per_worker", spec.pipeline.stages_per_worker));
  SC_RETURN_IF_ERROR(SameNumber(file, "microbatches", loaded.microbatches,
                                "training.microbatches",
                                spec.training.microbatches));
  if (loaded.lowered()) {
    SC_RETURN_IF_ERROR(SameNumber(file, "send budget", loaded.send_budget,
                                  "pipeline.send_budget",
                                  spec.pipeline.send_budget));
  }
  return loaded;
}

}  // namespace

bool IsScheduleFile(absl::string_view schedule) {
  return schedule.find_first_of("/.") != absl::string_view::npos;
}

bool IsAutoSchedule(absl::string_view schedule) { return schedule == "auto"; }

std::vector<int> StagesPerWorkerTried(const JobSpec& spec) {
  const PipelineSpec& pipeline = spec.pipeline;
  if (!pipeline.split.empty()) {
    return {static_cast<int>(pipeline.stages_per_worker)};
  }
  std::vector<int> tried = {1};
  for (int64_t v = 2; v <= pipeline.stages_per_worker &&
                      pipeline.workers * v <= spec.model.layers;
       ++v) {
    tried.push_back(static_cast<int>(v));
  }
  return tried;
}

absl::Status CheckScheduleKind(absl::string_view kind) {
  if (IsAutoSchedule(kind)) return absl::OkStatus();
  const schedule::Generator* generator = schedule::FindGenerator(kind);
  if (generator == nullptr) {
    std::vector<std::string> kinds = KindsThatTrain();
    kinds.emplace_back("auto");
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", kind, "\" is not one of ", List(kinds),
        ", nor a path (which has a \"/\" or \".\")", DidYouMean(kind, kinds)));
  }
  if (generator->trains) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", kind, "\" has no backward and trains nothing (it is ",
                   "for evaluation); take one of ", List(KindsThatTrain())));
}

absl::Status CheckStagesPerWorker(absl::string_view kind,
                                  int64_t stages_per_worker) {
  if (IsAutoSchedule(kind)) return absl::OkStatus();
  const schedule::Generator* generator = schedule::FindGenerator(kind);
  if (generator == nullptr) return CheckScheduleKind(kind);
  const int only = generator->only_stages_per_worker;
  if (only == 0 || only == stages_per_worker) return absl::OkStatus();
  std::vector<std::string> any;
  for (const schedule::Generator& other : schedule::Generators()) {
    if (other.trains && other.only_stages_per_worker == 0) {
      any.emplace_back(other.kind);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "schedule \"", kind, "\" has ", only, only == 1 ? " stage" : " stages",
      " per worker, not ", stages_per_worker, "; set it to ", only,
      any.empty() ? ""
                  : absl::StrCat(", or take pipeline.schedule = ",
                                 absl::StrJoin(any, " or "))));
}

absl::StatusOr<schedule::Schedule> SourceSchedule(const JobSpec& spec) {
  if (IsScheduleFile(spec.pipeline.schedule)) return LoadSchedule(spec);
  SC_RETURN_IF_ERROR(CheckScheduleKind(spec.pipeline.schedule));
  schedule::GenerateOptions options;
  options.workers = static_cast<int>(spec.pipeline.workers);
  options.stages_per_worker = static_cast<int>(spec.pipeline.stages_per_worker);
  options.microbatches = static_cast<int>(spec.training.microbatches);
  return schedule::Generate(spec.pipeline.schedule, options);
}

}  // namespace stagecoach::job

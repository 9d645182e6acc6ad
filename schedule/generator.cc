#include "schedule/generator.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/suggest.h"
#include "schedule/generators/generators.h"

namespace stagecoach::schedule {
namespace {

// A lowered list has up to eight actions per stage and microbatch.
constexpr int64_t kMaxChunks = kMaxActions / 8;

absl::Status UnknownKind(absl::string_view kind) {
  std::vector<std::string> known;
  for (const Generator& generator : Generators()) {
    known.emplace_back(generator.kind);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown schedule \"", kind, "\"", DidYouMean(kind, known),
                   " (known: ", absl::StrJoin(known, ", "), ")"));
}

absl::Status BelowOne(absl::string_view what, int value) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, "; it must be at least 1"));
}

// Options that only some kinds take.
absl::Status CheckExtras(const Generator& generator,
                         const GenerateOptions& options) {
  const auto check = [&generator](absl::string_view what, int value,
                                  bool taken) -> absl::Status {
    if (value == 0) return absl::OkStatus();
    if (value < 0) return BelowOne(what, value);
    if (taken) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule \"", generator.kind, "\" takes no ", what, "; leave it out"));
  };
  if (absl::Status status = check("max_in_flight", options.max_in_flight,
                                  generator.takes_max_in_flight);
      !status.ok()) {
    return status;
  }
  return check("group_size", options.group_size, generator.takes_group_size);
}

absl::Status CheckOptions(const Generator& generator,
                          const GenerateOptions& options) {
  if (options.workers < 1) return BelowOne("workers", options.workers);
  if (options.stages_per_worker < 1) {
    return BelowOne("stages per worker", options.stages_per_worker);
  }
  if (options.microbatches < 1) {
    return BelowOne("microbatches", options.microbatches);
  }
  const int only = generator.only_stages_per_worker;
  if (only != 0 && options.stages_per_worker != only) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule \"", generator.kind, "\" has ", only,
        only == 1 ? " stage" : " stages", " per worker, not ",
        options.stages_per_worker, "; use stages_per_worker = ", only));
  }
  if (absl::Status status = CheckExtras(generator, options); !status.ok()) {
    return status;
  }
  const int64_t stages = int64_t{options.workers} * options.stages_per_worker;
  if (options.workers > kMaxWorkers || stages > kMaxChunks ||
      stages * options.microbatches > kMaxChunks) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.workers, " workers with ", options.stages_per_worker,
        " stages each and ", options.microbatches,
        " microbatches are too many; the limits are ", kMaxWorkers,
        " workers and ", kMaxChunks, " stages times microbatches"));
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<Generator>& Generators() {
  static const auto* const table = new std::vector<Generator>{
      GPipe(),     OneForwardOneBackward(),
      Eager1F1B(), Interleaved(),
      LoopedBfs(), ZbH1(),
      ZbH2(),      Zbv(),
      VHalf(),     VMin(),
      DualPipeV(), ForwardOnly(),
  };
  return *table;
}

const Generator* FindGenerator(absl::string_view kind) {
  for (const Generator& generator : Generators()) {
    if (generator.kind == kind) return &generator;
  }
  return nullptr;
}

absl::StatusOr<Schedule> Generate(absl::string_view kind,
                                  const GenerateOptions& options) {
  const Generator* generator = FindGenerator(kind);
  if (generator == nullptr) return UnknownKind(kind);
  if (absl::Status status = CheckOptions(*generator, options); !status.ok()) {
    return status;
  }
  return generator->generate(options);
}

}  // namespace stagecoach::schedule

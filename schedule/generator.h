#ifndef STAGECOACH_SCHEDULE_GENERATOR_H_
#define STAGECOACH_SCHEDULE_GENERATOR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule {

struct GenerateOptions {
  int workers = 0;            // P >= 1
  int stages_per_worker = 1;  // V >= 1
  int microbatches = 0;       // M >= 1
  // For kinds that take them (see Generator); 0: the kind's own.
  int max_in_flight = 0;  // most microbatches in flight on a worker, >= 1
  int group_size = 0;     // microbatches that pass a chunk before the next one
  // As published where that does not add up a parameter's microbatches in
  // ascending order (gpipe, looped-bfs); other kinds are as published anyway.
  bool published_order = false;
};

// Makes placement and compute actions of one kind of schedule; lowering adds
// the rest. A generator is a pure function and accepts every P and M >= 1.
struct Generator {
  absl::string_view kind;
  absl::string_view description;  // one line for `--help`
  // The only V that the kind is defined for; 0 means any.
  int only_stages_per_worker = 0;
  bool trains = true;  // false: forward only
  bool takes_max_in_flight = false;
  bool takes_group_size = false;
  Schedule (*generate)(const GenerateOptions& options) = nullptr;
};

// All kinds, in the order in which help shows them.
const std::vector<Generator>& Generators();
const Generator* FindGenerator(absl::string_view kind);

// kInvalidArgument for an unknown kind ("did you mean"), P, V or M below 1, or
// a V that the kind does not have (the message says which V works).
absl::StatusOr<Schedule> Generate(absl::string_view kind,
                                  const GenerateOptions& options);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_GENERATOR_H_

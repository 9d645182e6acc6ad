#ifndef STAGECOACH_SCHEDULE_FORMATS_DRAW_SVG_H_
#define STAGECOACH_SCHEDULE_FORMATS_DRAW_SVG_H_

#include <string>

#include "absl/status/statusor.h"
#include "schedule/schedule.h"
#include "schedule/simulator.h"

namespace stagecoach::schedule {

struct SvgOptions {
  SimulateOptions simulate;
  int width = 1200;   // pixels
  std::string title;  // the schedule's kind and shape unless given
};

// The timeline as a picture: a row per worker, a box per compute action in its
// microbatch's colour, hatched where the worker waits, and below how many
// chunks each worker has in flight over time. A document of its own, without
// scripts, fonts or links. kInvalidArgument for more than 200,000 compute
// actions, else what Simulate returns.
absl::StatusOr<std::string> DrawSvg(const Schedule& schedule,
                                    const SvgOptions& options = {});

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_FORMATS_DRAW_SVG_H_

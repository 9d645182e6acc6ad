#ifndef STAGECOACH_SCHEDULE_FORMATS_TESTING_CHECK_PARSED_H_
#define STAGECOACH_SCHEDULE_FORMATS_TESTING_CHECK_PARSED_H_

#include "absl/status/statusor.h"
#include "schedule/schedule.h"

namespace stagecoach::schedule::testing {

// What must hold of whatever a parser returns, for fuzz targets; ends the
// process if it does not. An error says something; a schedule goes through
// every form unchanged, and verifier, lowering, simulator and timeline take it
// or refuse it, the simulator nothing that the verifier accepts.
void CheckParsed(const absl::StatusOr<Schedule>& parsed);

}  // namespace stagecoach::schedule::testing

#endif  // STAGECOACH_SCHEDULE_FORMATS_TESTING_CHECK_PARSED_H_

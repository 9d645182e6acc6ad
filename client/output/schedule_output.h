#ifndef STAGECOACH_CLIENT_OUTPUT_SCHEDULE_OUTPUT_H_
#define STAGECOACH_CLIENT_OUTPUT_SCHEDULE_OUTPUT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/output/json.h"
#include "schedule/formats/diff.h"
#include "schedule/schedule.h"
#include "schedule/simulator.h"
#include "schedule/verifier.h"

// What the schedule tools print, as JSON documents and as text. Workers are
// numbers here: a schedule knows no names. Pure functions.
namespace stagecoach::client {

// ok errors[] {kind workers[] actions[] message} peak_in_flight[]
// ascending_accumulation.
Json VerdictJson(const schedule::Verdict& verdict);
std::string VerdictText(const schedule::Schedule& schedule,
                        const schedule::Verdict& verdict);

// The same document for a file that is no schedule: one error, kind "parse".
schedule::Verdict UnreadableVerdict(absl::string_view message);

// makespan bubble_ratio workers[] {busy idle peak_in_flight}.
Json SimulationJson(const schedule::SimulateResult& result);
std::string SimulationText(const schedule::Schedule& schedule,
                           const schedule::SimulateResult& result);

// kind makespan workers[] {timeline[] {action start end}}.
Json TimelineJson(const schedule::Schedule& schedule,
                  const schedule::SimulateResult& result);

// equal header[] workers[] {worker position left right}: of each worker the
// first action that differs, null at the end of a list.
Json DifferenceJson(const schedule::ScheduleDifference& difference);
std::string DifferenceText(const schedule::ScheduleDifference& difference);

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_OUTPUT_SCHEDULE_OUTPUT_H_

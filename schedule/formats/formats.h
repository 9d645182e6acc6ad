#ifndef STAGECOACH_SCHEDULE_FORMATS_FORMATS_H_
#define STAGECOACH_SCHEDULE_FORMATS_FORMATS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedule/schedule.h"

namespace stagecoach::v1 {
class Schedule;
}  // namespace stagecoach::v1

namespace stagecoach::schedule {

// The readable form: a header line, placement, edges, one line of actions per
// worker. JSON and protobuf carry the same. Every Parse refuses what it does
// not know with "line:column: message"; nothing is guessed. Round trips are
// exact. Limits: 64 million actions, P <= 65536.
std::string ToText(const Schedule& schedule);
absl::StatusOr<Schedule> ParseText(absl::string_view text);

std::string ToJson(const Schedule& schedule);
absl::StatusOr<Schedule> ParseJson(absl::string_view text);

void ToProto(const Schedule& schedule, v1::Schedule* proto);
absl::StatusOr<Schedule> FromProto(const v1::Schedule& proto);
std::string ToProtoBytes(const Schedule& schedule);
absl::StatusOr<Schedule> ParseProtoBytes(absl::string_view bytes);

// Recognises the form by its first bytes (text header, '{', a digit, ',' or '('
// for PyTorch's CSV (pytorch_csv.h), else protobuf).
// `name` is the file's name for messages: "name:line:column: ...".
absl::StatusOr<Schedule> ParseAny(absl::string_view contents,
                                  absl::string_view name);

// The timeline as text for a terminal: one row per worker, one column per unit
// of time, each cell the microbatch of a forward or a backward; bubbles blank.
std::string DrawTimeline(const Schedule& schedule, int max_columns = 200);

}  // namespace stagecoach::schedule

#endif  // STAGECOACH_SCHEDULE_FORMATS_FORMATS_H_

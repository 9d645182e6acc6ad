// A timeline is simulated with F = I = W = 1 (B = 2):
//
//   w0 |F0 F1       B0 B0 B1 B1
//   w1 |   F0 B0 B0 F1 B1 B1

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedule/formats/formats.h"
#include "schedule/simulator.h"

namespace stagecoach::schedule {
namespace {

constexpr size_t kMaxChunkLetters = 26;

// "F3"; with several stages per worker "F3a", the letter naming the stage among
// the worker's.
std::string Label(const Schedule& schedule, const Action& action) {
  std::string label =
      absl::StrCat(ActionKindName(action.kind), action.microbatch.value());
  if (schedule.stages_per_worker == 1) return label;
  const std::vector<StageIndex> stages =
      schedule.StagesOf(schedule.WorkerOf(action.stage));
  const size_t chunk = static_cast<size_t>(
      std::find(stages.begin(), stages.end(), action.stage) - stages.begin());
  label += chunk < kMaxChunkLetters ? static_cast<char>('a' + chunk) : '+';
  return label;
}

size_t CellWidth(const Schedule& schedule) {
  const size_t letters = schedule.stages_per_worker == 1 ? 1 : 2;
  return absl::StrCat(schedule.microbatches - 1).size() + letters;
}

// One row without its name. `units` is how many columns are shown.
std::string Row(const Schedule& schedule,
                const std::vector<TimelineEntry>& entries, size_t units,
                size_t width) {
  std::string row(units * (width + 1), ' ');
  for (const TimelineEntry& entry : entries) {
    const size_t end = static_cast<size_t>(std::lround(entry.end));
    size_t unit = static_cast<size_t>(std::lround(entry.start));
    if (unit >= units) break;
    const std::string label = Label(schedule, entry.action);
    for (; unit < std::min(end, units); ++unit) {
      row.replace(unit * (width + 1), label.size(), label);
    }
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

std::string Legend(const Schedule& schedule) {
  std::string legend =
      "F forward, B backward, I input gradient, W weight gradient; the number "
      "is the microbatch";
  if (schedule.stages_per_worker > 1) {
    legend += ", the letter the worker's first (a), second (b), ... stage";
  }
  return legend + "\n";
}

}  // namespace

std::string DrawTimeline(const Schedule& schedule, int max_columns) {
  const absl::StatusOr<SimulateResult> result = Simulate(schedule);
  if (!result.ok()) {
    return absl::StrCat("no timeline: ", result.status().message(), "\n");
  }
  const size_t width = CellWidth(schedule);
  const size_t name_width = absl::StrCat("w", schedule.workers - 1).size();
  const size_t total = static_cast<size_t>(std::lround(result->makespan));
  const size_t frame = name_width + 2;
  const size_t columns = static_cast<size_t>(std::max(max_columns, 0));
  const size_t room = columns > frame ? (columns - frame) / (width + 1) : 0;
  const size_t units = std::min(total, std::max<size_t>(room, 1));
  std::string text = Legend(schedule);
  for (size_t w = 0; w < result->timeline.size(); ++w) {
    std::string name = absl::StrCat("w", w);
    name.resize(name_width, ' ');
    absl::StrAppend(&text, name, " |",
                    Row(schedule, result->timeline[w], units, width), "\n");
  }
  if (units < total) {
    absl::StrAppend(&text, "(the first ", units, " of ", total,
                    " units of time)\n");
  }
  return text;
}

}  // namespace stagecoach::schedule

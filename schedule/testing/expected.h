#ifndef STAGECOACH_SCHEDULE_TESTING_EXPECTED_H_
#define STAGECOACH_SCHEDULE_TESTING_EXPECTED_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

// The table of docs/schedules.md: what the kinds cost where that has a closed
// form. Written down once, from the papers, apart from the code that it checks.
namespace stagecoach::schedule::testing {

struct Shape {
  int p = 1;
  int v = 1;
  int m = 1;
  int k = 1;
  bool tied = false;
};

std::string ToString(const Shape& shape);  // "P=4 V=1 M=8 K=2 tied=0"

// Per worker at equal costs without communication; times in units of one
// stage's F = I = W.
struct Figures {
  std::function<double(const Shape&)> bubble;
  std::function<int(const Shape&, int worker)> peak_in_flight;
  // Outputs held under release = "never"; empty: no closed form.
  std::function<int(const Shape&, int worker)> held_never;
  // For which M they hold; empty: all.
  std::function<bool(const Shape&)> where = nullptr;

  bool Hold(const Shape& shape) const { return !where || where(shape); }
};

// Null for kinds whose figures are only simulated.
const Figures* FindFigures(absl::string_view kind);

// The idle time of a worker below which no list of this kind can come, also
// where Figures do not hold; 0 if none is known.
double LeastBubble(absl::string_view kind, const Shape& shape);

}  // namespace stagecoach::schedule::testing

#endif  // STAGECOACH_SCHEDULE_TESTING_EXPECTED_H_

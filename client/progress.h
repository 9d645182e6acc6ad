#ifndef STAGECOACH_CLIENT_PROGRESS_H_
#define STAGECOACH_CLIENT_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "base/clock.h"
#include "stagecoach/v1/job.pb.h"

namespace stagecoach::client {

// What one line of progress says. Negative numbers: not known.
struct ProgressState {
  std::string state;  // "RUNNING"; said as long as no step is done
  std::string reason;
  int64_t steps_done = 0;
  int64_t steps_total = 0;  // 0: not known
  double loss = 0;
  double tokens_per_second = -1;
  double seconds_left = -1;
};

// `step 12/50 [=====>      ] loss 3.2145  41.2k tokens/s  12.3 s left`, never
// longer than `columns`.
std::string RenderProgressBar(const ProgressState& state, int columns);

// `step 12/50  loss 3.2145  gradient norm 1.204  rate 3.00e-04  41.2k tokens/s
// 0.25 s`: one committed step for a log.
std::string RenderStepLine(const v1::StepResult& step, int64_t steps_total);

// Shows a job's progress on `out` (stderr): on a terminal one line that is
// drawn again and again, elsewhere a line per step, of quick steps at most
// about two a second but always the first and the last. Thread-compatible.
class ProgressPrinter {
 public:
  struct Options {
    bool terminal = false;
    int columns = 80;
    int64_t steps_total = 0;  // 0: from the job's spec, once it is known
  };

  // `out` and `clock` must outlive it.
  ProgressPrinter(std::ostream* out, const Clock* clock,
                  const Options& options);
  // Leaves the cursor at the start of a line.
  ~ProgressPrinter() { Finish(); }

  // A change of the job, with its new steps only.
  void Update(const v1::Job& event);
  // Shows what was held back, and ends the line on a terminal. To be called
  // before anything else is printed; Update may follow.
  void Finish();
  // A line for people, which stays.
  void Say(const std::string& line);

 private:
  void TakeStep(const v1::StepResult& step);
  void Redraw();
  void PrintStepLine(const v1::StepResult& step);
  void PrintHeldBack();
  bool IsTimeFor(absl::Duration interval);

  std::ostream* const out_;
  const Clock* const clock_;
  const Options options_;
  ProgressState state_;
  double mean_seconds_ = -1;
  int recoveries_ = 0;
  absl::Time last_output_ = absl::InfinitePast();
  v1::StepResult held_back_;
  bool has_held_back_ = false;
  bool line_open_ = false;
};

}  // namespace stagecoach::client

#endif  // STAGECOACH_CLIENT_PROGRESS_H_

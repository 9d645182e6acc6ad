#include "client/progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/output/job_output.h"
#include "client/output/text.h"

namespace stagecoach::client {
namespace {

constexpr absl::Duration kRedrawInterval = absl::Milliseconds(100);
constexpr absl::Duration kLineInterval = absl::Milliseconds(500);
constexpr int kMaxBarWidth = 30;
constexpr int kMinBarWidth = 5;
// Weight of the newest step in the mean that the time left is told from.
constexpr double kNewestWeight = 0.2;

// To the start of the line, and clear it.
constexpr char kClearLine[] = "\r\x1b[K";

std::string Bar(int64_t done, int64_t total, int width) {
  const auto filled = static_cast<int>(width * std::min(done, total) / total);
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < width) {
    bar += '>';
    bar.append(static_cast<size_t>(width - filled - 1), ' ');
  }
  return absl::StrCat("[", bar, "] ");
}

std::string StepCount(int64_t done, int64_t total) {
  if (total <= 0) return absl::StrCat("step ", done);
  return absl::StrCat("step ", done, "/", total);
}

std::string Cut(std::string text, int columns) {
  const auto size = static_cast<size_t>(std::max(columns, 0));
  if (text.size() > size) text.resize(size);
  return text;
}

}  // namespace

std::string RenderProgressBar(const ProgressState& state, int columns) {
  if (state.steps_done == 0 || state.state == "RECOVERING") {
    std::string text = state.state;
    if (!state.reason.empty()) absl::StrAppend(&text, ": ", state.reason);
    return Cut(text, columns);
  }
  const std::string head = StepCount(state.steps_done, state.steps_total) + " ";
  std::string tail = absl::StrFormat("loss %.4f", state.loss);
  if (state.tokens_per_second >= 0) {
    absl::StrAppend(&tail, "  ", FormatShort(state.tokens_per_second),
                    " tokens/s");
  }
  if (state.seconds_left >= 0) {
    absl::StrAppend(&tail, "  ", FormatSeconds(state.seconds_left), " left");
  }
  // Two brackets and a blank.
  const int space = columns - static_cast<int>(head.size() + tail.size()) - 3;
  const int width = std::min(space, kMaxBarWidth);
  std::string bar;
  if (state.steps_total > 0 && width >= kMinBarWidth) {
    bar = Bar(state.steps_done, state.steps_total, width);
  }
  return Cut(absl::StrCat(head, bar, tail), columns);
}

std::string RenderStepLine(const v1::StepResult& step, int64_t steps_total) {
  const std::string evaluation =
      step.has_evaluation_loss()
          ? absl::StrFormat("  evaluation before it %.4f",
                            step.evaluation_loss())
          : "";
  return absl::StrFormat(
      "%s  loss %.4f  gradient norm %.3f  rate %.2e  %s tokens/s  %s%s%s",
      StepCount(step.step() + 1, steps_total), step.loss(), step.grad_norm(),
      step.learning_rate(), FormatShort(step.tokens_per_second()),
      FormatSeconds(step.seconds()), step.skipped() ? "  skipped" : "",
      evaluation);
}

ProgressPrinter::ProgressPrinter(std::ostream* out, const Clock* clock,
                                 const Options& options)
    : out_(out), clock_(clock), options_(options) {
  state_.steps_total = options.steps_total;
}

void ProgressPrinter::Update(const v1::Job& event) {
  if (event.spec().training().steps() > 0) {
    state_.steps_total = event.spec().training().steps();
  }
  std::string name = JobStateName(event.state());
  const bool changed = name != state_.state || event.reason() != state_.reason;
  state_.state = std::move(name);
  state_.reason = event.reason();
  for (const v1::StepResult& step : event.steps()) TakeStep(step);
  if (options_.terminal && event.recoveries_size() > recoveries_) {
    // Elsewhere the state's own line says it.
    Say(absl::StrCat("recovers: ", event.reason()));
  }
  recoveries_ = event.recoveries_size();
  if (options_.terminal) {
    if (changed || IsTimeFor(kRedrawInterval)) Redraw();
  } else if (changed && event.steps().empty()) {
    // In the order in which things happened.
    PrintHeldBack();
    *out_ << "job " << event.id() << " " << state_.state
          << (state_.reason.empty() ? "" : ": ") << state_.reason << std::endl;
  }
}

void ProgressPrinter::TakeStep(const v1::StepResult& step) {
  const bool first = state_.steps_done == 0;
  state_.steps_done = step.step() + 1;
  state_.loss = step.loss();
  state_.tokens_per_second = step.tokens_per_second();
  mean_seconds_ =
      mean_seconds_ < 0
          ? step.seconds()
          : mean_seconds_ + kNewestWeight * (step.seconds() - mean_seconds_);
  if (state_.steps_total > 0) {
    state_.seconds_left =
        mean_seconds_ * static_cast<double>(std::max<int64_t>(
                            state_.steps_total - state_.steps_done, 0));
  }
  if (options_.terminal) return;
  const bool last = state_.steps_done == state_.steps_total;
  has_held_back_ = false;
  if (first || last || step.has_evaluation_loss() || IsTimeFor(kLineInterval)) {
    PrintStepLine(step);
  } else {
    held_back_ = step;
    has_held_back_ = true;
  }
}

void ProgressPrinter::Say(const std::string& line) {
  PrintHeldBack();
  if (line_open_) *out_ << kClearLine;
  line_open_ = false;
  *out_ << line << std::endl;
}

bool ProgressPrinter::IsTimeFor(absl::Duration interval) {
  return clock_->Now() - last_output_ >= interval;
}

void ProgressPrinter::Redraw() {
  // One column stays free: some terminals wrap when the last one is written.
  *out_ << kClearLine << RenderProgressBar(state_, options_.columns - 1)
        << std::flush;
  line_open_ = true;
  last_output_ = clock_->Now();
}

void ProgressPrinter::PrintStepLine(const v1::StepResult& step) {
  *out_ << RenderStepLine(step, state_.steps_total) << std::endl;
  last_output_ = clock_->Now();
}

void ProgressPrinter::PrintHeldBack() {
  if (has_held_back_) PrintStepLine(held_back_);
  has_held_back_ = false;
}

void ProgressPrinter::Finish() {
  PrintHeldBack();
  if (!line_open_) return;
  Redraw();
  *out_ << std::endl;
  line_open_ = false;
}

}  // namespace stagecoach::client

#include "client/progress.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

ProgressState TwelveOfFifty() {
  ProgressState state;
  state.state = "RUNNING";
  state.steps_done = 12;
  state.steps_total = 50;
  state.loss = 3.21451;
  state.tokens_per_second = 41234;
  state.seconds_left = 12.34;
  return state;
}

TEST(ProgressBarTest, ShowsStepLossSpeedAndTimeLeft) {
  EXPECT_EQ(RenderProgressBar(TwelveOfFifty(), 100),
            "step 12/50 [=======>                      ] loss 3.2145  41.2k "
            "tokens/s  12.3 s left");
}

TEST(ProgressBarTest, IsFullAtTheEnd) {
  ProgressState state = TwelveOfFifty();
  state.steps_done = 50;
  state.seconds_left = 0;
  EXPECT_EQ(RenderProgressBar(state, 100),
            "step 50/50 [==============================] loss 3.2145  41.2k "
            "tokens/s  0.00 s left");
}

TEST(ProgressBarTest, NarrowTerminalsLoseTheBarFirst) {
  EXPECT_EQ(RenderProgressBar(TwelveOfFifty(), 60),
            "step 12/50 [=>    ] loss 3.2145  41.2k tokens/s  12.3 s left");
  EXPECT_EQ(RenderProgressBar(TwelveOfFifty(), 55),
            "step 12/50 loss 3.2145  41.2k tokens/s  12.3 s left");
}

TEST(ProgressBarTest, NeverExceedsTheColumns) {
  for (int columns = 0; columns < 120; ++columns) {
    EXPECT_LE(RenderProgressBar(TwelveOfFifty(), columns).size(),
              static_cast<size_t>(columns));
  }
}

TEST(ProgressBarTest, BeforeTheFirstStepTheStateIsShown) {
  ProgressState state;
  state.state = "QUEUED";
  EXPECT_EQ(RenderProgressBar(state, 80), "QUEUED");
  state.reason = "waiting for 2 more workers";
  EXPECT_EQ(RenderProgressBar(state, 80), "QUEUED: waiting for 2 more workers");
}

TEST(ProgressBarTest, ARecoveringJobSaysSo) {
  ProgressState state = TwelveOfFifty();
  state.state = "RECOVERING";
  state.reason = "waiting for 2 idle workers";
  EXPECT_EQ(RenderProgressBar(state, 80),
            "RECOVERING: waiting for 2 idle workers");
}

TEST(ProgressBarTest, WithoutATotalThereIsNoBar) {
  ProgressState state = TwelveOfFifty();
  state.steps_total = 0;
  state.seconds_left = -1;
  EXPECT_EQ(RenderProgressBar(state, 80),
            "step 12 loss 3.2145  41.2k tokens/s");
}

v1::StepResult Step(int64_t number) {
  v1::StepResult step;
  step.set_step(number);
  step.set_loss(5.5 - 0.125 * static_cast<double>(number));
  step.set_grad_norm(1.5);
  step.set_learning_rate(3e-4);
  step.set_seconds(0.25);
  step.set_tokens_per_second(41234);
  return step;
}

TEST(StepLineTest, SaysEverythingAboutAStep) {
  EXPECT_EQ(RenderStepLine(Step(0), 50),
            "step 1/50  loss 5.5000  gradient norm 1.500  rate 3.00e-04  "
            "41.2k tokens/s  0.25 s");
  v1::StepResult skipped = Step(3);
  skipped.set_skipped(true);
  EXPECT_EQ(RenderStepLine(skipped, 0),
            "step 4  loss 5.1250  gradient norm 1.500  rate 3.00e-04  41.2k "
            "tokens/s  0.25 s  skipped");
}

class ProgressPrinterTest : public testing::Test {
 protected:
  v1::Job Event(v1::JobState state) {
    v1::Job job;
    job.set_id("j-1");
    job.set_state(state);
    return job;
  }
  v1::Job StepEvent(int64_t step) {
    v1::Job job = Event(v1::JOB_STATE_RUNNING);
    *job.add_steps() = Step(step);
    return job;
  }
  ProgressPrinter::Options PlainLines(int64_t steps) {
    ProgressPrinter::Options options;
    options.steps_total = steps;
    return options;
  }
  int StepLines() const {
    int count = 0;
    for (const auto line : absl::StrSplit(out_.str(), '\n')) {
      if (line.substr(0, 5) == "step ") ++count;
    }
    return count;
  }

  std::ostringstream out_;
  SimulatedClock clock_;
};

TEST_F(ProgressPrinterTest, SlowStepsGetALineEach) {
  ProgressPrinter printer(&out_, &clock_, PlainLines(3));
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(absl::Seconds(2));
    printer.Update(StepEvent(i));
  }
  printer.Finish();
  EXPECT_EQ(StepLines(), 3);
}

TEST_F(ProgressPrinterTest, QuickStepsGetTwoLinesASecondWithFirstAndLast) {
  ProgressPrinter printer(&out_, &clock_, PlainLines(1000));
  for (int i = 0; i < 1000; ++i) {
    printer.Update(StepEvent(i));
    clock_.Advance(absl::Milliseconds(10));
  }
  printer.Finish();
  // Ten seconds, and the last line.
  EXPECT_EQ(StepLines(), 21);
  EXPECT_EQ(out_.str().substr(0, 12), "step 1/1000 ");
  EXPECT_NE(out_.str().find("step 1000/1000 "), std::string::npos);
}

TEST_F(ProgressPrinterTest, TheLastStepIsShownAlsoWhenTheJobEndsEarly) {
  ProgressPrinter printer(&out_, &clock_, PlainLines(1000));
  printer.Update(StepEvent(0));
  printer.Update(StepEvent(1));
  printer.Update(StepEvent(2));
  EXPECT_EQ(StepLines(), 1);
  printer.Finish();
  EXPECT_EQ(StepLines(), 2);
  EXPECT_NE(out_.str().find("step 3/1000 "), std::string::npos);
  printer.Finish();
  EXPECT_EQ(StepLines(), 2);
}

TEST_F(ProgressPrinterTest, ChangesOfStateGetALineOnce) {
  ProgressPrinter printer(&out_, &clock_, PlainLines(10));
  printer.Update(Event(v1::JOB_STATE_QUEUED));
  printer.Update(Event(v1::JOB_STATE_QUEUED));
  v1::Job waiting = Event(v1::JOB_STATE_QUEUED);
  waiting.set_reason("waiting for 1 more worker");
  printer.Update(waiting);
  EXPECT_EQ(out_.str(),
            "job j-1 QUEUED\njob j-1 QUEUED: waiting for 1 more worker\n");
}

TEST_F(ProgressPrinterTest, AStepComesBeforeTheChangeThatFollowedIt) {
  ProgressPrinter printer(&out_, &clock_, PlainLines(1000));
  printer.Update(StepEvent(0));
  printer.Update(StepEvent(1));
  printer.Update(Event(v1::JOB_STATE_CANCELLING));
  const size_t step = out_.str().find("step 2/1000 ");
  ASSERT_NE(step, std::string::npos) << out_.str();
  EXPECT_LT(step, out_.str().find("job j-1 CANCELLING"));
}

TEST_F(ProgressPrinterTest, TheTotalComesFromTheSpecOfTheJob) {
  ProgressPrinter printer(&out_, &clock_, PlainLines(0));
  v1::Job event = StepEvent(0);
  event.mutable_spec()->mutable_training()->set_steps(7);
  printer.Update(event);
  EXPECT_NE(out_.str().find("step 1/7 "), std::string::npos) << out_.str();
}

TEST_F(ProgressPrinterTest, ATerminalHasOneLineThatIsDrawnAgain) {
  ProgressPrinter::Options options = PlainLines(4);
  options.terminal = true;
  options.columns = 80;
  ProgressPrinter printer(&out_, &clock_, options);
  for (int i = 0; i < 4; ++i) {
    printer.Update(StepEvent(i));
    clock_.Advance(absl::Milliseconds(60));
  }
  printer.Finish();
  const std::string text = out_.str();
  // Drawn at the change of state, at 120 ms, and at the end.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 3) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_NE(text.find("step 4/4 "), std::string::npos);
}

}  // namespace
}  // namespace stagecoach::client

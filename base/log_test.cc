#include "base/log.h"

#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace stagecoach {
namespace {

std::string StderrOf(const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

LogFields AllFields() {
  LogFields fields;
  fields.job = "j1";
  fields.epoch = 2;
  fields.step = 3;
  fields.stage = 0;
  fields.worker = "w1";
  return fields;
}

class LogTest : public testing::Test {
 protected:
  static void Init(LogLevel level, bool json) {
    LogOptions options;
    options.level = level;
    options.json = json;
    options.process = "worker w1";
    InitLog(options);
  }
  ~LogTest() override { InitLog(LogOptions()); }
};

TEST_F(LogTest, WritesTextFromTheStart) {
  const std::string out = StderrOf([] { LogInfo("hello"); });
  EXPECT_TRUE(absl::EndsWith(out, "Z info hello\n")) << out;
}

TEST_F(LogTest, TextNamesProcessAndFields) {
  Init(LogLevel::kInfo, false);
  const std::string out = StderrOf([] { LogWarning("late", AllFields()); });
  EXPECT_TRUE(absl::EndsWith(out,
                             " warning worker w1: late job=j1 epoch=2 step=3 "
                             "stage=0 worker=w1\n"))
      << out;
}

TEST_F(LogTest, TextIndentsTheFurtherLinesOfAMessage) {
  Init(LogLevel::kInfo, false);
  const std::string out = StderrOf([] { LogInfo("one\ntwo"); });
  EXPECT_TRUE(absl::EndsWith(out, ": one\n    two\n")) << out;
}

TEST_F(LogTest, JsonIsOneDocumentPerLineWithOnlyTheFieldsThatAreSet) {
  Init(LogLevel::kInfo, true);
  const std::string out = StderrOf([] {
    LogFields fields;
    fields.step = 0;
    LogError("a \"quoted\"\nmessage", fields);
  });
  const auto line = nlohmann::json::parse(out);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["process"], "worker w1");
  EXPECT_EQ(line["message"], "a \"quoted\"\nmessage");
  EXPECT_EQ(line["step"], 0);
  EXPECT_FALSE(line.contains("job"));
  EXPECT_FALSE(line.contains("epoch"));
  EXPECT_FALSE(line.contains("stage"));
}

TEST_F(LogTest, JsonSurvivesBytesThatAreNotText) {
  Init(LogLevel::kInfo, true);
  const std::string out = StderrOf([] { LogInfo("bad \xff byte"); });
  EXPECT_EQ(nlohmann::json::parse(out)["message"], "bad \xEF\xBF\xBD byte");
}

TEST_F(LogTest, DropsLinesBelowItsLevel) {
  Init(LogLevel::kWarning, false);
  EXPECT_EQ(StderrOf([] {
              LogDebug("no");
              LogInfo("no");
            }),
            "");
  EXPECT_NE(StderrOf([] { LogWarning("yes"); }), "");
  Init(LogLevel::kOff, false);
  EXPECT_EQ(StderrOf([] { LogError("no"); }), "");
}

TEST_F(LogTest, ObserverGetsTheLinesThatAreWritten) {
  std::string seen;
  LogOptions options;
  options.level = LogLevel::kInfo;
  options.observer = [&seen](const LogFields& fields, absl::string_view line) {
    absl::StrAppend(&seen, fields.job, "|", line);
  };
  InitLog(options);
  const std::string out = StderrOf([] {
    LogDebug("no");
    LogWarning("late", AllFields());
  });
  Init(LogLevel::kInfo, false);
  EXPECT_EQ(seen, "j1|" + out);
}

TEST(ParseLogLevelTest, KnowsFiveWords) {
  LogLevel level = LogLevel::kInfo;
  EXPECT_TRUE(ParseLogLevel("debug", &level));
  EXPECT_EQ(level, LogLevel::kDebug);
  EXPECT_TRUE(ParseLogLevel("off", &level));
  EXPECT_EQ(level, LogLevel::kOff);
  EXPECT_FALSE(ParseLogLevel("verbose", &level));
  EXPECT_EQ(level, LogLevel::kOff);
}

}  // namespace
}  // namespace stagecoach

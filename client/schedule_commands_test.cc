#include "client/schedule_commands.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedule/formats/formats.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

std::string Read(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> GenerateWords(const std::string& kind) {
  return {"schedule",  "generate", "--kind",         kind,
          "--workers", "4",        "--microbatches", "8"};
}

ClientResult Generate(const std::string& kind,
                      std::vector<std::string> more = {}) {
  std::vector<std::string> words = GenerateWords(kind);
  words.insert(words.end(), more.begin(), more.end());
  return RunClient(words);
}

// A file with a generated schedule.
std::string ScheduleFile(const std::string& kind,
                         std::vector<std::string> more = {}) {
  const std::string file = MakeFolder() + "/schedule";
  more.insert(more.end(), {"--out", file});
  const ClientResult result = Generate(kind, more);
  EXPECT_EQ(result.exit_code, 0) << result.error;
  return file;
}

TEST(ScheduleGenerateTest, AllFormatsCarryTheSameSchedule) {
  const ClientResult text = Generate("1f1b");
  EXPECT_EQ(text.exit_code, 0) << text.error;
  const auto parsed = schedule::ParseText(text.out);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->send_budget, 2);
  EXPECT_EQ(Generate("1f1b", {"-o", "text"}).out, text.out);
  for (const char* format : {"json", "proto"}) {
    const std::string file = ScheduleFile("1f1b", {"-o", format});
    const auto other = schedule::ParseAny(Read(file), file);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(schedule::ToText(*other), schedule::ToText(*parsed));
  }
}

TEST(ScheduleGenerateTest, TakesBudgetTiedAndStages) {
  const ClientResult result =
      Generate("interleaved",
               {"--stages-per-worker", "2", "--send-budget", "1", "--tied"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const auto parsed = schedule::ParseText(result.out);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->send_budget, 1);
  EXPECT_EQ(parsed->stages(), 8);
  EXPECT_THAT(result.out, HasSubstr("REDUCE_TIED"));
}

TEST(ScheduleGenerateTest, RefusesWhatItCannotDo) {
  EXPECT_THAT(Generate("1f1b", {"-o", "csv"}).error,
              HasSubstr("-o csv is not supported yet"));
  EXPECT_EQ(Generate("1f1b", {"-o", "csv"}).exit_code, 2);
  EXPECT_EQ(Generate("1f1b", {"-o", "table"}).exit_code, 2);
  EXPECT_THAT(Generate("1fb1").error, HasSubstr("did you mean \"1f1b\"?"));
  EXPECT_EQ(Generate("1fb1").exit_code, 2);
  EXPECT_EQ(Generate("gpipe", {"--stages-per-worker", "2"}).exit_code, 2);
  EXPECT_EQ(Generate("gpipe", {"--send-budget", "0"}).exit_code, 2);
  EXPECT_THAT(Generate("gpipe", {"--out", "/proc/nothing"}).error,
              HasSubstr("cannot write /proc/nothing"));
  EXPECT_EQ(RunClient({"schedule", "generate", "--kind", "gpipe", "--workers",
                       "0", "--microbatches", "4"})
                .exit_code,
            2);
}

TEST(ScheduleVerifyTest, AcceptsWhatGenerateMakes) {
  for (const char* kind : {"gpipe", "1f1b", "interleaved", "forward-only"}) {
    const ClientResult result =
        RunClient({"schedule", "verify", ScheduleFile(kind), "-o", "json"});
    EXPECT_EQ(result.exit_code, 0) << kind << result.error;
    const Json json = result.document();
    EXPECT_EQ(json["ok"], true);
    EXPECT_EQ(json["errors"], Json::array());
    EXPECT_EQ(json["peak_in_flight"].size(), 4u);
    EXPECT_EQ(json["ascending_accumulation"], true);
  }
  const std::string tied = ScheduleFile("1f1b", {"--tied"});
  EXPECT_EQ(RunClient({"schedule", "verify", tied}).exit_code, 0);
}

// The document is printed also when the schedule is refused.
TEST(ScheduleVerifyTest, RefusedSchedulesEndWith2AndADocument) {
  std::string text = Generate("gpipe").out;
  const size_t action = text.find("3F7");
  ASSERT_NE(action, std::string::npos);
  text.replace(action, 3, "3F6");
  const std::string file = MakeFile("broken.txt", text);
  const ClientResult result =
      RunClient({"-o", "json", "schedule", "verify", file});
  EXPECT_EQ(result.exit_code, 2);
  const Json json = result.document();
  EXPECT_EQ(json["ok"], false);
  ASSERT_FALSE(json["errors"].empty());
  for (const char* key : {"kind", "workers", "actions", "message"}) {
    EXPECT_TRUE(json["errors"][0].contains(key)) << key;
  }
  EXPECT_THAT(RunClient({"schedule", "verify", file}).out,
              HasSubstr("refused: gpipe"));
}

TEST(ScheduleVerifyTest, AFileThatIsNoScheduleIsRefusedWithItsPlace) {
  const std::string file = MakeFile("letter.txt", "Dear Sir\n");
  const ClientResult result =
      RunClient({"schedule", "verify", file, "-o", "json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.document()["errors"][0]["kind"], "parse");
  EXPECT_THAT(result.error, HasSubstr(file + ":1:1: "));
  EXPECT_EQ(RunClient({"schedule", "verify", "/no/such/file"}).exit_code, 2);
  EXPECT_THAT(RunClient({"schedule", "verify", "a.csv"}).error,
              HasSubstr("not supported yet"));
}

TEST(ScheduleSimulateTest, TakesCosts) {
  const std::string file = ScheduleFile("1f1b");
  ClientResult result = RunClient({"schedule", "simulate", file, "-o", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  // (M + P - 1) (F + I + W)
  EXPECT_EQ(result.document()["makespan"], 33.0);
  EXPECT_DOUBLE_EQ(result.document()["bubble_ratio"].get<double>(), 3.0 / 11);
  EXPECT_EQ(result.document()["workers"][0]["busy"], 24.0);
  EXPECT_EQ(result.document()["workers"][0]["idle"], 9.0);
  EXPECT_EQ(result.document()["workers"][0]["peak_in_flight"], 4);
  result = RunClient(
      {"schedule", "simulate", file, "--costs", "1,2,0.5", "-o", "json"});
  EXPECT_EQ(result.document()["makespan"], 38.5);
  EXPECT_THAT(RunClient({"schedule", "simulate", file}).out,
              HasSubstr("makespan 33, bubble 27.3 %"));
}

TEST(ScheduleSimulateTest, RefusesCostsThatAreNone) {
  const std::string file = ScheduleFile("1f1b");
  for (const char* costs : {"1,2", "1,2,x", "1,2,3,4", "1,-2,3", "1,2,inf"}) {
    EXPECT_EQ(RunClient({"schedule", "simulate", file,
                         std::string("--costs=") + costs})
                  .exit_code,
              2)
        << costs;
  }
}

TEST(ScheduleShowTest, DrawsTheTimeline) {
  const std::string file = ScheduleFile("gpipe");
  const ClientResult result = RunClient({"schedule", "show", file});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("w0"));
  EXPECT_THAT(result.out, HasSubstr("w3"));
  const Json json =
      RunClient({"schedule", "show", file, "-o", "json"}).document();
  EXPECT_EQ(json["workers"][3]["timeline"].size(), 16u);
}

}  // namespace
}  // namespace stagecoach::client

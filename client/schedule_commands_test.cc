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
using testing::StartsWith;

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

// Peaks in flight, by worker.
Json Peaks(const std::string& file) {
  return RunClient({"schedule", "verify", file, "-o", "json"})
      .document()["peak_in_flight"];
}

TEST(ScheduleGenerateTest, TakesWhatOnlySomeKindsTake) {
  EXPECT_EQ(Peaks(ScheduleFile("zb-h2")), Json({7, 7, 7, 7}));
  EXPECT_EQ(Peaks(ScheduleFile("zb-h2", {"--max-in-flight", "5"})),
            Json({5, 5, 5, 5}));
  EXPECT_THAT(Generate("1f1b", {"--max-in-flight", "5"}).error,
              HasSubstr("\"1f1b\" takes no max_in_flight"));

  // worker s: 2(P-1-s) + (V-1)N + 1 chunks
  EXPECT_EQ(Peaks(ScheduleFile("interleaved", {"--stages-per-worker", "2"})),
            Json({11, 9, 7, 5}));
  EXPECT_EQ(Peaks(ScheduleFile("interleaved", {"--stages-per-worker", "2",
                                               "--group-size", "8"})),
            Json({15, 13, 11, 9}));
  EXPECT_EQ(Generate("zbv", {"--group-size", "2"}).exit_code, 2);

  const std::string published = ScheduleFile("gpipe", {"--published-order"});
  EXPECT_EQ(RunClient({"schedule", "verify", published, "-o", "json"})
                .document()["ascending_accumulation"],
            false);
}

TEST(ScheduleGenerateTest, RefusesWhatItCannotDo) {
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

TEST(ScheduleShowTest, DrawsAPicture) {
  const std::string file = ScheduleFile("zbv");
  const std::string picture = MakeFolder() + "/picture.svg";
  ClientResult result = RunClient({"schedule", "show", file, "--out", picture});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(Read(picture), StartsWith("<svg"));
  EXPECT_THAT(Read(picture), HasSubstr("</svg>"));
  result =
      RunClient({"schedule", "show", file, "--out", picture, "-o", "json"});
  EXPECT_EQ(result.document()["kind"], "zbv");
}

TEST(ScheduleShowTest, APictureHasTheNameOfOne) {
  const std::string picture = MakeFolder() + "/picture.png";
  const ClientResult result =
      RunClient({"schedule", "show", ScheduleFile("zbv"), "--out", picture});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("ends in .svg"));
  EXPECT_EQ(Read(picture), "");
}

// ---- CSV, convert and diff --------------------------------------------------

std::vector<std::string> TwoByTwo(std::vector<std::string> more) {
  std::vector<std::string> words = {"schedule",       "generate",  "--kind",
                                    "1f1b",           "--workers", "2",
                                    "--microbatches", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

constexpr char kComputeCsv[] =
    "0F0,0F1,0B0,0B1\r\n"
    "1F0,1B0,1F1,1B1\r\n";

TEST(ScheduleGenerateTest, WritesPyTorchsCsv) {
  EXPECT_EQ(RunClient(TwoByTwo({"-o", "csv", "--compute-only"})).out,
            kComputeCsv);
  EXPECT_EQ(RunClient(TwoByTwo({"-o", "csv"})).out,
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\r\n");
}

TEST(ScheduleGenerateTest, ComputeOnlyHasNoCommunication) {
  const ClientResult result = RunClient(TwoByTwo({"--compute-only"}));
  const auto parsed = schedule::ParseText(result.out);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->lowered());
}

TEST(ScheduleCsvTest, EveryToolReadsIt) {
  const std::string csv = MakeFile("lists.csv", kComputeCsv);
  EXPECT_EQ(RunClient({"schedule", "verify", csv}).exit_code, 0);
  EXPECT_EQ(RunClient({"schedule", "show", csv}).exit_code, 0);
  // (M + P - 1) (F + I + W)
  EXPECT_EQ(RunClient({"schedule", "simulate", csv, "-o", "json"})
                .document()["makespan"],
            9.0);
  const std::string broken = MakeFile("broken.csv", "0F0,0X1\r\n");
  const ClientResult result = RunClient({"schedule", "verify", broken});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr(broken + ":1:5: "));
}

TEST(ScheduleConvertTest, AllFormsCarryTheSameSchedule) {
  const std::string text = ScheduleFile("zbv", {"--tied"});
  std::string from = text;
  for (const char* form : {"json", "proto", "text"}) {
    const std::string to = MakeFolder() + "/converted";
    const ClientResult result =
        RunClient({"schedule", "convert", from, "--to", form, "--out", to});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.out, "");
    from = to;
  }
  EXPECT_EQ(Read(from), Read(text));
}

TEST(ScheduleConvertTest, CsvBothWays) {
  const std::string file = MakeFolder() + "/schedule";
  ASSERT_EQ(RunClient(TwoByTwo({"--tied", "--out", file})).exit_code, 0);
  EXPECT_EQ(
      RunClient({"schedule", "convert", file, "--to", "csv", "--compute-only"})
          .out,
      kComputeCsv);
  const ClientResult back =
      RunClient({"schedule", "convert", MakeFile("lists.csv", kComputeCsv),
                 "--to", "text"});
  EXPECT_EQ(back.exit_code, 0) << back.error;
  const auto parsed = schedule::ParseText(back.out);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->kind, "custom");
  EXPECT_EQ(parsed->workers, 2);
  EXPECT_EQ(parsed->actions[1].size(), 4u);
}

// What is known is the form that --to names; -o would be a second one.
TEST(ScheduleConvertTest, RefusesWhatItCannotDo) {
  const std::string file = ScheduleFile("1f1b");
  EXPECT_EQ(RunClient({"schedule", "convert", file}).exit_code, 2);
  EXPECT_EQ(RunClient({"schedule", "convert", file, "--to", "xml"}).exit_code,
            2);
  const ClientResult result =
      RunClient({"schedule", "convert", file, "--to", "csv", "-o", "json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("leave out -o json"));
}

TEST(ScheduleDiffTest, TheSameInAnotherFormIsEqual) {
  const std::string text = ScheduleFile("dualpipe-v");
  const std::string json = ScheduleFile("dualpipe-v", {"-o", "json"});
  ClientResult result = RunClient({"schedule", "diff", text, json});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "equal\n");
  result = RunClient({"schedule", "diff", text, json, "-o", "json"});
  EXPECT_EQ(result.document()["equal"], true);
}

TEST(ScheduleDiffTest, NamesTheFirstActionThatDiffersAndEndsWith1) {
  const std::string left = MakeFile("left.csv", kComputeCsv);
  const std::string right = MakeFile("right.csv",
                                     "0F0,0F1,0B0,0B1\r\n"
                                     "1F0,1F1,1B0,1B1\r\n");
  ClientResult result = RunClient({"schedule", "diff", left, right});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "w1 action 1: 1B0 and 1F1\n");
  EXPECT_EQ(result.error, "");
  result = RunClient({"schedule", "diff", left, right, "-o", "json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.document()["workers"][0]["left"], "1B0");
}

TEST(ScheduleDiffTest, WhatIsNoScheduleIsNoDifference) {
  const std::string file = ScheduleFile("1f1b");
  const std::string letter = MakeFile("letter.txt", "Dear Sir\n");
  EXPECT_EQ(RunClient({"schedule", "diff", file, letter}).exit_code, 2);
  EXPECT_EQ(RunClient({"schedule", "diff", letter, file}).exit_code, 2);
  EXPECT_EQ(RunClient({"schedule", "diff", "-", "-"}).exit_code, 2);
}

}  // namespace
}  // namespace stagecoach::client

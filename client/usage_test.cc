// The command line as such: help, mistakes, endpoints.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/testing/client_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class HelpTest : public testing::TestWithParam<Words> {};

TEST_P(HelpTest, ExplainsWithExamples) {
  Words words = GetParam();
  words.push_back("--help");
  const ClientResult result = RunClient(words);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("Examples:\n  stagecoach " +
                                    absl::StrJoin(GetParam(), " ")));
  EXPECT_EQ(result.error, "");
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, HelpTest,
    testing::Values(Words{"run"}, Words{"plan"}, Words{"verify"},
                    Words{"job", "submit"}, Words{"job", "list"},
                    Words{"job", "show"}, Words{"job", "wait"},
                    Words{"job", "cancel"}, Words{"worker", "list"},
                    Words{"worker", "show"}, Words{"memory", "stats"},
                    Words{"memory", "held"}, Words{"memory", "snapshot"},
                    Words{"memory", "reset-peak"}, Words{"memory", "trim"},
                    Words{"memory", "explain"}, Words{"schedule", "generate"},
                    Words{"schedule", "verify"}, Words{"schedule", "simulate"},
                    Words{"schedule", "show"}, Words{"schedule", "convert"},
                    Words{"schedule", "diff"}, Words{"version"}, Words{"up"},
                    Words{"down"}, Words{"doctor"}, Words{"completion"},
                    Words{"help"}, Words{"job", "logs"},
                    Words{"job", "events"}));

TEST(UsageTest, TopHelpListsVerbsAndHidesInternals) {
  const ClientResult result = RunClient({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* verb : {"run", "plan", "verify", "job", "worker", "memory",
                           "schedule", "version"}) {
    EXPECT_THAT(result.out, HasSubstr(std::string("\n  ") + verb));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("die-with-parent")));
}

struct Mistake {
  Words words;
  std::string message;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << absl::StrJoin(mistake.words, " ");
}

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, EndsWith2AndSaysWhatWouldWork) {
  const ClientResult result = RunClient(GetParam().words);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.error, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Words, MistakeTest,
    testing::Values(
        Mistake{{}, "`stagecoach` needs a verb: run, plan, verify"},
        Mistake{{"rnu", "job.toml", "--local"},
                "`stagecoach` has no verb \"rnu\"; did you mean \"run\"?"},
        Mistake{{"teleport"},
                "`stagecoach` has no verb \"teleport\"; there are: run, plan"},
        Mistake{{"job"}, "`stagecoach job` needs a verb: submit, list"},
        Mistake{{"job", "shwo", "j-1"},
                "`stagecoach job` has no verb \"shwo\"; did you mean "
                "\"show\"?"},
        Mistake{{"run"}, "SPEC is required"},
        Mistake{{"run", "a.toml", "--lokal"},
                "`stagecoach run` has no option --lokal; did you mean "
                "\"--local\"?"},
        Mistake{{"run", "a.toml", "--endpint=x"},
                "did you mean \"--endpoint\"?"},
        Mistake{{"run", "a.toml", "b.toml"},
                "`stagecoach run` takes no further argument: \"b.toml\""},
        Mistake{{"run", "a.toml", "--keep-logs", "d"},
                "--keep-logs requires --local"},
        Mistake{{"job", "list", "-o", "xml"},
                "-o xml is no format of this verb; use one of: table, json"},
        Mistake{{"job", "list", "-o", "jsno"}, "did you mean \"json\"?"},
        Mistake{{"job", "wait", "j-1", "--timeout", "soon"},
                "--timeout soon is no duration"},
        Mistake{{"job", "wait", "j-1", "--timeout=-1s"}, "is negative"}));

TEST(UsageTest, WithJsonAMistakeIsADocumentToo) {
  const ClientResult result = RunClient({"run", "-o", "json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.document()["error"]["exit_code"], 2);
  EXPECT_THAT(result.document()["error"]["message"].get<std::string>(),
              HasSubstr("SPEC is required"));
}

// Port 1 is nobody's.
constexpr char kNobody[] = "127.0.0.1:1";

class UnreachableTest : public testing::TestWithParam<Words> {};

TEST_P(UnreachableTest, EndsWith3AndOneLineSoon) {
  Words words = GetParam();
  words.insert(words.end(), {"--endpoint", kNobody});
  const absl::Time start = Clock::Real()->Now();
  const ClientResult result = RunClient(words);
  EXPECT_LT(Clock::Real()->Now() - start, absl::Seconds(10));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.error, HasSubstr("no coordinator can be reached at "
                                      "127.0.0.1:1"));
  EXPECT_THAT(result.error, HasSubstr("STAGECOACH_ENDPOINT"));
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1)
      << result.error;
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, UnreachableTest,
    testing::Values(Words{"job", "list"}, Words{"job", "show", "j-1"},
                    Words{"job", "wait", "j-1"}, Words{"job", "cancel", "j-1"},
                    Words{"worker", "list"}, Words{"memory", "stats"},
                    Words{"memory", "held"}, Words{"memory", "explain"}));

TEST(EndpointTest, MayStandBeforeTheVerbOrComeFromTheEnvironment) {
  EXPECT_EQ(RunClient({"--endpoint", kNobody, "job", "list"}).exit_code, 3);
  EXPECT_THAT(
      RunClient({"job", "list"}, {{"STAGECOACH_ENDPOINT", kNobody}}).error,
      HasSubstr(kNobody));
  // The flag wins.
  EXPECT_THAT(RunClient({"job", "list", "--endpoint", "127.0.0.1:2"},
                        {{"STAGECOACH_ENDPOINT", kNobody}})
                  .error,
              HasSubstr("127.0.0.1:2"));
}

TEST(EndpointTest, AnAddressThatIsNoneIsUnreachable) {
  const ClientResult result =
      RunClient({"job", "list", "--endpoint", "not an address"});
  EXPECT_EQ(result.exit_code, 3) << result.error;
}

TEST(UsageTest, JsonOfAnUnreachableCoordinator) {
  for (const Words& words : {Words{"-o", "json", "worker", "list"},
                             Words{"worker", "-o", "json", "list"},
                             Words{"worker", "list", "-o", "json"}}) {
    const ClientResult result =
        RunClient(words, {{"STAGECOACH_ENDPOINT", kNobody}});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.document()["error"]["exit_code"], 3);
  }
}

}  // namespace
}  // namespace stagecoach::client

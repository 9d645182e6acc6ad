#include "client/flag_table.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::ElementsAre;

class FlagTableTest : public testing::Test {
 protected:
  FlagTableTest() : app_("A command", "tool") {
    app_.add_option("-o", text_, "Format");
    app_.add_flag("--secret", flag_)->group("");
    CLI::App* group = app_.add_subcommand("job", "Jobs");
    CLI::App* verb = group->add_subcommand("logs", "Logs\nof jobs");
    verb->add_option("JOB", text_, "Which")->required();
    verb->add_flag("-f,--follow", flag_, "Go on");
    verb->add_option("--shell", text_, "A word")
        ->check(CLI::IsMember({"bash", "zsh"}));
    verb->add_option("--count", number_, "A number");
    verb->add_option("--out", text_, "A file");
    context_.formats[verb] = {"table", "json"};
    top_ = DescribeCommand(app_, context_);
  }
  const VerbInfo& Logs() const { return top_.verbs.at(0).verbs.at(0); }
  const FlagInfo& Flag(const std::string& name) const {
    for (const FlagInfo& flag : Logs().flags) {
      for (const std::string& known : flag.names) {
        if (known == name) return flag;
      }
    }
    ADD_FAILURE() << "no flag " << name;
    return Logs().flags.front();
  }

  std::string text_;
  bool flag_ = false;
  int number_ = 0;
  CLI::App app_;
  Context context_;
  VerbInfo top_;
};

TEST_F(FlagTableTest, IsATreeOfVerbs) {
  EXPECT_EQ(top_.verbs.size(), 1u);
  EXPECT_THAT(Logs().path, ElementsAre("job", "logs"));
  EXPECT_EQ(PathText(Logs()), "job logs");
  EXPECT_EQ(ShortDescription(Logs().description), "Logs");
  std::vector<std::string> paths;
  for (const VerbInfo* verb : AllVerbs(top_)) paths.push_back(PathText(*verb));
  EXPECT_THAT(paths, ElementsAre("", "job", "job logs"));
}

TEST_F(FlagTableTest, FlagsSayWhatValuesTheyTake) {
  EXPECT_THAT(Flag("-f").names, ElementsAre("-f", "--follow"));
  EXPECT_FALSE(Flag("-f").takes_value());
  EXPECT_THAT(Flag("--shell").choices, ElementsAre("bash", "zsh"));
  EXPECT_FALSE(Flag("--shell").takes_file());
  EXPECT_EQ(Flag("--count").value_name, "INT");
  EXPECT_FALSE(Flag("--count").takes_file());
  EXPECT_TRUE(Flag("--out").takes_file());
  EXPECT_FALSE(Flag("--help").takes_value());
}

TEST_F(FlagTableTest, FormatsAreTheVerbsOwn) {
  EXPECT_THAT(Flag("-o").choices, ElementsAre("table", "json"));
  for (const FlagInfo& flag : top_.flags) EXPECT_NE(flag.names.front(), "-o");
}

TEST_F(FlagTableTest, HiddenOptionsStayHidden) {
  ASSERT_EQ(top_.flags.size(), 1u);
  EXPECT_EQ(top_.flags[0].names.back(), "--help");
}

TEST_F(FlagTableTest, ArgumentsAreApart) {
  ASSERT_EQ(Logs().arguments.size(), 1u);
  EXPECT_EQ(Logs().arguments[0].name, "JOB");
  EXPECT_TRUE(Logs().arguments[0].required);
}

}  // namespace
}  // namespace stagecoach::client

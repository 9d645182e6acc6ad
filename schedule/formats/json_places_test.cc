#include "schedule/formats/json_places.h"

#include <string>

#include "gtest/gtest.h"

namespace stagecoach::schedule::formats {
namespace {

TEST(JsonPlacesTest, FindsMembersAndTheirValues) {
  const std::string text = R"( { "a" : 1 , "b":[1,{"c":2}],"d":"x\"}," } )";
  const auto members = JsonMembers(text, 0);
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].name, "a");
  EXPECT_EQ(text.substr(members[0].value_at, 1), "1");
  EXPECT_EQ(members[1].name, "b");
  EXPECT_EQ(text.substr(members[1].value_at, 3), "[1,");
  EXPECT_EQ(text.substr(members[2].name_at, 3), "\"d\"");
}

TEST(JsonPlacesTest, FindsElementsAroundNestedOnes) {
  const std::string text = R"([ "a,]" , [[2]], {"b":[3]} ,4 ])";
  const auto places = JsonElements(text, 0);
  ASSERT_EQ(places.size(), 4u);
  EXPECT_EQ(text.substr(places[0], 3), "\"a,");
  EXPECT_EQ(text.substr(places[1], 3), "[[2");
  EXPECT_EQ(text.substr(places[2], 3), "{\"b");
  EXPECT_EQ(text[places[3]], '4');
}

TEST(JsonPlacesTest, EmptyContainersHaveNothing) {
  EXPECT_TRUE(JsonMembers("{ }", 0).empty());
  EXPECT_TRUE(JsonElements("[ ]", 0).empty());
}

TEST(JsonPlacesTest, DeepNestingNeedsNoStack) {
  const std::string text =
      "[" + std::string(1000000, '[') + std::string(1000000, ']') + ",7]";
  EXPECT_EQ(JsonElements(text, 0).size(), 2u);
}

}  // namespace
}  // namespace stagecoach::schedule::formats

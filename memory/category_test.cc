#include "memory/category.h"

#include <set>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace stagecoach::memory {
namespace {

Tag MakeTag(Category category, int stage, int microbatch) {
  Tag tag;
  tag.category = category;
  tag.stage = StageIndex(stage);
  tag.microbatch = MicrobatchIndex(microbatch);
  return tag;
}

TEST(CategoryTest, NamesAreThoseOfTheJsonContract) {
  EXPECT_STREQ(CategoryName(Category::kParameter), "parameter");
  EXPECT_STREQ(CategoryName(Category::kGradient), "gradient");
  EXPECT_STREQ(CategoryName(Category::kOptimizer), "optimizer");
  EXPECT_STREQ(CategoryName(Category::kActivation), "activation");
  EXPECT_STREQ(CategoryName(Category::kWireSend), "wire_send");
  EXPECT_STREQ(CategoryName(Category::kWireReceive), "wire_receive");
  EXPECT_STREQ(CategoryName(Category::kWorkspace), "workspace");
  EXPECT_STREQ(CategoryName(Category::kOther), "other");
}

TEST(CategoryTest, EveryCategoryHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i < kCategories; ++i) {
    names.insert(CategoryName(static_cast<Category>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kCategories));
}

TEST(ScopedTagTest, UntaggedIsOtherOfNoStage) {
  EXPECT_EQ(CurrentTag().category, Category::kOther);
  EXPECT_EQ(CurrentTag().stage, StageIndex(-1));
  EXPECT_EQ(CurrentTag().microbatch, MicrobatchIndex(-1));
}

TEST(ScopedTagTest, NestedScopesRestoreTheOuterTag) {
  const ScopedTag outer(MakeTag(Category::kParameter, 2, -1));
  {
    const ScopedTag inner(MakeTag(Category::kActivation, 3, 7));
    EXPECT_EQ(CurrentTag().category, Category::kActivation);
    EXPECT_EQ(CurrentTag().stage, StageIndex(3));
    EXPECT_EQ(CurrentTag().microbatch, MicrobatchIndex(7));
  }
  EXPECT_EQ(CurrentTag().category, Category::kParameter);
  EXPECT_EQ(CurrentTag().stage, StageIndex(2));
}

TEST(ScopedTagTest, AnotherThreadHasItsOwnTag) {
  const ScopedTag mine(MakeTag(Category::kOptimizer, 1, -1));
  Category seen = Category::kOptimizer;
  std::thread([&seen] { seen = CurrentTag().category; }).join();
  EXPECT_EQ(seen, Category::kOther);
}

}  // namespace
}  // namespace stagecoach::memory

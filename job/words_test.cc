#include "job/words.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::job {
namespace {

template <typename E>
class WordsTest : public testing::Test {};

using Enums = testing::Types<Architecture, DataKind, SampleOrder, OptimizerKind,
                             LearningRateSchedule, Precision, KernelChoice,
                             ReleasePolicy, TransportKind>;

// Given because clang finds a macro without its last argument pedantic.
struct DefaultWordAsName {
  template <typename E>
  static std::string GetName(int index) {
    return std::string(WordOf(E())) + std::to_string(index);
  }
};
TYPED_TEST_SUITE(WordsTest, Enums, DefaultWordAsName);

TYPED_TEST(WordsTest, EveryWordStandsForOneValueAndBack) {
  std::set<TypeParam> values;
  for (const Word<TypeParam>& word : Words<TypeParam>()) {
    EXPECT_TRUE(values.insert(word.value).second) << word.text;
    EXPECT_EQ(WordOf(word.value), word.text);
    TypeParam back = TypeParam();
    EXPECT_TRUE(FromWord(word.text, &back));
    EXPECT_EQ(back, word.value);
  }
  // Values count from 0 without a gap, so that none can have been forgotten
  // in the middle.
  EXPECT_EQ(static_cast<size_t>(*values.rbegin()) + 1, values.size());
}

TYPED_TEST(WordsTest, UnknownWordsAndValuesAreTold) {
  const TypeParam before = Words<TypeParam>().back().value;
  TypeParam value = before;
  EXPECT_FALSE(FromWord("", &value));
  EXPECT_FALSE(FromWord("no such word", &value));
  EXPECT_EQ(value, before);
  EXPECT_EQ(WordOf(static_cast<TypeParam>(99)), "");
  EXPECT_FALSE(IsSupported(static_cast<TypeParam>(99)));
}

TYPED_TEST(WordsTest, TheDefaultIsSupported) {
  EXPECT_TRUE(IsSupported(TypeParam()));
}

TEST(WordTextsTest, TellsWhatIsBuilt) {
  EXPECT_EQ(WordTexts<DataKind>(),
            (std::vector<std::string>{"text", "tokens", "megatron", "jsonl"}));
  EXPECT_EQ(WordTexts<DataKind>(true),
            (std::vector<std::string>{"text", "tokens", "megatron"}));
}

}  // namespace
}  // namespace stagecoach::job

#include "job/keys.h"

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "job/words.h"

namespace stagecoach::job {
namespace {

// The rows of the tables of docs/job_spec.md that are about a key, by key.
std::map<std::string, std::string> ManualRows() {
  std::ifstream file("docs/job_spec.md");
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, '`');
    if (FindKey(parts[1]) != nullptr) rows[parts[1]] = line;
  }
  return rows;
}

TEST(KeysTest, NamesAndFieldsAreDistinct) {
  std::set<absl::string_view> names;
  std::set<void*> fields;
  JobSpec spec;
  for (const Key& key : Keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    void* const field =
        std::visit([](auto* pointer) { return static_cast<void*>(pointer); },
                   key.field(spec));
    EXPECT_TRUE(fields.insert(field).second) << key.name;
  }
}

TEST(KeysTest, DefaultsLieWithinTheLimits) {
  for (const char* name :
       {"model.vocabulary", "data.sequence_length", "training.steps",
        "training.microbatches", "training.microbatch_size",
        "training.warmup_steps", "training.threads", "pipeline.workers",
        "pipeline.stages_per_worker", "pipeline.send_budget",
        "checkpoint.every_steps", "checkpoint.keep", "evaluation.every_steps",
        "evaluation.microbatches"}) {
    const Key* key = FindKey(name);
    ASSERT_NE(key, nullptr) << name;
    JobSpec spec;
    const int64_t value = *std::get<int64_t*>(key->field(spec));
    EXPECT_TRUE(key->limits.Allow(static_cast<double>(value))) << name;
  }
}

// The values of the manual's and the design's example.
TEST(KeysTest, DefaultsAreTheDocumentedOnes) {
  const std::map<std::string, std::string> expected = {
      {"seed", "7"},
      {"model.architecture", "\"gpt2\""},
      {"model.vocabulary", "256"},
      {"model.tie_embeddings", "true"},
      {"data.kind", "\"text\""},
      {"data.sequence_length", "128"},
      {"data.order", "\"shuffled\""},
      {"data.documents", "\"packed\""},
      {"training.steps", "50"},
      {"training.microbatches", "8"},
      {"training.microbatch_size", "4"},
      {"training.optimizer", "\"adamw\""},
      {"training.betas", "[0.9, 0.95]"},
      {"training.epsilon", "1e-8"},
      {"training.weight_decay", "0.1"},
      {"training.learning_rate", "0.0003"},
      {"training.minimum_learning_rate", "0"},
      {"training.learning_rate_schedule", "\"cosine\""},
      {"training.warmup_steps", "2"},
      {"training.gradient_clip", "1"},
      {"training.precision", "\"float32\""},
      {"training.kernels", "\"auto\""},
      {"training.threads", "1"},
      {"pipeline.workers", "4"},
      {"pipeline.stages_per_worker", "1"},
      {"pipeline.schedule", "\"1f1b\""},
      {"pipeline.split", "\"auto\""},
      {"pipeline.release", "\"ack\""},
      {"pipeline.send_budget", "2"},
      {"pipeline.transport", "\"auto\""},
      {"recovery.max_failures", "3"},
      {"recovery.no_progress", "3"},
      {"recovery.neighbour_copy", "false"},
      {"checkpoint.every_steps", "25"},
      {"checkpoint.keep", "0"},
      {"evaluation.every_steps", "10"},
      {"evaluation.microbatches", "8"},
  };
  for (const auto& [name, text] : expected) {
    const Key* key = FindKey(name);
    ASSERT_NE(key, nullptr) << name;
    EXPECT_EQ(ValueText(*key, JobSpec()), text) << name;
  }
}

TEST(KeysTest, TheManualHasARowForEveryKeyWithItsTypeAndDefault) {
  const std::map<std::string, std::string> rows = ManualRows();
  for (const Key& key : Keys()) {
    const auto row = rows.find(std::string(key.name));
    ASSERT_NE(row, rows.end()) << key.name;
    EXPECT_TRUE(absl::StartsWith(
        row->second, absl::StrCat("| `", key.name, "` | ", TypeText(key), " | ",
                                  DefaultText(key), " | ")))
        << row->second << "\nshould give " << TypeText(key) << " and "
        << DefaultText(key);
  }
}

TEST(KeysTest, TheManualSaysWhatIsNotSupportedYet) {
  const std::map<std::string, std::string> rows = ManualRows();
  for (const Key& key : Keys()) {
    JobSpec spec;
    const std::string& row = rows.at(std::string(key.name));
    std::visit(
        [&](auto* field) {
          using T = std::remove_pointer_t<decltype(field)>;
          if constexpr (std::is_enum_v<T>) {
            std::vector<std::string> missing;
            for (const Word<T>& word : Words<T>()) {
              if (!word.supported) missing.emplace_back(word.text);
            }
            const std::string note = absl::StrCat(
                "Not supported yet: `", absl::StrJoin(missing, "`, `"), "`.");
            EXPECT_EQ(absl::StrContains(row, note), !missing.empty()) << row;
          }
        },
        key.field(spec));
  }
}

TEST(KeysTest, TablesAndLeaves) {
  EXPECT_EQ(TableOf("pipeline.workers"), "pipeline");
  EXPECT_EQ(LeafOf("pipeline.workers"), "workers");
  EXPECT_EQ(TableOf("name"), "");
  EXPECT_EQ(LeafOf("name"), "name");
  EXPECT_TRUE(IsTable("pipeline"));
  EXPECT_FALSE(IsTable("name"));
  EXPECT_FALSE(IsTable(""));
  EXPECT_EQ(
      KeysOfTable("recovery"),
      (std::vector<std::string>{"recovery.max_failures", "recovery.no_progress",
                                "recovery.neighbour_copy"}));
}

TEST(LimitsTest, AllowWhatTheySay) {
  Limits limits;
  EXPECT_EQ(limits.ToString(), "");
  EXPECT_FALSE(limits.Allow(std::nan("")));
  EXPECT_FALSE(limits.Allow(HUGE_VAL));
  limits.least = 0;
  EXPECT_EQ(limits.ToString(), "at least 0");
  EXPECT_TRUE(limits.Allow(0));
  EXPECT_FALSE(limits.Allow(-1e-300));
  limits.without_least = true;
  EXPECT_EQ(limits.ToString(), "more than 0");
  EXPECT_FALSE(limits.Allow(0));
  limits.most = 1;
  limits.without_least = false;
  EXPECT_EQ(limits.ToString(), "from 0 to 1");
  EXPECT_TRUE(limits.Allow(1));
  limits.without_most = true;
  EXPECT_EQ(limits.ToString(), "from 0 to below 1");
  EXPECT_FALSE(limits.Allow(1));
}

TEST(NumberTextTest, ReadsBackToTheSameBits) {
  EXPECT_EQ(NumberText(3e-4), "0.0003");
  EXPECT_EQ(NumberText(1e-8), "1e-8");
  EXPECT_EQ(NumberText(1048576), "1048576");
  EXPECT_EQ(NumberText(-2.5), "-2.5");
  for (const double value : {1.0 / 3, 0.1, 2e-7, 123456.789, 1e300, 4e-320}) {
    double back = 0;
    ASSERT_TRUE(absl::SimpleAtod(NumberText(value), &back));
    EXPECT_EQ(back, value);
  }
}

}  // namespace
}  // namespace stagecoach::job

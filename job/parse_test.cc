#include "job/parse.h"

#include <fstream>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "job/keys.h"

namespace stagecoach::job {
namespace {

constexpr char kMinimal[] = R"(name = "minimal"
[model]
layers = 4
hidden = 32
heads = 2
[data]
path = "text.txt"
)";

// Every key, none with its default.
constexpr char kComplete[] = R"(
name = "complete"
seed = 8
[model]
architecture = "llama"
checkpoint = "model"
layers = 9
hidden = 64
heads = 8
vocabulary = 300
tie_embeddings = false
dropout = 0.125
path = "stages.so"
options = "patch=4"
boundary = [5, 64]
boundaries = ["int64[3]"]
[data]
kind = "tokens"
path = "../data/tokens.bin"
token_type = "uint32"
sequence_length = 32
stride = 16
order = "sequential"
documents = "isolated"
document_end = 2
targets = "last"
[training]
steps = 10
microbatches = 3
microbatch_size = 2
last_microbatch_size = 1
optimizer = "sgd"
betas = [0.5, 0]
epsilon = 1e-6
weight_decay = 0.2
learning_rate = 1
minimum_learning_rate = 0.25
learning_rate_schedule = "linear"
warmup_steps = 5
gradient_clip = 0
precision = "float16"
initial_loss_scale = 1024
loss_scale_growth_steps = 100
freeze = ["model.embed_tokens", "model.layers.0."]
kernels = "onednn"
threads = 2
loss_chunk = 5
[pipeline]
workers = 3
stages_per_worker = 2
schedule = "plans/mine.json"
split = [2, 1, 2, 1, 2, 1]
release = "sent"
send_budget = 4
transport = "tcp"
[memory]
limit = "8GiB"
recompute = ["full", "none", "none", "every-2", "none", "full"]
optimizer = "mapped"
[recovery]
max_failures = 0
no_progress = 5
neighbour_copy = true
[checkpoint]
directory = "/checkpoints"
every_steps = 7
keep = 2
[evaluation]
path = "held_out.txt"
every_steps = 3
microbatches = 5
)";

ParsedSpec MustParse(absl::string_view text,
                     const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<ParsedSpec> parsed =
      ParseJobSpec(text, "/jobs/spec.toml", overrides);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *std::move(parsed) : ParsedSpec();
}

TEST(ParseJobSpecTest, KeysThatAreNotGivenHaveTheirDefaults) {
  const JobSpec spec = MustParse(kMinimal).spec;
  for (const Key& key : Keys()) {
    if (key.required) continue;
    EXPECT_EQ(ValueText(key, spec), ValueText(key, JobSpec())) << key.name;
  }
  EXPECT_EQ(spec.name, "minimal");
  EXPECT_EQ(spec.model.layers, 4);
  EXPECT_EQ(spec.model.hidden, 32);
  EXPECT_EQ(spec.model.heads, 2);
  EXPECT_EQ(spec.data.EffectiveStride(), 128);
}

TEST(ParseJobSpecTest, ReadsEveryKey) {
  const JobSpec spec = MustParse(kComplete).spec;
  for (const Key& key : Keys()) {
    EXPECT_NE(ValueText(key, spec), ValueText(key, JobSpec())) << key.name;
  }
  EXPECT_EQ(spec.seed, 8);
  EXPECT_EQ(spec.model.architecture, Architecture::kLlama);
  EXPECT_FALSE(spec.model.tie_embeddings);
  EXPECT_EQ(spec.data.token_type, "uint32");
  EXPECT_EQ(spec.data.EffectiveStride(), 16);
  EXPECT_EQ(spec.training.betas, (std::array<double, 2>{0.5, 0}));
  EXPECT_EQ(spec.training.learning_rate, 1.0);
  EXPECT_EQ(spec.training.gradient_clip, 0.0);
  EXPECT_EQ(spec.training.epsilon, 1e-6);
  EXPECT_EQ(spec.pipeline.split, (std::vector<int64_t>{2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(spec.pipeline.release, ReleasePolicy::kSent);
  EXPECT_EQ(spec.memory.limit_bytes, int64_t{8} << 30);
  EXPECT_EQ(spec.recovery.no_progress, 5);
  EXPECT_TRUE(spec.recovery.neighbour_copy);
  EXPECT_EQ(spec.checkpoint.every_steps, 7);
  EXPECT_EQ(spec.stages(), 6);
}

TEST(ParseJobSpecTest, PathsStartAtTheSpecsFolder) {
  const JobSpec spec = MustParse(kComplete).spec;
  EXPECT_EQ(spec.data.path, "/data/tokens.bin");
  EXPECT_EQ(spec.model.checkpoint, "/jobs/model");
  EXPECT_EQ(spec.pipeline.schedule, "/jobs/plans/mine.json");
  EXPECT_EQ(spec.checkpoint.directory, "/checkpoints");
  // A kind of schedule is not a path.
  EXPECT_EQ(MustParse(kMinimal).spec.pipeline.schedule, "1f1b");
}

TEST(ParseJobSpecTest, RelativeFileNamesAreResolvedToo) {
  const auto parsed = ParseJobSpec(kMinimal, "folder/spec.toml");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(absl::StartsWith(parsed->spec.data.path, "/"));
  EXPECT_TRUE(absl::EndsWith(parsed->spec.data.path, "/folder/text.txt"));
}

TEST(ParseJobSpecTest, MemoryLimitIsTextOrAnInteger) {
  EXPECT_EQ(MustParse(absl::StrCat(kMinimal, "[memory]\nlimit = 4096"))
                .spec.memory.limit_bytes,
            4096);
  EXPECT_EQ(MustParse(absl::StrCat(kMinimal, "[memory]\nlimit = '1.5 KiB'"))
                .spec.memory.limit_bytes,
            1536);
}

TEST(ParseJobSpecTest, SplitIsAutoOrAList) {
  EXPECT_TRUE(MustParse(absl::StrCat(kMinimal, "[pipeline]\nsplit = \"auto\""))
                  .spec.pipeline.split.empty());
}

TEST(ParseJobSpecTest, DottedKeysAndInlineTablesAreTheSame) {
  const JobSpec spec =
      MustParse("name = 'x'\nmodel.layers = 4\ndata = {path = '/t'}").spec;
  EXPECT_EQ(spec.model.layers, 4);
  EXPECT_EQ(spec.data.path, "/t");
}

TEST(ParseJobSpecTest, KnowsWhereEachKeyStands) {
  const ParsedSpec parsed =
      MustParse("name = 'x'\n[model]\n  layers = 4\n", {"seed=3"});
  EXPECT_EQ(parsed.positions.at("model.layers").line, 3);
  EXPECT_EQ(parsed.positions.at("model.layers").column, 3);
  EXPECT_EQ(parsed.positions.at("seed").line, 0);
  EXPECT_EQ(parsed.positions.count("training.steps"), size_t{0});
  EXPECT_EQ(
      parsed.ErrorAt("model.layers", "no"),
      absl::InvalidArgumentError("/jobs/spec.toml:3:3: model.layers: no"));
  EXPECT_EQ(parsed.ErrorAt("seed", "no"),
            absl::InvalidArgumentError("--set seed: no"));
  // A key that is not there: its table, or else the top.
  EXPECT_EQ(parsed.ErrorAt("model.heads", "no"),
            absl::InvalidArgumentError("/jobs/spec.toml:2:2: model.heads: no"));
  EXPECT_EQ(parsed.ErrorAt("data.path", "no"),
            absl::InvalidArgumentError("/jobs/spec.toml:1:1: data.path: no"));
}

TEST(ParseJobSpecTest, ASpecFromElsewhereHasNoPlace) {
  EXPECT_EQ(ParsedSpec().ErrorAt("seed", "no"),
            absl::InvalidArgumentError("seed: no"));
}

TEST(OverridesTest, StandOverTheFileAndTheLastWins) {
  const JobSpec spec =
      MustParse(absl::StrCat(kMinimal, "[pipeline]\nsend_budget = 3"),
                {"pipeline.send_budget=1", "pipeline.workers=2",
                 "pipeline.workers = 3"})
          .spec;
  EXPECT_EQ(spec.pipeline.send_budget, 1);
  EXPECT_EQ(spec.pipeline.workers, 3);
}

TEST(OverridesTest, TakeEveryTypeWithoutQuotes) {
  const JobSpec spec =
      MustParse(kMinimal,
                {"name=3", "pipeline.transport=shm", "pipeline.split=[2, 2]",
                 "training.betas=[0, 0.5]", "training.learning_rate=1e-4",
                 "model.tie_embeddings=false", "memory.limit=2GiB",
                 "data.path=other.txt", "pipeline.schedule=\"gpipe\""})
          .spec;
  EXPECT_EQ(spec.name, "3");
  EXPECT_EQ(spec.pipeline.transport, TransportKind::kShm);
  EXPECT_EQ(spec.pipeline.split, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(spec.training.betas, (std::array<double, 2>{0, 0.5}));
  EXPECT_EQ(spec.training.learning_rate, 1e-4);
  EXPECT_FALSE(spec.model.tie_embeddings);
  EXPECT_EQ(spec.memory.limit_bytes, int64_t{2} << 30);
  EXPECT_EQ(spec.data.path, "/jobs/other.txt");
  EXPECT_EQ(spec.pipeline.schedule, "gpipe");
  EXPECT_TRUE(
      MustParse(kMinimal, {"pipeline.split=auto"}).spec.pipeline.split.empty());
}

TEST(OverridesTest, CannotBringAnotherKey) {
  const auto parsed = ParseJobSpec(kMinimal, "/jobs/spec.toml",
                                   {"pipeline.workers=2\nmore = 3"});
  EXPECT_EQ(parsed.status(),
            absl::InvalidArgumentError(
                "--set pipeline.workers: expected an integer, got a string"));
}

TEST(ParseJobSpecTest, ManyErrorsAreCounted) {
  std::string text;
  for (int i = 0; i < 50; ++i) absl::StrAppend(&text, "zzz", i, " = 1\n");
  const absl::Status status = ParseJobSpec(text, "/s.toml").status();
  EXPECT_TRUE(absl::EndsWith(status.message(), "\nand 30 more")) << status;
}

TEST(LoadJobSpecTest, ReadsAFile) {
  const std::string path = testing::TempDir() + "/load_test.toml";
  std::ofstream(path) << kMinimal;
  const auto parsed = LoadJobSpec(path, {"seed=5"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->file_name, path);
  EXPECT_EQ(parsed->text, kMinimal);
  EXPECT_EQ(parsed->spec.seed, 5);
}

TEST(LoadJobSpecTest, SaysWhyAFileCannotBeRead) {
  EXPECT_EQ(LoadJobSpec("/nowhere/s.toml").status(),
            absl::NotFoundError("job spec: cannot read \"/nowhere/s.toml\": No "
                                "such file or directory"));
  EXPECT_EQ(LoadJobSpec("/tmp").status(),
            absl::NotFoundError("job spec: \"/tmp\" is a folder, not a file"));
  EXPECT_EQ(LoadJobSpec("/dev/zero").status(),
            absl::NotFoundError(
                "job spec: \"/dev/zero\" is longer than 1048576 bytes"));
}

// Whatever bytes a file holds, parsing ends with a spec or with a message.
TEST(ParseJobSpecPropertyTest, SurvivesDamagedFiles) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string good = kComplete;
  const auto below = [&](size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (size_t i = below(8) + 1; i > 0; --i) {
      switch (below(3)) {
        case 0:
          text[below(text.size())] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(below(text.size()), below(20));
          break;
        default:
          text.insert(below(text.size()),
                      good.substr(below(good.size()), below(20)));
      }
    }
    const auto parsed = ParseJobSpec(text, "/s.toml");
    if (parsed.ok()) {
      Validate(*parsed).IgnoreError();
    } else {
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(absl::StartsWith(parsed.status().message(), "/s.toml:"))
          << parsed.status();
    }
  }
}

}  // namespace
}  // namespace stagecoach::job

#include "stage_worker/checkpoint/manifest.h"

#include <iostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/sha256.h"
#include "gtest/gtest.h"

namespace stagecoach::checkpoint {
namespace {

job::JobSpec TinySpec() {
  job::JobSpec spec;
  spec.name = "tiny";
  spec.model.layers = 4;
  spec.model.hidden = 32;
  spec.model.heads = 2;
  spec.data.path = "corpus.txt";
  return spec;
}

Manifest Tiny() {
  Manifest manifest = NewManifest("job-3", TinySpec(), 25);
  manifest.files = {
      {"model-00001-of-00001.safetensors", 1234, std::string(64, 'a')},
      {"config.json", 5, std::string(64, '0')}};
  return manifest;
}

// As a writer that changes one thing would seal it.
std::string Resealed(const std::string& text, const std::string& from,
                     const std::string& to) {
  const size_t end = text.rfind(",\n  \"sha256\"");
  const std::string body =
      absl::StrReplaceAll(text.substr(0, end), {{from, to}});
  EXPECT_NE(body, text.substr(0, end)) << from;
  Sha256 sha256;
  sha256.Update(body);
  return absl::StrCat(body, ",\n  \"sha256\": \"", sha256.FinishHex(),
                      "\"\n}\n");
}

TEST(ManifestTest, KeepsTheScaleOfFloat16sLoss) {
  Manifest manifest = Tiny();
  EXPECT_FALSE(
      ManifestFromJson(ManifestToJson(manifest))->loss_scale.has_value());
  manifest.loss_scale = {32768, 17};
  const std::string text = ManifestToJson(manifest);
  const auto back = ManifestFromJson(text);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_TRUE(back->loss_scale.has_value());
  EXPECT_EQ(back->loss_scale->value, 32768);
  EXPECT_EQ(back->loss_scale->good_steps, 17);
  for (const char* bad : {"0.5", "1e19", "\"much\"", "null"}) {
    EXPECT_FALSE(ManifestFromJson(Resealed(text, "\"value\": 32768.0",
                                           absl::StrCat("\"value\": ", bad)))
                     .ok())
        << bad;
  }
  EXPECT_FALSE(ManifestFromJson(
                   Resealed(text, "\"good_steps\": 17", "\"good_steps\": -1"))
                   .ok());
}

TEST(ManifestTest, ComesBackAsItWas) {
  const Manifest manifest = Tiny();
  const auto back = ManifestFromJson(ManifestToJson(manifest));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->job_id, "job-3");
  EXPECT_EQ(back->step, 25);
  EXPECT_EQ(back->samples, 25 * 8 * 4);
  EXPECT_EQ(back->spec, manifest.spec);
  EXPECT_EQ(back->spec.at("training.betas"), "[0.9, 0.95]");
  ASSERT_EQ(back->files.size(), 2u);
  EXPECT_EQ(back->files[0].name, "model-00001-of-00001.safetensors");
  EXPECT_EQ(back->files[0].bytes, 1234);
  EXPECT_EQ(back->files[0].sha256, std::string(64, 'a'));
  EXPECT_EQ(back->bytes(), 1239);
}

TEST(ManifestTest, EveryFlippedBitAndEveryTruncationIsSeen) {
  const std::string whole = ManifestToJson(Tiny());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(ManifestFromJson(std::string(whole, 0, length)).ok())
        << "cut to " << length;
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(ManifestFromJson(flipped).ok()) << "bit " << bit;
  }
  std::cout << "a manifest of " << whole.size() << " bytes: " << whole.size()
            << " truncations and " << 8 * whole.size()
            << " flipped bits, all seen\n";
}

TEST(ManifestTest, RefusesWhatNoManifestSays) {
  const std::string whole = ManifestToJson(Tiny());
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"stagecoach checkpoint", "other"}, "its format is \"other\""},
      {{"\"step\": 25", "\"step\": -1"}, "it has no count \"step\""},
      {{"\"step\": 25", "\"step\": 25.5"}, "it has no count \"step\""},
      {{"\"samples\"", "\"sample\""}, "it has no count \"samples\""},
      {{"\"job-3\"", "3"}, "it has no text \"job_id\""},
      {{"config.json", "../config.json"},
       "\"../config.json\" is no plain file name"},
      {{"config.json", "MANIFEST.json"},
       "\"MANIFEST.json\" is no plain file name"},
      {{"config.json", "model-00001-of-00001.safetensors"}, "twice"},
      {{"aaaa", "AAAA"}, "the sha256 of model-00001-of-00001.safetensors"},
      {{"\"seed\": \"7\"", "\"seed\": 7"}, "spec: seed is no text"},
      {{"\"files\"", "\"file\""}, "it has no list \"files\""},
      {{"\"step\"", "\"samples\""}, "stands twice"},
  };
  for (const auto& [change, words] : cases) {
    const auto result =
        ManifestFromJson(Resealed(whole, change.first, change.second));
    EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << words;
    EXPECT_TRUE(absl::StrContains(result.status().message(), words))
        << result.status();
  }
}

TEST(ManifestTest, SaysThatALaterVersionIsNeeded) {
  const auto result = ManifestFromJson(
      Resealed(ManifestToJson(Tiny()), "\"version\": 1", "\"version\": 2"));
  EXPECT_TRUE(absl::IsUnimplemented(result.status())) << result.status();
}

TEST(ManifestTest, GoesOnWithWhateverDoesNotChangeTheResult) {
  job::JobSpec spec = TinySpec();
  spec.name = "another";
  spec.pipeline.workers = 1;
  spec.pipeline.stages_per_worker = 4;
  spec.pipeline.split = {1, 1, 1, 1};
  spec.pipeline.schedule = "zb-h1";
  spec.pipeline.release = job::ReleasePolicy::kNever;
  spec.data.path = "/elsewhere/corpus.txt";
  spec.training.steps = 1000;
  spec.training.learning_rate = 1;
  spec.training.microbatches = 4;
  spec.training.microbatch_size = 8;
  spec.checkpoint.every_steps = 1;
  EXPECT_EQ(CheckContinues(Tiny(), spec), absl::OkStatus());
}

TEST(ManifestTest, NamesWhatWouldMakeItAnotherRun) {
  const auto message = [](void (*change)(job::JobSpec&)) {
    job::JobSpec spec = TinySpec();
    change(spec);
    const absl::Status status = CheckContinues(Tiny(), spec);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message([](job::JobSpec& spec) { spec.seed = 8; }),
            "it was made with seed = 7, this job has 8; set it back, or write "
            "to another checkpoint.directory");
  EXPECT_TRUE(absl::StrContains(
      message([](job::JobSpec& spec) { spec.model.heads = 4; }),
      "model.heads = 2"));
  EXPECT_TRUE(absl::StrContains(message([](job::JobSpec& spec) {
                                  spec.data.order =
                                      job::SampleOrder::kSequential;
                                }),
                                "data.order = \"shuffled\""));
  EXPECT_TRUE(absl::StrContains(message([](job::JobSpec& spec) {
                                  spec.training.optimizer =
                                      job::OptimizerKind::kSgd;
                                }),
                                "training.optimizer"));
  EXPECT_EQ(message([](job::JobSpec& spec) { spec.training.microbatches = 4; }),
            "its 25 steps took 800 samples, this job's would have taken 400; "
            "set training.microbatches and training.microbatch_size back");
}

}  // namespace
}  // namespace stagecoach::checkpoint

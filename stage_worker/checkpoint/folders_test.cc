#include "stage_worker/checkpoint/folders.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "stage_worker/checkpoint/export.h"
#include "stage_worker/checkpoint/safetensors.h"
#include "stage_worker/checkpoint/stage_files.h"

namespace stagecoach::checkpoint {
namespace {

namespace fs = std::filesystem;
using worker::StageState;
using worker::StateTensor;

StateTensor Floats(const std::string& name, float value) {
  auto values = std::make_shared<std::vector<float>>(3, value);
  StateTensor tensor;
  tensor.name = name;
  tensor.descriptor.shape = {3};
  tensor.data = std::shared_ptr<const void>(values, values->data());
  return tensor;
}

// Two stages of a model with one parameter each.
std::vector<StageState> StatesOf(float value) {
  std::vector<StageState> states(2);
  for (int i = 0; i < 2; ++i) {
    StageState& state = states[static_cast<size_t>(i)];
    state.stage.stage = StageIndex(i);
    const std::string name = absl::StrCat("h.", i, ".w");
    state.parameters = {Floats(name, value + static_cast<float>(i))};
    state.optimizer = {Floats(name + ".exp_avg", value + 10)};
  }
  return states;
}

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class FoldersTest : public testing::Test {
 protected:
  FoldersTest()
      : directory_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(directory_);
    spec_.name = "tiny";
    spec_.model.layers = 2;
    spec_.model.hidden = 8;
    spec_.model.heads = 2;
  }

  absl::StatusOr<std::string> Try(int64_t step, float value, int64_t keep = 0) {
    const std::string partial = PartialFolderName(step, "job-1", 7);
    auto files = WriteStages(absl::StrCat(directory_, "/", partial),
                             StatesOf(value), 2, cancelled_);
    if (!files.ok()) return files.status();
    Manifest manifest = NewManifest("job-1", spec_, step);
    manifest.files = *files;
    return SealCheckpoint(directory_, partial, spec_, manifest, keep);
  }
  std::string Write(int64_t step, float value, int64_t keep = 0) {
    const auto path = Try(step, value, keep);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.ok() ? *path : "";
  }
  // A try of step 50 was refused: there is still the one of step 25, and
  // nothing else.
  void ExpectTheOneBefore(const std::string& before) {
    const auto choice = ChooseCheckpoint(directory_);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->checkpoint->path, before);
    EXPECT_TRUE(choice->warnings.empty());
    DiscardPartial(directory_, PartialFolderName(50, "job-1", 7));
    EXPECT_EQ(Names(), std::set<std::string>{"step-00000025"});
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  static float FirstOf(const std::string& path, const std::string& name) {
    auto state = SavedState::Open(path);
    EXPECT_TRUE(state.ok()) << state.status();
    float values[3] = {};
    TensorDescriptor descriptor;
    descriptor.shape = {3};
    EXPECT_EQ((*state)->parameters()(name, descriptor, values),
              absl::OkStatus());
    return values[0];
  }
  static void Flip(const std::string& path, size_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 1));
  }

  const std::string directory_;
  job::JobSpec spec_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(FoldersTest, ASealedCheckpointIsAFolderThatHuggingFaceCouldLoad) {
  const std::string path = Write(25, 1);
  EXPECT_EQ(path, directory_ + "/step-00000025");
  EXPECT_EQ(Names(), std::set<std::string>{"step-00000025"});
  const auto weights = SafetensorsFolder::Open(path);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)->names(), (std::vector<std::string>{"h.0.w", "h.1.w"}));
  EXPECT_EQ((*weights)->FileOf("h.1.w"), "model-00002-of-00002.safetensors");
  const auto config = nlohmann::json::parse(ReadAll(path + "/config.json"));
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(config["tie_word_embeddings"], true);
}

TEST_F(FoldersTest, WhatIsReadIsWhatWasWritten) {
  const std::string path = Write(25, 1);
  const auto manifest = VerifyCheckpoint(path);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->step, 25);
  EXPECT_EQ(manifest->files.size(), 6u);
  EXPECT_EQ(FirstOf(path, "h.0.w"), 1);
  EXPECT_EQ(FirstOf(path, "h.1.w"), 2);
  auto state = SavedState::Open(path);
  ASSERT_TRUE(state.ok());
  float values[3] = {};
  TensorDescriptor descriptor;
  descriptor.shape = {3};
  EXPECT_EQ((*state)->optimizer()("h.0.w.exp_avg", descriptor, values),
            absl::OkStatus());
  EXPECT_EQ(values[2], 11);
  descriptor.shape = {4};
  const absl::Status other =
      (*state)->parameters()("h.0.w", descriptor, values);
  EXPECT_EQ(other, absl::InvalidArgumentError(absl::StrCat(
                       "tensor h.0.w in ", path,
                       "/model-00001-of-00002.safetensors: its shape is [3], "
                       "the model's [4]")));
}

TEST_F(FoldersTest, ExportsAPlainFolderWithTheSameBits) {
  const std::string path = Write(25, 1);
  const std::string out = directory_ + "/out/model";
  const auto exported = ExportCheckpoint(path, out + "/", ExportOptions());
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->tensors, 2);
  EXPECT_EQ(exported->bytes, 24);
  EXPECT_EQ(exported->files,
            (std::vector<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(ReadAll(out + "/config.json"), ReadAll(path + "/config.json"));
  const auto file = SafetensorsFile::Open(out + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->header().metadata.at("format"), "pt");
  const float two[3] = {2, 2, 2};
  EXPECT_EQ(std::memcmp((*file)->Find("h.1.w")->data, two, sizeof(two)), 0);
  const absl::Status again =
      ExportCheckpoint(path, out, ExportOptions()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_TRUE(absl::StrContains(again.message(), "/out/model is there already"))
      << again;
}

TEST_F(FoldersTest, ExportsShardsOfTheAskedSize) {
  const std::string path = Write(25, 1);
  const std::string out = directory_ + "/out";
  ExportOptions options;
  options.shard_bytes = 12;
  const auto exported = ExportCheckpoint(path, out, options);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->files.size(), 4u);
  const auto weights = SafetensorsFolder::Open(out);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)->FileOf("h.0.w"), "model-00001-of-00002.safetensors");
  EXPECT_EQ((*weights)->FileOf("h.1.w"), "model-00002-of-00002.safetensors");
}

TEST_F(FoldersTest, ExportsNothingOfADamagedCheckpoint) {
  const std::string path = Write(25, 1);
  Flip(path + "/model-00002-of-00002.safetensors", 100);
  const std::string out = directory_ + "/out";
  EXPECT_TRUE(
      absl::IsDataLoss(ExportCheckpoint(path, out, ExportOptions()).status()));
  EXPECT_EQ(Names(), std::set<std::string>{"step-00000025"});
}

TEST_F(FoldersTest, ATokenizerComesAlong) {
  spec_.model.checkpoint = directory_ + "/origin";
  fs::create_directories(spec_.model.checkpoint);
  spec_.model.config_json = "{\"a\": 1}";
  std::ofstream(spec_.model.checkpoint + "/tokenizer.json") << "tokens";
  const std::string path = Write(25, 1);
  const auto exported =
      ExportCheckpoint(path, directory_ + "/out", ExportOptions());
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(ReadAll(directory_ + "/out/tokenizer.json"), "tokens");
  const auto config =
      nlohmann::json::parse(ReadAll(directory_ + "/out/config.json"));
  EXPECT_EQ(config["a"], 1);
  EXPECT_EQ(config["torch_dtype"], "float32") << "the type of the weights";
}

TEST_F(FoldersTest, ListsNewestFirstAndOnlyCheckpoints) {
  Write(25, 1);
  Write(100, 2);
  fs::create_directories(directory_ + "/step-7");
  fs::create_directories(directory_ + "/notes");
  const auto found = ListCheckpoints(directory_);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].step, 100);
  EXPECT_EQ((*found)[1].step, 25);
  EXPECT_TRUE((*found)[1].manifest.ok());
  EXPECT_TRUE(ListCheckpoints(directory_ + "/nowhere")->empty());
}

TEST_F(FoldersTest, DamageOfEveryFileIsFoundAndNamed) {
  const std::string path = Write(25, 1);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  ASSERT_EQ(names.size(), 7u);
  int damages = 0;
  for (const std::string& name : names) {
    const std::string file = path + "/" + name;
    const size_t bytes = fs::file_size(file);
    const auto expect_damaged = [&](const std::string& how) {
      const auto manifest = VerifyCheckpoint(path);
      EXPECT_TRUE(absl::IsDataLoss(manifest.status()))
          << name << " " << how << ": " << manifest.status();
      EXPECT_TRUE(absl::StrContains(manifest.status().message(), name))
          << manifest.status();
      ++damages;
    };
    for (size_t offset = 0; offset < bytes && !HasFailure(); ++offset) {
      Flip(file, offset);
      expect_damaged(absl::StrCat("flipped at ", offset));
      Flip(file, offset);
    }
    const std::string contents = ReadAll(file);
    for (size_t length = 0; length < bytes && !HasFailure(); ++length) {
      fs::resize_file(file, length);
      expect_damaged(absl::StrCat("cut to ", length));
      std::ofstream(file, std::ios::binary) << contents;
    }
    std::ofstream(file, std::ios::binary | std::ios::app) << "x";
    expect_damaged("with a byte more");
    std::ofstream(file, std::ios::binary) << contents;
    ASSERT_TRUE(VerifyCheckpoint(path).ok());
  }
  std::cout << "a checkpoint of " << names.size() << " files: " << damages
            << " flips and truncations, at every byte, all found and named\n";
  fs::remove(path + "/optimizer-00002-of-00002.safetensors");
  EXPECT_EQ(
      VerifyCheckpoint(path).status(),
      absl::DataLossError(absl::StrCat("checkpoint ", path,
                                       " is damaged: optimizer-00002-of-00002."
                                       "safetensors is missing")));
}

TEST_F(FoldersTest, ADamagedOneIsSkippedForTheOneBefore) {
  Write(25, 1);
  const std::string newest = Write(50, 2);
  EXPECT_EQ(ChooseCheckpoint(directory_)->checkpoint->path, newest);
  EXPECT_TRUE(ChooseCheckpoint(directory_)->warnings.empty());
  Flip(newest + "/model-00001-of-00002.safetensors", 100);
  auto choice = ChooseCheckpoint(directory_);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->checkpoint->manifest.step, 25);
  ASSERT_EQ(choice->warnings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(choice->warnings[0],
                                "model-00001-of-00002.safetensors"));
  fs::remove(directory_ + "/step-00000025/MANIFEST.json");
  choice = ChooseCheckpoint(directory_);
  EXPECT_TRUE(absl::IsDataLoss(choice.status())) << choice.status();
}

TEST_F(FoldersTest, NoCheckpointIsNoError) {
  const auto choice = ChooseCheckpoint(directory_);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_FALSE(choice->checkpoint.has_value());
}

TEST_F(FoldersTest, KeepsTheNewestThatAreSound) {
  Write(10, 1);
  Write(20, 2);
  const std::string damaged = Write(30, 3);
  Flip(damaged + "/MANIFEST.json", 5);
  Write(90, 9);
  fs::create_directories(directory_ + "/step-00000039.partial-job-0-3");
  // Perhaps of a newer attempt.
  fs::create_directories(directory_ + "/step-00000050.partial-job-1-9");
  Write(40, 4, /*keep=*/2);
  EXPECT_EQ(Names(), (std::set<std::string>{"step-00000020", "step-00000030",
                                            "step-00000040", "step-00000090",
                                            "step-00000050.partial-job-1-9"}));
}

TEST_F(FoldersTest, AStepThatIsThereIsReplacedWhole) {
  Write(25, 1);
  const std::string path = Write(25, 5);
  EXPECT_EQ(FirstOf(path, "h.0.w"), 5);
  EXPECT_TRUE(VerifyCheckpoint(path).ok());
  EXPECT_EQ(Names(), std::set<std::string>{"step-00000025"});
}

TEST_F(FoldersTest, FilesOfAnotherCutDoNotGetIn) {
  const std::string partial =
      absl::StrCat(directory_, "/", PartialFolderName(25, "job-1", 7));
  fs::create_directories(partial);
  std::ofstream(partial + "/model-00001-of-00003.safetensors") << "old";
  const std::string path = Write(25, 1);
  EXPECT_FALSE(fs::exists(path + "/model-00001-of-00003.safetensors"));
}

TEST_F(FoldersTest, ATensorOfTwoStagesIsRefused) {
  const std::string partial = PartialFolderName(25, "job-1", 7);
  std::vector<StageState> states = StatesOf(1);
  states[1].parameters[0].name = "h.0.w";
  auto files = WriteStages(absl::StrCat(directory_, "/", partial), states, 2,
                           cancelled_);
  ASSERT_TRUE(files.ok()) << files.status();
  Manifest manifest = NewManifest("job-1", spec_, 25);
  manifest.files = *files;
  const auto path = SealCheckpoint(directory_, partial, spec_, manifest, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(path.status())) << path.status();
  EXPECT_FALSE(fs::exists(directory_ + "/step-00000025"));
}

TEST_F(FoldersTest, ACancelledWriteStops) {
  cancelled_ = true;
  EXPECT_TRUE(absl::IsCancelled(Try(25, 1).status()));
}

// The disk is full at every possible byte of every file: the checkpoint does
// not come to be, the one before stays whole.
TEST_F(FoldersTest, AFullDiskLeavesTheCheckpointBefore) {
  const std::string before = Write(25, 1);
  int64_t largest = 0;
  for (const auto& entry : fs::directory_iterator(before)) {
    largest = std::max(largest, static_cast<int64_t>(entry.file_size()));
  }
  signal(SIGXFSZ, SIG_IGN);
  rlimit unlimited = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  int refused = 0;
  for (int64_t limit = 0; limit < largest; limit += 1 + largest / 40) {
    rlimit limited = unlimited;
    limited.rlim_cur = static_cast<rlim_t>(limit);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
    const auto path = Try(50, 2);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    EXPECT_TRUE(absl::IsResourceExhausted(path.status()))
        << limit << ": " << path.status();
    ++refused;
    ASSERT_NO_FATAL_FAILURE(ExpectTheOneBefore(before));
  }
  EXPECT_GT(refused, 30);
  EXPECT_TRUE(Try(50, 2).ok());
}

class FoldersFailpointTest : public FoldersTest,
                             public testing::WithParamInterface<const char*> {
 protected:
  ~FoldersFailpointTest() override {
    SetFailpoint(GetParam(), "off").IgnoreError();
  }
};

// The disk is full at the first, second, ... such call, up to the last.
TEST_P(FoldersFailpointTest, AFullDiskAtEachCallLeavesTheCheckpointBefore) {
  if (!FailpointsAreBuilt()) GTEST_SKIP() << "needs --config=failpoints";
  const std::string before = Write(25, 1);
  int refused = 0;
  while (!HasFailure()) {
    SCOPED_TRACE(absl::StrCat("call ", refused + 1));
    ASSERT_TRUE(
        SetFailpoint(GetParam(), absl::StrCat("error@", refused + 1)).ok());
    const auto path = Try(50, 2);
    if (path.ok()) break;
    ++refused;
    EXPECT_TRUE(absl::IsResourceExhausted(path.status())) << path.status();
    ASSERT_NO_FATAL_FAILURE(ExpectTheOneBefore(before));
  }
  EXPECT_GE(refused, 1);
  EXPECT_TRUE(VerifyCheckpoint(directory_ + "/step-00000050").ok());
  std::cout << GetParam() << ": the disk full at each of " << refused
            << " calls, one after the other; each refused\n";
}
INSTANTIATE_TEST_SUITE_P(Places, FoldersFailpointTest,
                         testing::Values("worker.checkpoint.write",
                                         "worker.checkpoint.sync",
                                         "worker.checkpoint.rename"),
                         [](const auto& place) {
                           const std::string name = place.param;
                           return name.substr(name.rfind('.') + 1);
                         });

}  // namespace
}  // namespace stagecoach::checkpoint

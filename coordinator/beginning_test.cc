#include "coordinator/beginning.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/test_spec.h"
#include "gtest/gtest.h"
#include "stage_worker/checkpoint/folders.h"

namespace stagecoach::coordinator {
namespace {

class BeginningTest : public ::testing::Test {
 protected:
  BeginningTest() {
    planned_.spec = TinyJob(2, /*steps=*/10);
    planned_.spec.checkpoint.directory = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory());
  }

  const std::string& directory() const {
    return planned_.spec.checkpoint.directory;
  }
  // A checkpoint of this job, without tensors.
  std::string Store(
      int64_t step,
      std::optional<job::LossScaleState> loss_scale = std::nullopt) {
    const std::string partial = checkpoint::PartialFolderName(step, "job-1", 1);
    std::filesystem::create_directories(
        absl::StrCat(directory(), "/", partial));
    checkpoint::Manifest manifest =
        checkpoint::NewManifest("job-1", planned_.spec, step);
    manifest.loss_scale = loss_scale;
    const auto path = checkpoint::SealCheckpoint(
        directory(), partial, planned_.spec, std::move(manifest), 0);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.ok() ? *path : "";
  }
  void ExpectRefused(bool resume, const std::string& words) {
    const absl::Status status = ChooseBeginning("job-2", resume, &planned_);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
    EXPECT_EQ(planned_.first_step, 0);
  }
  void ExpectBegins(bool resume, int64_t step, const std::string& path) {
    EXPECT_EQ(ChooseBeginning("job-2", resume, &planned_), absl::OkStatus());
    EXPECT_EQ(planned_.first_step, step);
    EXPECT_EQ(planned_.checkpoint, path);
  }

  PlannedJob planned_;
};

TEST_F(BeginningTest, AJobWithoutDirectoryBeginsWithStep0) {
  planned_.spec.checkpoint = job::CheckpointSpec();
  ExpectBegins(false, 0, "");
  ExpectRefused(true, "without checkpoint.directory");
}

TEST_F(BeginningTest, ADirectoryThatHoldsCheckpointsIsNotTakenUnasked) {
  ExpectBegins(false, 0, "");
  Store(4);
  ExpectRefused(false, "(newest: step 4); go on from there with --resume");
}

TEST_F(BeginningTest, GoesOnFromTheNewest) {
  Store(4);
  const std::string newest = Store(8);
  ExpectBegins(true, 8, newest);
}

TEST_F(BeginningTest, TakesTheScaleOfFloat16sLossFromThere) {
  Store(4, job::LossScaleState{512, 3});
  ASSERT_TRUE(ChooseBeginning("job-2", true, &planned_).ok());
  ASSERT_TRUE(planned_.loss_scale.has_value());
  EXPECT_EQ(planned_.loss_scale->value(), 512);
  EXPECT_EQ(planned_.loss_scale->good_steps(), 3);
  Store(8);
  ASSERT_TRUE(ChooseBeginning("job-2", true, &planned_).ok());
  EXPECT_FALSE(planned_.loss_scale.has_value());
}

TEST_F(BeginningTest, PassesOverADamagedOne) {
  const std::string before = Store(4);
  std::filesystem::remove(Store(8) + "/config.json");
  ExpectBegins(true, 4, before);
}

TEST_F(BeginningTest, WithoutAnyCheckpointItBeginsWithStep0) {
  ExpectBegins(true, 0, "");
}

TEST_F(BeginningTest, AllDamagedIsNoReasonToBeginAgain) {
  std::filesystem::remove(Store(4) + "/MANIFEST.json");
  ExpectRefused(true, "no checkpoint of");
}

TEST_F(BeginningTest, AnotherRunsCheckpointIsRefused) {
  Store(4);
  planned_.spec.seed = 8;
  ExpectRefused(true, "it was made with seed = 7, this job has 8");
}

TEST_F(BeginningTest, ALaterStepThanTheLastIsRefused) {
  Store(11);
  ExpectRefused(true, "it is of step 11, training.steps is 10");
  planned_.spec.training.steps = 11;
  ExpectBegins(true, 11, directory() + "/step-00000011");
}

}  // namespace
}  // namespace stagecoach::coordinator

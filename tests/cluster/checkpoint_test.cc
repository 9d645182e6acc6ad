// A job's state on the disk: stored, resumed under another placement, damaged,
// exported.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    folder_.Write("text.txt", SampleText());
    directory_ = folder_.path() + "/checkpoints";
  }

  static TinyJob Job(int steps) {
    TinyJob job;
    job.steps = steps;
    return job;
  }
  void Start(const std::vector<Cluster::WorkerSpec>& workers,
             const TinyJob& job) {
    spec_ = folder_.Write("job.toml", job.ToToml("text.txt"));
    cluster_ = Cluster::Start(workers).value();
  }
  std::vector<std::string> Stored(int every_steps) const {
    return {absl::StrCat("checkpoint.directory=\"", directory_, "\""),
            absl::StrCat("checkpoint.every_steps=", every_steps)};
  }
  json Finished(const std::string& id) {
    cluster_->Command({"job", "wait", id});
    json job = cluster_->Command({"job", "show", id}).json;
    EXPECT_EQ(job.value("state", ""), "SUCCEEDED")
        << job.dump(1) << cluster_->Logs();
    return job;
  }
  json Resumed(std::vector<std::string> settings) {
    const std::vector<std::string> stored = Stored(1000);
    settings.insert(settings.end(), stored.begin(), stored.end());
    std::vector<std::string> arguments = {"job", "submit", spec_, "--resume"};
    for (const std::string& setting : settings) {
      arguments.push_back("--set");
      arguments.push_back(setting);
    }
    const CommandResult submitted = cluster_->Command(arguments);
    EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
    return Finished(submitted.json["job_id"]);
  }
  void Remove(int step) const {
    EXPECT_GT(fs::remove_all(StepFolder(step)), 0u);
  }
  std::string StepFolder(int step) const {
    return absl::StrCat(directory_, "/step-0000000", step);
  }

  TemporaryFolder folder_;
  std::string directory_;
  std::string spec_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(CheckpointTest, ResumesUnderAnyPlacementAndPassesOverDamage) {
  Start(std::vector<Cluster::WorkerSpec>(4), Job(9));
  const json undisturbed = cluster_->RunJob(spec_);
  ASSERT_EQ(undisturbed.value("state", ""), "SUCCEEDED") << cluster_->Logs();
  const json stored = cluster_->RunJob(spec_, Stored(3));
  ASSERT_EQ(stored.value("state", ""), "SUCCEEDED")
      << stored.dump(1) << cluster_->Logs();
  EXPECT_EQ(BitsOf(stored), BitsOf(undisturbed));
  EXPECT_EQ(stored["checkpoint"]["step"], 9);
  EXPECT_EQ(stored["checkpoint"]["path"], StepFolder(9));

  json listed = cluster_->Command({"checkpoint", "list", directory_}).json;
  ASSERT_EQ(listed["checkpoints"].size(), 3u) << listed.dump(1);
  EXPECT_EQ(listed["checkpoints"][2]["step"], 3);

  // The directory is not taken by accident.
  const CommandResult again = RunClient(
      {"--endpoint", cluster_->address(), "run", spec_, "--set", Stored(3)[0]});
  EXPECT_EQ(again.exit_code, 2) << again.err;
  EXPECT_TRUE(absl::StrContains(again.err, "--resume")) << again.err;

  // At its end a resumed job has nothing left to do.
  json resumed = Resumed({});
  EXPECT_EQ(resumed["first_step"], 9);
  EXPECT_TRUE(resumed["steps"].empty());
  EXPECT_EQ(resumed["parameters_sha256"], undisturbed["parameters_sha256"]);

  Remove(9);
  resumed = Resumed({"pipeline.workers=1", "pipeline.stages_per_worker=1",
                     "pipeline.schedule=\"gpipe\""});
  EXPECT_EQ(resumed["first_step"], 6);
  EXPECT_EQ(BitsOf(resumed, 6), BitsOf(undisturbed, 6));

  Remove(9);
  resumed = Resumed({"pipeline.workers=2", "pipeline.stages_per_worker=2",
                     "pipeline.schedule=\"interleaved\"",
                     "pipeline.split=[1, 3, 2, 2]"});
  EXPECT_EQ(BitsOf(resumed, 6), BitsOf(undisturbed, 6));

  // One byte of the newest: the one before is taken, and the damaged one is
  // replaced in the end.
  Remove(9);
  {
    std::fstream file(StepFolder(6) + "/optimizer-00002-of-00004.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }
  const CommandResult verified =
      cluster_->Command({"checkpoint", "verify", directory_});
  EXPECT_EQ(verified.exit_code, 1) << verified.out;
  EXPECT_TRUE(
      absl::StrContains(verified.out, "optimizer-00002-of-00004.safetensors"));
  resumed = Resumed({"checkpoint.keep=1"});
  EXPECT_EQ(resumed["first_step"], 3);
  EXPECT_EQ(BitsOf(resumed, 3), BitsOf(undisturbed, 3));
  EXPECT_TRUE(absl::StrContains(cluster_->Logs(), "taking the one before"));
  listed = cluster_->Command({"checkpoint", "verify", directory_}).json;
  ASSERT_EQ(listed["checkpoints"].size(), 1u) << listed.dump(1);
  EXPECT_EQ(listed["checkpoints"][0]["step"], 9);
  EXPECT_EQ(listed["checkpoints"][0]["sound"], true);

  // What comes out is a plain folder.
  const std::string out = folder_.path() + "/exported";
  const CommandResult exported =
      cluster_->Command({"checkpoint", "export", StepFolder(9), out});
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_TRUE(fs::exists(out + "/config.json"));
  EXPECT_TRUE(fs::exists(out + "/model.safetensors"));
  EXPECT_EQ(
      cluster_->Command({"checkpoint", "export", StepFolder(9), out}).exit_code,
      6);
}

// Stored on request in mid-job; then a worker is killed, and the rest of the
// job runs on half as many.
// The scale of the loss was halved and doubled before: a job that began with
// the first scale again would skip steps again, and double later.
TEST_F(CheckpointTest, Float16GoesOnWithItsLossScale) {
  Start(std::vector<Cluster::WorkerSpec>(2), Job(12));
  const std::vector<std::string> float16 = {
      "pipeline.workers=2", "training.precision=float16",
      "training.initial_loss_scale=67108864",
      "training.loss_scale_growth_steps=2"};
  const json undisturbed = cluster_->RunJob(spec_, float16);
  ASSERT_EQ(undisturbed.value("state", ""), "SUCCEEDED") << cluster_->Logs();
  EXPECT_GE(undisturbed["skipped_steps"], 1) << undisturbed.dump(1);
  std::vector<std::string> stored = Stored(5);
  stored.insert(stored.end(), float16.begin(), float16.end());
  ASSERT_EQ(cluster_->RunJob(spec_, stored).value("state", ""), "SUCCEEDED");
  fs::remove_all(absl::StrCat(directory_, "/step-00000012"));
  fs::remove_all(absl::StrCat(directory_, "/step-00000010"));
  const json resumed = Resumed(float16);
  EXPECT_EQ(resumed["first_step"], 5);
  EXPECT_EQ(BitsOf(resumed, 5), BitsOf(undisturbed, 5));
}

TEST_F(CheckpointTest, AKilledJobGoesOnFromWhatWasAskedFor) {
  Cluster::WorkerSpec slow;
  slow.binary = FaultyWorkerBinary();
  slow.environment = {{"SLOW_ACTION_MS", "5"}};
  Start(std::vector<Cluster::WorkerSpec>(4, slow), Job(40));
  const json undisturbed = cluster_->RunJob(spec_);
  ASSERT_EQ(undisturbed.value("state", ""), "SUCCEEDED") << cluster_->Logs();

  const std::string id = cluster_->Submit(spec_, Stored(1000));
  // A conflict (6) while it is not running yet.
  CommandResult stored = cluster_->Command({"job", "checkpoint", id});
  for (int i = 0; i < 1000 && stored.exit_code == 6; ++i) {
    stored = cluster_->Command({"job", "checkpoint", id});
  }
  ASSERT_EQ(stored.exit_code, 0) << stored.err << cluster_->Logs();
  const int64_t step = stored.json["step"];
  EXPECT_TRUE(
      fs::exists(stored.json["path"].get<std::string>() + "/MANIFEST.json"));
  ASSERT_TRUE(cluster_->worker(2).Signal(SIGKILL).ok());
  EXPECT_EQ(cluster_->Command({"job", "wait", id}).exit_code, 105);

  const json resumed =
      Resumed({"pipeline.workers=2", "pipeline.stages_per_worker=2",
               "pipeline.schedule=\"interleaved\""});
  EXPECT_EQ(resumed["first_step"], step);
  EXPECT_EQ(BitsOf(resumed, step), BitsOf(undisturbed, step));
}

}  // namespace
}  // namespace stagecoach::testing

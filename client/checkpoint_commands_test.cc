#include "client/checkpoint_commands.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/output/json.h"
#include "client/testing/client_process.h"
#include "client/testing/fake_coordinator.h"
#include "client/testing/sample_messages.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stage_worker/checkpoint/folders.h"
#include "stage_worker/checkpoint/safetensors_writer.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

// A sealed checkpoint with one tensor.
std::string Store(const std::string& directory, int64_t step) {
  job::JobSpec spec;
  spec.name = "tiny";
  const std::string partial = checkpoint::PartialFolderName(step, "job-1", 1);
  std::filesystem::create_directories(absl::StrCat(directory, "/", partial));
  const std::string name = "model-00001-of-00001.safetensors";
  const float values[3] = {1, 2, 3};
  checkpoint::TensorToWrite tensor;
  tensor.name = "transformer.wte.weight";
  tensor.descriptor.shape = {3};
  tensor.data = values;
  const auto digest = checkpoint::WriteSafetensors(
      absl::StrCat(directory, "/", partial, "/", name), {tensor}, {});
  EXPECT_TRUE(digest.ok()) << digest.status();
  checkpoint::Manifest manifest = checkpoint::NewManifest("job-1", spec, step);
  manifest.files = {{name, digest->bytes, digest->sha256}};
  const auto path =
      checkpoint::SealCheckpoint(directory, partial, spec, manifest, 0);
  EXPECT_TRUE(path.ok()) << path.status();
  return path.ok() ? *path : "";
}

void Damage(const std::string& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('\x55');
}

TEST(CheckpointCommandsTest, ListShowsTheNewestFirst) {
  const std::string directory = MakeFolder();
  EXPECT_EQ(RunClient({"checkpoint", "list", directory}).out,
            "no checkpoints\n");
  Store(directory, 25);
  const std::string newest = Store(directory, 50);
  const ClientResult result =
      RunClient({"checkpoint", "list", directory, "-o", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const Json list = result.document()["checkpoints"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["step"], 50);
  EXPECT_EQ(list[0]["path"], newest);
  EXPECT_EQ(list[0]["sound"], true);
  EXPECT_EQ(list[1]["job_id"], "job-1");
  EXPECT_THAT(RunClient({"checkpoint", "list", directory}).out,
              HasSubstr("complete"));
  EXPECT_EQ(RunClient({"checkpoint", "list", "/nowhere"}).exit_code, 102);
}

TEST(CheckpointCommandsTest, VerifyNamesWhatIsDamagedAndEndsWith1) {
  const std::string directory = MakeFolder();
  const std::string path = Store(directory, 25);
  Store(directory, 50);
  EXPECT_EQ(RunClient({"checkpoint", "verify", directory}).exit_code, 0);
  EXPECT_EQ(RunClient({"checkpoint", "verify", path}).exit_code, 0);
  Damage(path + "/model-00001-of-00001.safetensors");
  ClientResult result =
      RunClient({"checkpoint", "verify", directory, "-o", "json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.document()["error"]["exit_code"], 1);
  const Json list = result.document()["checkpoints"];
  EXPECT_EQ(list[0]["sound"], true);
  EXPECT_EQ(list[1]["sound"], false);
  EXPECT_THAT(list[1]["message"].get<std::string>(),
              HasSubstr("model-00001-of-00001.safetensors has sha256"));
  result = RunClient({"checkpoint", "verify", path});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("damaged"));
  result = RunClient({"checkpoint", "verify", MakeFolder()});
  EXPECT_EQ(result.exit_code, 102);
  EXPECT_THAT(result.error, HasSubstr("it has no MANIFEST.json"));
}

TEST(CheckpointCommandsTest, ExportTakesTheNewestSoundOneOfADirectory) {
  const std::string directory = MakeFolder();
  Store(directory, 25);
  Damage(Store(directory, 50) + "/config.json");
  const std::string out = directory + "/out";
  ClientResult result =
      RunClient({"checkpoint", "export", directory, out, "-o", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("taking the one before"));
  EXPECT_EQ(result.document()["step"], 25);
  EXPECT_EQ(result.document()["tensors"], 1);
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
  result = RunClient({"checkpoint", "export", directory, out});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.error, HasSubstr("is there already"));
  EXPECT_EQ(RunClient({"checkpoint", "export", directory, out + "2",
                       "--shard-size", "0"})
                .exit_code,
            2);
}

class JobCheckpointTest : public testing::Test {
 protected:
  JobCheckpointTest() : address_(coordinator_.Start()) {}

  ClientResult Run(std::vector<std::string> words) {
    words.insert(words.end(), {"--endpoint", address_});
    return RunClient(words);
  }
  void PutJob(v1::JobState state) {
    v1::Job job = SucceededJob();
    job.set_state(state);
    job.mutable_spec()->mutable_checkpoint()->set_directory("/c");
    coordinator_.Put(job);
  }
  // What becomes of the checkpoint once it is asked for.
  void Answer(const std::string& path, const std::string& error) {
    coordinator_.on_checkpoint = [this, path, error](v1::Job job) {
      job.set_revision(job.revision() + 1);
      job.mutable_checkpoint()->set_path(path);
      job.mutable_checkpoint()->set_step(path.empty() ? 0 : 2);
      job.mutable_checkpoint()->set_error(error);
      job.mutable_checkpoint()->set_failed_step(error.empty() ? 0 : 2);
      coordinator_.Put(job);
    };
  }

  FakeCoordinator coordinator_;
  const std::string address_;
};

TEST_F(JobCheckpointTest, CheckpointWaitsUntilItIsStored) {
  PutJob(v1::JOB_STATE_RUNNING);
  Answer("/c/step-00000002", "");
  const ClientResult result = Run({"job", "checkpoint", "j-1"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "/c/step-00000002\n");
}

TEST_F(JobCheckpointTest, CheckpointSaysWhyThereIsNone) {
  PutJob(v1::JOB_STATE_RUNNING);
  Answer("", "worker w1: no space left");
  ClientResult result = Run({"job", "checkpoint", "j-1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("worker w1: no space left"));
  // The job ends without.
  coordinator_.on_checkpoint = nullptr;
  PutJob(v1::JOB_STATE_CANCELLED);
  result = Run({"job", "checkpoint", "j-1"});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.error, HasSubstr("ended (CANCELLED)"));
  EXPECT_EQ(Run({"job", "checkpoint", "j-9"}).exit_code, 102);
}

TEST_F(JobCheckpointTest, ResumeSubmitsTheSameSpecToGoOn) {
  PutJob(v1::JOB_STATE_FAILED);
  const ClientResult result = Run({"job", "resume", "j-1", "-o", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.document()["resumes"], "j-1");
  const v1::Job job = coordinator_.Find(result.document()["job_id"]);
  EXPECT_EQ(job.first_step(), 1);
  EXPECT_EQ(job.spec().checkpoint().directory(), "/c");
}

TEST_F(JobCheckpointTest, ResumeNeedsAJobThatHasEndedAndADirectory) {
  PutJob(v1::JOB_STATE_RUNNING);
  ClientResult result = Run({"job", "resume", "j-1"});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.error, HasSubstr("only a job that has ended"));
  coordinator_.Put(SucceededJob());
  result = Run({"job", "resume", "j-1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("has no checkpoint.directory"));
}

TEST_F(JobCheckpointTest, SubmitPassesResumeOn) {
  Run({"job", "submit", "examples/tiny.toml"});
  EXPECT_EQ(coordinator_.Find("j-1").first_step(), 0);
  Run({"job", "submit", "examples/tiny.toml", "--resume"});
  EXPECT_EQ(coordinator_.Find("j-2").first_step(), 1);
}

}  // namespace
}  // namespace stagecoach::client

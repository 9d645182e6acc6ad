// A disk that is really full: a small one of its own, for the coordinator's
// journal and for checkpoints, which the test fills to the last byte. Skipped
// where nobody may mount (needs a mount namespace).

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/disturbed_job.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

// A mount namespace of this process; as a user who is nobody special, in a user
// namespace of its own.
bool EnterMountNamespace() {
  if (unshare(CLONE_NEWNS) == 0) return true;
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  Write("/proc/self/setgroups", "deny");
  Write("/proc/self/uid_map", absl::StrCat("0 ", user, " 1"));
  Write("/proc/self/gid_map", absl::StrCat("0 ", group, " 1"));
  return true;
}

bool MountSmallDisk(const std::string& path) {
  mkdir(path.c_str(), 0700);
  return EnterMountNamespace() &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", path.c_str(), "tmpfs", 0, "size=8m") == 0;
}

class FullDiskTest : public DisturbedJobTest {
 protected:
  // Before the fixture makes its folder, which is to lie there.
  static void SetUpTestSuite() {
    const char* base = std::getenv("TEST_TMPDIR");
    base_ = base == nullptr ? "/tmp" : base;
    small_ = base_ + "/small-disk";
    mounted_ = MountSmallDisk(small_);
    if (mounted_) setenv("TEST_TMPDIR", small_.c_str(), 1);
  }
  static void TearDownTestSuite() {
    if (mounted_) umount(small_.c_str());
  }
  void SetUp() override {
    if (!mounted_) GTEST_SKIP() << "this machine lets us mount nothing";
  }
  // What is made from now on lies elsewhere: clients' output, say.
  static void LeaveSmallDisk() { setenv("TEST_TMPDIR", base_.c_str(), 1); }
  void TearDown() override {
    cluster_.reset();
    if (mounted_) setenv("TEST_TMPDIR", small_.c_str(), 1);
  }

  void Fill() {
    std::ofstream ballast(Ballast(), std::ios::binary);
    const std::string piece(1024, 'x');
    while (
        ballast.write(piece.data(), static_cast<std::streamsize>(piece.size()))
            .flush()) {
    }
    EXPECT_EQ(std::filesystem::space(small_).available, 0u);
  }
  void MakeRoom() { std::filesystem::remove(Ballast()); }
  std::string Ballast() const { return folder() + "/ballast"; }
  std::string Spec(int steps) {
    TinyJob job = TwoStageJob(steps);
    job.max_failures = 1;
    return WriteSpec(job);
  }

  static inline std::string base_;
  static inline std::string small_;
  static inline bool mounted_ = false;
  std::unique_ptr<Cluster> cluster_;
};

// Steps go on while they can be written later; what somebody asks for is
// refused; the end cannot be recorded, so the coordinator stops and says why.
// The next one goes on from where the workers are.
TEST_F(FullDiskTest, OfTheJournalLosesNothing) {
  const std::string spec = Spec(30);
  cluster_ = Cluster::StartDurable(SlowWorkers(2, 20)).value();
  LeaveSmallDisk();
  const json expected = Undisturbed(spec);
  const std::string id = cluster_->Submit(spec);
  ASSERT_TRUE(WaitForStep(*cluster_, id, 3)) << cluster_->Logs();
  Fill();
  const CommandResult refused = cluster_->Command({"job", "submit", spec});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(refused.out + refused.err, "cannot record"))
      << refused.out << refused.err;
  EXPECT_EQ(cluster_->coordinator().Wait(absl::Minutes(2)).value_or(-1), 1)
      << cluster_->Logs();
  MakeRoom();
  ASSERT_TRUE(cluster_->RestartCoordinator().ok()) << cluster_->Logs();
  const json job = Finished(*cluster_, id);
  ExpectSame(job, expected);
  EXPECT_TRUE(job["recoveries"].empty()) << job["recoveries"];
  EXPECT_EQ(cluster_->Command({"job", "list"}).json["jobs"].size(), 1u);
  std::cout << "a submit refused, the coordinator ended with 1, "
            << job["steps"].size() << " steps, none lost; bit-equal\n";
  if (HasFailure()) std::cout << cluster_->Logs();
}

TEST_F(FullDiskTest, OfCheckpointsCostsTheCheckpoint) {
  const std::string spec = Spec(60);
  const std::vector<std::string> settings = Checkpoints(5);
  LeaveSmallDisk();
  const json expected = Undisturbed(spec);
  cluster_ = Cluster::StartDurable(SlowWorkers(2, 20)).value();
  const std::string id = cluster_->Submit(spec, settings);
  const auto checkpoint = [this,
                           &id](const std::function<bool(const json&)>& is) {
    return WaitUntil(*cluster_, id,
                     [&](const json& job) {
                       return job.contains("checkpoint") &&
                              is(job["checkpoint"]);
                     })
        .is_object();
  };
  ASSERT_TRUE(checkpoint([](const json& last) { return last["step"] >= 5; }));
  Fill();
  EXPECT_TRUE(checkpoint([](const json& last) {
    return absl::StrContains(last.dump(), "No space left on device");
  })) << cluster_->Logs();
  MakeRoom();
  const json job = Finished(*cluster_, id);
  ExpectSame(job, expected);
  EXPECT_EQ(job["checkpoint"]["step"], 60) << job["checkpoint"];
  EXPECT_TRUE(job["recoveries"].empty()) << job["recoveries"];
  const CommandResult verified =
      RunClient({"checkpoint", "verify", folder() + "/checkpoints"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  std::cout << "a checkpoint refused, the next ones written; bit-equal\n";
  if (HasFailure()) std::cout << cluster_->Logs();
}

}  // namespace
}  // namespace stagecoach::testing

#include "client/daemon_binary.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

class FindDaemonTest : public testing::Test {
 protected:
  FindDaemonTest() {
    std::string pattern = testing::TempDir() + "/daemonXXXXXX";
    root_ = mkdtemp(pattern.data());
    mkdir((root_ + "/client").c_str(), 0700);
    mkdir((root_ + "/stage_worker").c_str(), 0700);
    unsetenv("STAGECOACH_WORKER_BINARY");
  }
  ~FindDaemonTest() override { unsetenv("STAGECOACH_WORKER_BINARY"); }

  std::string MakeFile(const std::string& name, mode_t mode) {
    const std::string path = root_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n";
    chmod(path.c_str(), mode);
    return path;
  }
  absl::StatusOr<std::string> Find() {
    return FindDaemon(WorkerBinary(), root_ + "/client");
  }

  std::string root_;
};

TEST_F(FindDaemonTest, LooksInTheBuildTree) {
  MakeFile("stage_worker/stagecoach-worker", 0700);
  EXPECT_EQ(*Find(), root_ + "/client/../stage_worker/stagecoach-worker");
}

TEST_F(FindDaemonTest, PrefersTheFileBesideItself) {
  MakeFile("stage_worker/stagecoach-worker", 0700);
  const std::string beside = MakeFile("client/stagecoach-worker", 0700);
  EXPECT_EQ(*Find(), beside);
}

TEST_F(FindDaemonTest, TheEnvironmentComesFirst) {
  MakeFile("client/stagecoach-worker", 0700);
  const std::string other = MakeFile("other", 0700);
  setenv("STAGECOACH_WORKER_BINARY", other.c_str(), 1);
  EXPECT_EQ(*Find(), other);
}

TEST_F(FindDaemonTest, AWrongEnvironmentIsNotPassedOver) {
  MakeFile("client/stagecoach-worker", 0700);
  setenv("STAGECOACH_WORKER_BINARY", (root_ + "/nothing").c_str(), 1);
  EXPECT_EQ(Find().status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(Find().status().message()),
              HasSubstr("STAGECOACH_WORKER_BINARY"));
}

TEST_F(FindDaemonTest, SaysWhereItLookedAndHowToBuild) {
  const std::string message(Find().status().message());
  EXPECT_THAT(message, HasSubstr(root_ + "/client/stagecoach-worker"));
  EXPECT_THAT(message,
              HasSubstr("bazel build //stage_worker:stagecoach-worker"));
}

TEST_F(FindDaemonTest, AFolderIsNotAProgram) {
  mkdir((root_ + "/client/stagecoach-worker").c_str(), 0700);
  EXPECT_EQ(Find().status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace stagecoach::client

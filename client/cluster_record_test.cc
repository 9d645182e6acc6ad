#include "client/cluster_record.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "base/process_identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

class ClusterRecordTest : public testing::Test {
 protected:
  ClusterRecordTest() {
    std::string pattern = testing::TempDir() + "/recordXXXXXX";
    folder_ = std::string(mkdtemp(pattern.data())) + "/state";
  }
  ClusterRecord Ourselves() {
    ClusterRecord record;
    record.endpoint = "127.0.0.1:4711";
    record.ready = true;
    record.processes = {{"coordinator", IdentityOf(getpid()).value()}};
    return record;
  }
  std::string folder_;
};

TEST_F(ClusterRecordTest, ReadsWhatWasWritten) {
  EXPECT_TRUE(absl::IsNotFound(ReadClusterRecord(folder_).status()));
  ASSERT_TRUE(WriteClusterRecord(folder_, Ourselves()).ok());
  const ClusterRecord read = ReadClusterRecord(folder_).value();
  EXPECT_EQ(read.endpoint, "127.0.0.1:4711");
  EXPECT_TRUE(read.ready);
  ASSERT_EQ(read.processes.size(), 1u);
  EXPECT_EQ(read.processes[0].name, "coordinator");
  EXPECT_EQ(read.processes[0].identity.pid, getpid());
  EXPECT_TRUE(IsRunning(read.processes[0].identity));
}

TEST_F(ClusterRecordTest, TheFolderIsForItsUserAlone) {
  ASSERT_TRUE(WriteClusterRecord(folder_, Ourselves()).ok());
  const auto permissions = std::filesystem::status(folder_).permissions();
  EXPECT_EQ(permissions & std::filesystem::perms::all,
            std::filesystem::perms::owner_all);
}

TEST_F(ClusterRecordTest, ADamagedRecordIsSaid) {
  ASSERT_TRUE(WriteClusterRecord(folder_, Ourselves()).ok());
  std::ofstream(folder_ + "/cluster.json") << "{\"endpoint\": 7";
  const absl::Status status = ReadClusterRecord(folder_).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cluster.json"));
  EXPECT_FALSE(LiveCluster(folder_).has_value());
}

TEST_F(ClusterRecordTest, AClusterLivesAsLongAsItsCoordinator) {
  EXPECT_FALSE(LiveCluster(folder_).has_value());
  ClusterRecord record = Ourselves();
  ASSERT_TRUE(WriteClusterRecord(folder_, record).ok());
  ASSERT_TRUE(LiveCluster(folder_).has_value());
  EXPECT_EQ(LiveCluster(folder_)->endpoint, "127.0.0.1:4711");
  record.endpoint.clear();
  ASSERT_TRUE(WriteClusterRecord(folder_, record).ok());
  EXPECT_FALSE(LiveCluster(folder_).has_value()) << "nobody knows where";
  // Its number was given to another process.
  record = Ourselves();
  record.processes[0].identity.start_ticks += 1;
  ASSERT_TRUE(WriteClusterRecord(folder_, record).ok());
  EXPECT_FALSE(LiveCluster(folder_).has_value());
}

TEST_F(ClusterRecordTest, NamesTheFilesOfTls) {
  ClusterRecord record = Ourselves();
  ASSERT_TRUE(WriteClusterRecord(folder_, record).ok());
  EXPECT_TRUE(ReadClusterRecord(folder_)->tls.empty());
  record.tls.authority = "/ca.pem";
  record.tls.certificate = "/node.pem";
  record.tls.key = "/node.key";
  record.tls.name = "cluster";
  ASSERT_TRUE(WriteClusterRecord(folder_, record).ok());
  const TlsFiles read = ReadClusterRecord(folder_)->tls;
  for (const TlsFlag& flag : kTlsFlags) {
    EXPECT_EQ(read.*flag.member, record.tls.*flag.member) << flag.flag;
  }
}

TEST_F(ClusterRecordTest, RemovesOnlyWhatIsItsOwn) {
  ASSERT_TRUE(WriteClusterRecord(folder_, Ourselves()).ok());
  const std::string logs = ClusterLogFolder(folder_);
  std::filesystem::create_directory(logs);
  std::ofstream(logs + "/coordinator.log") << "line\n";
  std::ofstream(logs + "/mine.log") << "line\n";
  RemoveClusterFiles(folder_, {});
  EXPECT_TRUE(std::filesystem::exists(logs + "/coordinator.log"));
  RemoveClusterFiles(folder_, {"coordinator", "w0"});
  EXPECT_FALSE(std::filesystem::exists(logs + "/coordinator.log"));
  EXPECT_TRUE(std::filesystem::exists(logs + "/mine.log"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/cluster.json"));
}

TEST_F(ClusterRecordTest, OneLockAtATimeAndNothingIsLeftOfIt) {
  {
    const auto lock = ClusterLock::Take(folder_);
    ASSERT_TRUE(lock.ok());
    EXPECT_TRUE(absl::IsAlreadyExists(ClusterLock::Take(folder_).status()));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_TRUE(ClusterLock::Take(folder_).ok());
}

TEST(ClusterFolderTest, ComesFromTheLineOrTheEnvironment) {
  EXPECT_EQ(ClusterFolder("/given"), "/given");
  setenv("XDG_STATE_HOME", "/xdg", 1);
  setenv("HOME", "/home/me", 1);
  unsetenv("STAGECOACH_DIRECTORY");
  EXPECT_EQ(ClusterFolder(""), "/xdg/stagecoach");
  unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(ClusterFolder(""), "/home/me/.local/state/stagecoach");
  setenv("STAGECOACH_DIRECTORY", "/here", 1);
  EXPECT_EQ(ClusterFolder(""), "/here");
}

}  // namespace
}  // namespace stagecoach::client

// A kept cluster of real processes, as its user lives with it.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/process_identity.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

class UpTest : public ::testing::Test {
 protected:
  UpTest() { folder_.Write("text.txt", SampleText()); }
  ~UpTest() override {
    for (const ProcessIdentity& process : processes_) {
      auto opened = ForeignProcess::Open(process);
      if (opened.ok()) opened->Signal(SIGKILL).IgnoreError();
    }
  }
  CommandResult Run(const std::vector<std::string>& words) {
    return RunClient(
        words, {{"STAGECOACH_DIRECTORY", state_}, {"STAGECOACH_ENDPOINT", ""}});
  }
  static std::vector<nlohmann::json> Lines(const std::string& text) {
    std::vector<nlohmann::json> lines;
    for (const auto& line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      lines.push_back(nlohmann::json::parse(std::string(line)));
    }
    return lines;
  }

  TemporaryFolder folder_;
  const std::string state_ = folder_.path() + "/state";
  std::vector<ProcessIdentity> processes_;
};

TEST_F(UpTest, UpSubmitLogsEventsDownLeaveNothingBehind) {
  const CommandResult up = Run({"up", "--workers", "2", "-o", "json"});
  ASSERT_EQ(up.exit_code, 0) << up.err;
  for (const auto& process : up.json["processes"]) {
    processes_.push_back(
        IdentityOf(process["process_id"].get<pid_t>()).value());
  }
  ASSERT_EQ(processes_.size(), 3u);
  EXPECT_EQ(Run({"up"}).exit_code, 6);

  TinyJob job;
  job.workers = 2;
  job.steps = 4;
  const std::string spec = folder_.Write("job.toml", job.ToToml("text.txt"));
  const CommandResult submitted = Run({"job", "submit", spec});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string id(absl::StripSuffix(submitted.out, "\n"));

  // Both follow the job to its end.
  const CommandResult logs = Run({"job", "logs", id, "-f"});
  EXPECT_EQ(logs.exit_code, 0) << logs.err;
  for (const char* line : {"w0 | ", "w1 | ", "assigned: stage 0",
                           "assigned: stage 1", "connected: ", "finished; "}) {
    EXPECT_NE(logs.out.find(line), std::string::npos) << logs.out;
  }
  const std::string end =
      absl::StrCat("[end of the log of ", id, ": SUCCEEDED]\n");
  ASSERT_GE(logs.out.size(), end.size());
  EXPECT_EQ(logs.out.substr(logs.out.size() - end.size()), end);

  const std::vector<nlohmann::json> events =
      Lines(Run({"job", "events", id, "-f", "-o", "json"}).out);
  ASSERT_GT(events.size(), 2u);
  std::string kinds;
  int64_t revision = 0;
  for (const nlohmann::json& event : events) {
    if (event.contains("end")) continue;
    EXPECT_EQ(event["revision"], ++revision);
    absl::StrAppend(&kinds, event["event"].get<std::string>(), " ");
  }
  EXPECT_NE(kinds.find("running step step step step "), std::string::npos)
      << kinds;
  EXPECT_EQ(events.back()["over"], true);

  // In two parts, by offset, one worker's log is what it is as a whole.
  const std::string whole = Run({"job", "logs", id, "--worker", "w1"}).out;
  const std::string rest =
      Run({"job", "logs", id, "--worker", "w1", "--offset", "40"}).out;
  EXPECT_EQ(rest, whole.substr(40));

  const CommandResult down = Run({"down"});
  EXPECT_EQ(down.exit_code, 0) << down.err;
  EXPECT_EQ(down.out, "3 processes ended\n");
  EXPECT_EQ(down.err, "");
  for (const ProcessIdentity& process : processes_) {
    EXPECT_FALSE(IsRunning(process));
  }
  EXPECT_FALSE(std::filesystem::exists(state_));
}

// The worker's last words reach the reader though it fails.
TEST_F(UpTest, AFailedJobsLogSaysWhy) {
  auto cluster = Cluster::Start(2).value();
  TinyJob job;
  job.workers = 2;
  job.steps = 100000;
  const std::string spec = folder_.Write("job.toml", job.ToToml("text.txt"));
  const std::string id = cluster->Submit(spec);
  auto follower = StartClient({"--endpoint", cluster->address(), "job", "logs",
                               id, "-f", "--worker", "w0"},
                              folder_.path() + "/follower")
                      .value();
  // It has connected: the job runs.
  std::string log;
  while (log.find("connected: ") == std::string::npos) {
    auto line = follower.ReadLine(absl::Minutes(2));
    ASSERT_TRUE(line.ok()) << line.status() << log;
    absl::StrAppend(&log, *line, "\n");
  }
  ASSERT_TRUE(cluster->worker(1).Signal(SIGKILL).ok());
  for (;;) {
    auto line = follower.ReadLine(absl::Minutes(2));
    if (!line.ok()) break;
    absl::StrAppend(&log, *line, "\n");
  }
  EXPECT_EQ(follower.Wait(absl::Minutes(1)).value(), 0);
  EXPECT_NE(log.find("aborted: "), std::string::npos) << log;
  EXPECT_NE(log.find("has let go of everything"), std::string::npos) << log;
  EXPECT_NE(log.find(": FAILED]"), std::string::npos) << log;
}

TEST_F(UpTest, TheDoctorFindsNothingWrong) {
  const CommandResult doctor = Run({"doctor", "--workers", "1", "-o", "json"});
  EXPECT_EQ(doctor.exit_code, 0) << doctor.out;
  ASSERT_TRUE(doctor.json.is_object()) << doctor.out;
  for (const auto& check : doctor.json["checks"]) {
    if (check["check"] != "libtorch") continue;
    EXPECT_NE(check["detail"].get<std::string>().find("torch 2."),
              std::string::npos)
        << check;
  }
}

}  // namespace
}  // namespace stagecoach::testing

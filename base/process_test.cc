#include "base/process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/notification.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

// Far more than a child needs; only a failure waits so long.
constexpr absl::Duration kPatience = absl::Seconds(60);

SpawnOptions ChildThat(std::vector<std::string> arguments) {
  SpawnOptions options;
  options.program = ExecutableFolder() + "/process_test_child";
  options.arguments = std::move(arguments);
  options.pipe_stdout = true;
  return options;
}

ChildProcess MustSpawn(const SpawnOptions& options) {
  absl::StatusOr<ChildProcess> child = ChildProcess::Spawn(options);
  if (!child.ok()) {
    ADD_FAILURE() << child.status();
    std::abort();
  }
  return *std::move(child);
}

TEST(ChildProcessTest, PassesArgumentsAndTellsWhoItsParentIs) {
  ChildProcess child = MustSpawn(ChildThat({"echo", "one", "two words"}));
  EXPECT_EQ(*child.ReadLine(kPatience), "one");
  EXPECT_EQ(*child.ReadLine(kPatience), "two words");
  EXPECT_EQ(*child.ReadLine(kPatience),
            absl::StrCat("--die-with-parent=", getpid()));
  EXPECT_EQ(child.ReadLine(kPatience).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(*child.Wait(kPatience), 7);
}

TEST(ChildProcessTest, EnvironmentIsTheCallersWithTheGivenOnTop) {
  setenv("SC_TEST_KEPT", "kept", 1);
  setenv("SC_TEST_CHANGED", "old", 1);
  SpawnOptions options = ChildThat({"getenv", "SC_TEST_CHANGED"});
  options.environment = {{"SC_TEST_CHANGED", "new"}};
  EXPECT_EQ(*MustSpawn(options).ReadLine(kPatience), "new");
  EXPECT_EQ(
      *MustSpawn(ChildThat({"getenv", "SC_TEST_KEPT"})).ReadLine(kPatience),
      "kept");
}

TEST(ChildProcessTest, StdinIsWhatIsWritten) {
  SpawnOptions options = ChildThat({"reverse"});
  options.pipe_stdin = true;
  ChildProcess child = MustSpawn(options);
  ASSERT_TRUE(child.Write("one\ntwo\n").ok());
  EXPECT_EQ(*child.ReadLine(kPatience), "eno");
  EXPECT_EQ(*child.ReadLine(kPatience), "owt");
  // More than a pipe holds, and by bytes.
  const std::string many(1 << 17, 'm');
  ASSERT_TRUE(child.Write(many + "!\n").ok());
  EXPECT_EQ(*child.ReadBytes(1, kPatience), "!");
  EXPECT_EQ(*child.ReadBytes(many.size(), kPatience), many);
  EXPECT_EQ(*child.ReadLine(kPatience), "");
  EXPECT_EQ(child.ReadBytes(1, absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ChildProcessTest, WritingToWhoDoesNotListenIsAnError) {
  SpawnOptions options = ChildThat({"deaf"});
  options.pipe_stdin = true;
  ChildProcess child = MustSpawn(options);
  EXPECT_EQ(*child.ReadLine(kPatience), "ready");
  EXPECT_EQ(child.Write("anybody?").code(), absl::StatusCode::kUnavailable);
  // Its stdin is empty unless it is asked for.
  ChildProcess other = MustSpawn(ChildThat({"reverse"}));
  EXPECT_EQ(*other.Wait(kPatience), 0);
  EXPECT_EQ(other.Write("anybody?").code(), absl::StatusCode::kUnavailable);
}

TEST(ChildProcessTest, AppendsStderrToAFile) {
  SpawnOptions options = ChildThat({"complain"});
  options.stderr_file = testing::TempDir() + "/process_test_stderr";
  unlink(options.stderr_file.c_str());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*MustSpawn(options).Wait(kPatience), 0);
  }
  std::ifstream file(options.stderr_file);
  std::stringstream contents;
  contents << file.rdbuf();
  EXPECT_EQ(contents.str(), "complaint\ncomplaint\n");
}

TEST(ChildProcessTest, StdoutMayGoWhereStderrGoes) {
  SpawnOptions options = ChildThat({"echo", "one"});
  options.pipe_stdout = false;
  options.stdout_to_stderr_file = true;
  options.stderr_file = testing::TempDir() + "/process_test_both";
  unlink(options.stderr_file.c_str());
  EXPECT_EQ(*MustSpawn(options).Wait(kPatience), 7);
  std::ifstream file(options.stderr_file);
  std::string line;
  EXPECT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "one");
}

TEST(ChildProcessTest, SaysWhichProgramCannotBeStarted) {
  SpawnOptions options;
  options.program = "/nowhere/worker";
  const absl::Status status = ChildProcess::Spawn(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(status.message(), "/nowhere/worker")) << status;
}

TEST(ChildProcessTest, RunsInASessionOfItsOwnIfAskedTo) {
  SpawnOptions options;
  options.program = "/bin/sleep";
  options.arguments = {"1000"};
  options.die_with_parent = false;
  ChildProcess ours = MustSpawn(options);
  EXPECT_EQ(getsid(ours.pid()), getsid(0));
  options.own_session = true;
  ChildProcess its_own = MustSpawn(options);
  EXPECT_EQ(getsid(its_own.pid()), its_own.pid());
  EXPECT_EQ(getpgid(its_own.pid()), its_own.pid());
}

TEST(ChildProcessTest, RunsInAProcessGroupOfItsOwn) {
  ChildProcess child = MustSpawn(ChildThat({"wait"}));
  EXPECT_EQ(*child.ReadLine(kPatience), "ready");
  EXPECT_EQ(getpgid(child.pid()), child.pid());
}

TEST(ChildProcessTest, ReadLineAndWaitGiveUpWhenTheTimeIsOver) {
  ChildProcess child = MustSpawn(ChildThat({"wait"}));
  EXPECT_EQ(*child.ReadLine(kPatience), "ready");
  EXPECT_EQ(child.ReadLine(absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(child.Wait(absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  int exit_code = 0;
  EXPECT_FALSE(child.HasEnded(&exit_code));
}

TEST(ChildProcessTest, ReportsTheSignalThatEndedIt) {
  ChildProcess child = MustSpawn(ChildThat({"wait"}));
  EXPECT_EQ(*child.ReadLine(kPatience), "ready");
  EXPECT_TRUE(child.Signal(SIGKILL).ok());
  EXPECT_EQ(*child.Wait(kPatience), 128 + SIGKILL);
}

TEST(ChildProcessTest, NeverSignalsAProcessThatWasReaped) {
  ChildProcess child = MustSpawn(ChildThat({"echo"}));
  EXPECT_EQ(*child.Wait(kPatience), 7);
  EXPECT_EQ(child.Signal(SIGTERM).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(child.Stop(absl::ZeroDuration()), 7);
  int exit_code = 0;
  EXPECT_TRUE(child.HasEnded(&exit_code));
  EXPECT_EQ(exit_code, 7);
}

TEST(ChildProcessTest, StopAsksFirst) {
  ChildProcess child = MustSpawn(ChildThat({"wait"}));
  EXPECT_EQ(*child.ReadLine(kPatience), "ready");
  EXPECT_EQ(child.Stop(kPatience), 128 + SIGTERM);
}

TEST(ChildProcessTest, StopEndsAChildThatIgnoresIt) {
  ChildProcess child = MustSpawn(ChildThat({"ignore-term"}));
  EXPECT_EQ(*child.ReadLine(kPatience), "ready");
  EXPECT_EQ(child.Stop(absl::Milliseconds(1)), 128 + SIGKILL);
}

TEST(ChildProcessTest, StopEndsAChildThatIsStopped) {
  ChildProcess child = MustSpawn(ChildThat({"wait"}));
  EXPECT_EQ(*child.ReadLine(kPatience), "ready");
  EXPECT_TRUE(child.Signal(SIGSTOP).ok());
  // Until it has stopped, SIGTERM could still come first.
  int wait_status = 0;
  EXPECT_EQ(waitpid(child.pid(), &wait_status, WUNTRACED), child.pid());
  EXPECT_TRUE(WIFSTOPPED(wait_status));
  EXPECT_EQ(child.Stop(absl::Milliseconds(1)), 128 + SIGKILL);
}

TEST(ChildProcessTest, DestructorAndAssignmentKillAndReap) {
  ChildProcess child = MustSpawn(ChildThat({"wait"}));
  const pid_t first = child.pid();
  child = MustSpawn(ChildThat({"wait"}));
  EXPECT_EQ(kill(first, 0), -1);
  pid_t second = 0;
  {
    const ChildProcess moved = std::move(child);
    second = moved.pid();
    EXPECT_EQ(kill(second, 0), 0);
  }
  EXPECT_EQ(kill(second, 0), -1);
}

// test -> middle -> orphan. Both write to one pipe, which ends with the last of
// them: that is the orphan, which is stopped.
TEST(DieWithParentTest, AStoppedChildDiesWhenItsParentIsKilled) {
  ChildProcess middle = MustSpawn(ChildThat({"middle"}));
  ASSERT_EQ(*middle.ReadLine(kPatience), "ready");
  ASSERT_TRUE(middle.Signal(SIGKILL).ok());
  EXPECT_EQ(middle.ReadLine(kPatience).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(DieWithParentTest, EndsAtOnceIfTheParentIsGoneAlready) {
  ChildProcess child = MustSpawn(ChildThat({"late-orphan"}));
  EXPECT_EQ(child.ReadLine(kPatience).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(*child.Wait(kPatience), 1);
}

TEST(OnTerminationSignalTest, RunsTheCallbackForEachSignal) {
  static Notification interrupted;
  static Notification terminated;
  OnTerminationSignal([](int signal) {
    (signal == SIGINT ? interrupted : terminated).Notify();
  });
  kill(getpid(), SIGINT);
  interrupted.WaitForNotification();
  kill(getpid(), SIGTERM);
  terminated.WaitForNotification();
  // Children get the signals although the parent blocks them.
  ChildProcess child = MustSpawn(ChildThat({"wait"}));
  EXPECT_EQ(*child.ReadLine(kPatience), "ready");
  EXPECT_EQ(child.Stop(kPatience), 128 + SIGTERM);
}

}  // namespace
}  // namespace stagecoach

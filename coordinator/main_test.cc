// The coordinator's process as a user starts it.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/process.h"
#include "base/version.h"
#include "coordinator/scripted_worker.h"
#include "gtest/gtest.h"
#include "rpc/channel.h"
#include "stagecoach/v1/session.grpc.pb.h"

namespace stagecoach::coordinator {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

class CoordinatorProcessTest : public ::testing::Test {
 protected:
  CoordinatorProcessTest() {
    const char* folder = std::getenv("TEST_TMPDIR");
    stderr_file_ = absl::StrCat(
        folder == nullptr ? "/tmp" : folder, "/coordinator_stderr.", getpid(),
        ".", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::remove(stderr_file_.c_str());
  }
  ~CoordinatorProcessTest() override { std::remove(stderr_file_.c_str()); }

  ChildProcess Spawn(std::vector<std::string> arguments) {
    SpawnOptions options;
    options.program = ExecutableFolder() + "/stagecoach-coordinator";
    options.arguments = std::move(arguments);
    options.pipe_stdout = true;
    options.stderr_file = stderr_file_;
    auto child = ChildProcess::Spawn(options);
    if (!child.ok()) {
      ADD_FAILURE() << child.status();
      std::abort();
    }
    return *std::move(child);
  }
  // Its address.
  static std::string Listening(ChildProcess& child) {
    const auto line = child.ReadLine(kPatience);
    EXPECT_TRUE(line.ok()) << line.status();
    if (!line.ok()) return "";
    EXPECT_TRUE(absl::StartsWith(*line, "listening on ")) << *line;
    return std::string(absl::StripPrefix(*line, "listening on "));
  }
  int ExitCode(std::vector<std::string> arguments) {
    ChildProcess child = Spawn(std::move(arguments));
    const auto code = child.Wait(kPatience);
    EXPECT_TRUE(code.ok()) << code.status();
    return code.value_or(-1);
  }
  std::string Stderr() const {
    std::ifstream file(stderr_file_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static int Lines(const std::string& text) {
    int lines = 0;
    for (const char c : text) lines += c == '\n';
    return lines;
  }

  std::string stderr_file_;
};

TEST_F(CoordinatorProcessTest, SaysWhereItListensAndStopsOnSigterm) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ChildProcess child = Spawn({"--listen", "127.0.0.1:0"});
    const std::string address = Listening(child);
    EXPECT_TRUE(absl::StartsWith(address, "127.0.0.1:"));
    EXPECT_FALSE(absl::EndsWith(address, ":0"));
    ASSERT_TRUE(child.Signal(signal).ok());
    const auto code = child.Wait(absl::Seconds(10));
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, 0);
  }
}

TEST_F(CoordinatorProcessTest, OpenSessionsDoNotHoldUpItsEnd) {
  ChildProcess child = Spawn({"--listen", "127.0.0.1:0"});
  const auto stub = v1::SessionService::NewStub(rpc::Connect(Listening(child)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  auto stream = stub->Session(&context);
  stream->Write(ScriptedRegistration("w0", 1, ""));
  v1::CoordinatorMessage message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_TRUE(message.has_welcome());
  ASSERT_TRUE(child.Signal(SIGTERM).ok());
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  const auto code = child.Wait(absl::Seconds(10));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
}

TEST_F(CoordinatorProcessTest, TakenPortIsOneLineAndExitSix) {
  ChildProcess first = Spawn({"--listen", "127.0.0.1:0"});
  const std::string address = Listening(first);
  const std::string before = Stderr();
  EXPECT_EQ(ExitCode({"--listen", address}), 6);
  const std::string text = Stderr().substr(before.size());
  EXPECT_EQ(Lines(text), 1) << text;
  EXPECT_TRUE(absl::StrContains(text, address)) << text;
}

TEST_F(CoordinatorProcessTest, BadUsageIsExitTwo) {
  const std::vector<std::vector<std::string>> bad = {
      {"--listen", "nonsense"},
      {"--listen", "192.0.2.1:0", "--allow-plaintext"},
      {"--heartbeat", "soon"},
      {"--heartbeat", "-1s"},
      {"--heartbeat", "3s"},
      {"--dead", "inf"},
      {"--log-level", "loud"},
      {"--unknown"},
      {"surplus"},
  };
  for (const auto& arguments : bad) {
    EXPECT_EQ(ExitCode(arguments), 2) << arguments.back();
  }
}

TEST_F(CoordinatorProcessTest, ListeningBeyondTheMachineIsNotAllowed) {
  EXPECT_EQ(ExitCode({"--listen", "0.0.0.0:0"}), 4);
  EXPECT_EQ(Lines(Stderr()), 1) << Stderr();
  EXPECT_TRUE(absl::StrContains(Stderr(), "--allow-plaintext")) << Stderr();
}

TEST_F(CoordinatorProcessTest, ADataDirectoryBelongsToOne) {
  const std::string data = stderr_file_ + ".data";
  ChildProcess first =
      Spawn({"--listen", "127.0.0.1:0", "--data-directory", data});
  ASSERT_NE(Listening(first), "");
  const std::string before = Stderr();
  EXPECT_EQ(ExitCode({"--listen", "127.0.0.1:0", "--data-directory", data}), 6);
  const std::string text = Stderr().substr(before.size());
  EXPECT_EQ(Lines(text), 1) << text;
  EXPECT_TRUE(
      absl::StrContains(text, absl::StrCat("process ", first.pid(), " on ")))
      << text;
  EXPECT_EQ(ExitCode({"check", data}), 6);
  first.Stop(absl::Seconds(10));
  EXPECT_EQ(ExitCode({"check", data}), 0);
  std::filesystem::remove_all(data);
}

TEST_F(CoordinatorProcessTest, ADamagedJournalIsRefusedAndRepaired) {
  const std::string data = stderr_file_ + ".data";
  const std::vector<std::string> serve = {"--listen", "127.0.0.1:0",
                                          "--data-directory", data};
  ChildProcess first = Spawn(serve);
  ASSERT_NE(Listening(first), "");
  first.Stop(absl::ZeroDuration());
  std::ofstream(data + "/mark") << "nonsense";
  const std::string before = Stderr();
  EXPECT_EQ(ExitCode(serve), 1);
  EXPECT_TRUE(absl::StrContains(
      Stderr().substr(before.size()),
      absl::StrCat("`stagecoach-coordinator check ", data, "`")))
      << Stderr();
  EXPECT_EQ(ExitCode({"check", data}), 1);
  EXPECT_TRUE(
      absl::StrContains(Stderr(), "stagecoach-coordinator repair " + data));
  EXPECT_EQ(ExitCode({"repair", data}), 0);
  ChildProcess again = Spawn(serve);
  EXPECT_NE(Listening(again), "");
  again.Stop(absl::Seconds(10));
  std::filesystem::remove_all(data);
}

TEST_F(CoordinatorProcessTest, TellsItsVersionAndHelp) {
  ChildProcess version = Spawn({"--version"});
  EXPECT_EQ(*version.ReadLine(kPatience),
            absl::StrCat("stagecoach-coordinator ", kVersion, " (protocol ",
                         kProtocolVersion, ")"));
  EXPECT_EQ(*version.Wait(kPatience), 0);
  EXPECT_EQ(ExitCode({"--help"}), 0);
}

}  // namespace
}  // namespace stagecoach::coordinator

#include "client/doctor_command.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/process.h"
#include "base/version.h"
#include "client/program_checks.h"
#include "client/testing/client_process.h"
#include "client/testing/fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

using testing::HasSubstr;

class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    const std::string daemon = ExecutableFolder() + "/fake_daemon";
    environment_ = {{"STAGECOACH_COORDINATOR_BINARY", daemon},
                    {"STAGECOACH_WORKER_BINARY", daemon},
                    {"STAGECOACH_DIRECTORY", MakeFolder()},
                    {"STAGECOACH_ENDPOINT", ""}};
  }
  ClientResult Doctor(const std::string& name = "",
                      const std::string& value = "") {
    ClientProcess::Environment environment;
    for (const auto& entry : environment_) {
      if (entry.first != name) environment.push_back(entry);
    }
    if (!name.empty()) environment.emplace_back(name, value);
    return RunClient({"doctor", "-o", "json", "--workers", "1"}, environment);
  }
  static Json Find(const ClientResult& result, const std::string& check) {
    const Json document = result.document();
    for (const Json& entry : document["checks"]) {
      if (entry["check"] == check) return entry;
    }
    ADD_FAILURE() << "nothing about " << check << " in " << result.out;
    return Json();
  }

  ClientProcess::Environment environment_;
};

TEST_F(DoctorTest, AWarningIsNoFailure) {
  const ClientResult result = Doctor();
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_EQ(result.document()["ok"], true);
  EXPECT_EQ(Find(result, "stagecoach-worker")["result"], "ok");
  EXPECT_EQ(Find(result, "stagecoach-coordinator")["remedy"], nullptr);
  EXPECT_EQ(Find(result, "libtorch")["detail"],
            "engine torch, device cpu, torch 2.11.0");
  EXPECT_EQ(Find(result, "CUDA")["result"], "warn");
  EXPECT_THAT(Find(result, "CUDA")["detail"].get<std::string>(),
              HasSubstr("there is no usable GPU"));
  EXPECT_EQ(Find(result, "coordinator")["result"], "warn");
  for (const char* check : {"NCCL", "shared memory", "/dev/shm", "unix sockets",
                            "loopback", "memory", "cores", "clock"}) {
    Find(result, check);
  }
}

TEST_F(DoctorTest, TextHasALineForEachAndTheRemedy) {
  const ClientResult result = RunClient({"doctor"}, environment_);
  EXPECT_THAT(result.out, HasSubstr("ok    stagecoach-worker"));
  EXPECT_THAT(result.out, HasSubstr("-> `stagecoach up` starts one"));
}

TEST_F(DoctorTest, AnotherVersionFails) {
  const ClientResult result = Doctor("FAKE_VERSION", "0.0.1 (protocol 1)");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.document()["ok"], false);
  const Json finding = Find(result, "stagecoach-coordinator");
  EXPECT_EQ(finding["result"], "fail");
  EXPECT_THAT(finding["detail"].get<std::string>(),
              HasSubstr("is 0.0.1 (protocol 1), this command "));
}

TEST_F(DoctorTest, AMissingLibraryFailsWithTheLoadersWords) {
  const ClientResult result = Doctor("FAKE_CHECK", "fails");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(Find(result, "libtorch")["detail"].get<std::string>(),
              HasSubstr("libtorch_cpu.so: cannot open shared object file"));
}

TEST_F(DoctorTest, AMissingProgramFails) {
  const ClientResult result = Doctor("STAGECOACH_WORKER_BINARY", "/no/such");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(Find(result, "stagecoach-worker")["result"], "fail");
  EXPECT_THAT(Find(result, "stagecoach-worker")["remedy"].get<std::string>(),
              HasSubstr("/no/such"));
}

TEST_F(DoctorTest, AGivenCoordinatorMustAnswer) {
  const ClientResult none = Doctor("STAGECOACH_ENDPOINT", "127.0.0.1:1");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(Find(none, "coordinator")["result"], "fail");
  FakeCoordinator coordinator;
  const std::string address = coordinator.Start();
  const ClientResult found = Doctor("STAGECOACH_ENDPOINT", address);
  EXPECT_EQ(found.exit_code, 0) << found.out;
  EXPECT_THAT(
      Find(found, "coordinator")["detail"].get<std::string>(),
      HasSubstr(absl::StrCat("9.8.7 (protocol ", kProtocolVersion, ")")));
}

TEST_F(DoctorTest, ACoordinatorOfAnotherProtocolFails) {
  FakeCoordinator coordinator;
  coordinator.protocol = kProtocolVersion + 1;
  const ClientResult result =
      Doctor("STAGECOACH_ENDPOINT", coordinator.Start());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(Find(result, "coordinator")["result"], "fail");
}

TEST(JudgeVersionTest, TheNameInFrontDoesNotMatter) {
  const std::string ours =
      absl::StrCat(kVersion, " (protocol ", kProtocolVersion, ")");
  EXPECT_EQ(JudgeVersion("p", "/p", "p " + ours + "\n").verdict, Verdict::kOk);
  EXPECT_EQ(JudgeVersion("p", "/p", ours).verdict, Verdict::kOk);
  EXPECT_EQ(JudgeVersion("p", "/p", std::string(kVersion)).verdict,
            Verdict::kFail);
}

TEST(OutputOfTest, BoundsWhatItWaitsFor) {
  EXPECT_EQ(*OutputOf("/bin/sh", {"-c", "echo one; echo two; true"},
                      absl::Minutes(1)),
            "one\ntwo\n");
  EXPECT_TRUE(absl::IsDeadlineExceeded(OutputOf("/bin/sh",
                                                {"-c", "echo; exec sleep 1000"},
                                                absl::Milliseconds(200))
                                           .status()));
  EXPECT_THAT(
      std::string(OutputOf("/bin/sh", {"-c", "echo no such thing >&2; exit 3"},
                           absl::Minutes(1))
                      .status()
                      .message()),
      HasSubstr("no such thing"));
}

}  // namespace
}  // namespace stagecoach::client

// The same job gives the same bits over every way between its workers.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);

class TransportsTest : public ::testing::Test {
 protected:
  TransportsTest() { folder_.Write("text.txt", SampleText()); }
  std::string Spec(int workers) {
    TinyJob job;
    job.workers = workers;
    job.steps = 3;
    return folder_.Write(absl::StrCat("job", workers, ".toml"),
                         job.ToToml("text.txt"));
  }
  TemporaryFolder folder_;
};

TEST_F(TransportsTest, TcpGivesTheBitsOfSharedMemory) {
  const auto cluster = Cluster::Start(4).value();
  for (const int workers : {2, 4}) {
    const nlohmann::json shm = cluster->RunJob(Spec(workers));
    ASSERT_EQ(shm.value("state", ""), "SUCCEEDED")
        << shm.dump(1) << cluster->Logs();
    EXPECT_EQ(shm["transport"], "shm");
    EXPECT_EQ(shm["edges"][0]["why"], "same host");
    const nlohmann::json tcp =
        cluster->RunJob(Spec(workers), {"pipeline.transport=tcp"});
    ASSERT_EQ(tcp.value("state", ""), "SUCCEEDED")
        << tcp.dump(1) << cluster->Logs();
    EXPECT_EQ(tcp["transport"], "tcp");
    // Activations and gradients between neighbours, the tied gradient both ways
    // between the ends.
    EXPECT_EQ(tcp["edges"].size(), static_cast<size_t>(2 * (workers - 1) + 2));
    for (const auto& edge : tcp["edges"]) {
      EXPECT_EQ(edge["transport"], "tcp");
      EXPECT_EQ(edge["why"], "asked for by pipeline.transport");
    }
    EXPECT_EQ(BitsOf(tcp), BitsOf(shm));
    std::cout << "P=" << workers << ": " << BitsOf(tcp) << std::endl;
  }
}

// Everything that listens and dials, by the variables that stand for the flags.
TEST_F(TransportsTest, TlsGivesTheBitsOfSharedMemory) {
  const std::string certificates = folder_.path() + "/certificates";
  ASSERT_TRUE(MakeCertificates(certificates, {"node"}));
  const std::pair<const char*, std::string> variables[] = {
      {"STAGECOACH_TLS_AUTHORITY", certificates + "/authority.pem"},
      {"STAGECOACH_TLS_CERTIFICATE", certificates + "/node.pem"},
      {"STAGECOACH_TLS_KEY", certificates + "/node.key"}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  const auto cluster = Cluster::Start(2).value();
  const nlohmann::json shm = cluster->RunJob(Spec(2));
  const nlohmann::json tcp =
      cluster->RunJob(Spec(2), {"pipeline.transport=tcp"});
  // `run --local` starts programs of its own, which take part in it, too.
  const CommandResult local =
      RunClient({"-o", "json", "run", Spec(2), "--local"});
  for (const auto& variable : variables) unsetenv(variable.first);
  EXPECT_EQ(shm["transport"], "shm") << cluster->Logs();
  EXPECT_EQ(tcp["transport"], "tcp") << cluster->Logs();
  EXPECT_EQ(BitsOf(tcp), BitsOf(shm));
  EXPECT_EQ(local.exit_code, 0) << local.err;
  EXPECT_EQ(BitsOf(local.json), BitsOf(shm));

  // Without a certificate nobody is heard; with one of our own authority, as
  // the flags give it, also not.
  EXPECT_EQ(cluster->Command({"job", "list"}).exit_code, 3);
  const std::string own = folder_.path() + "/own";
  ASSERT_TRUE(MakeCertificates(own, {"stranger"}));
  std::vector<std::string> arguments = TlsFlags(own, "stranger");
  arguments.insert(arguments.end(), {"job", "list"});
  EXPECT_EQ(cluster->Command(arguments).exit_code, 3);
  arguments = TlsFlags(certificates, "node");
  arguments.insert(arguments.end(), {"job", "list"});
  const CommandResult heard = cluster->Command(arguments);
  EXPECT_EQ(heard.exit_code, 0) << heard.err;
  EXPECT_EQ(heard.json["jobs"].size(), 2u);
}

// A network namespace that ends with its process, so that nothing is left of it
// however this test ends. With a /sys of its own, where UCX looks for network
// devices, if that may be mounted.
class Namespace {
 public:
  static absl::StatusOr<Namespace> Create() {
    SpawnOptions spawn;
    spawn.program = "/usr/bin/unshare";
    spawn.arguments = {"--net", "--mount", "/bin/sh", "-c",
                       ("ip link set lo up && "
                        "if mount -t sysfs none /sys; then echo sysfs; "
                        "else echo ready; fi && exec sleep 600")};
    spawn.pipe_stdout = true;
    spawn.die_with_parent = false;
    absl::StatusOr<ChildProcess> holder = ChildProcess::Spawn(spawn);
    if (!holder.ok()) return holder.status();
    const auto ready = holder->ReadLine(kStartTimeout);
    if (!ready.ok()) return ready.status();
    return Namespace(*std::move(holder), *ready == "sysfs");
  }
  bool has_sysfs() const { return has_sysfs_; }

  pid_t pid() const { return holder_.pid(); }
  SpawnOptions Inside(const std::string& program,
                      const std::vector<std::string>& arguments) const {
    SpawnOptions spawn;
    spawn.program = "/usr/bin/nsenter";
    spawn.arguments = {absl::StrCat("--target=", pid()), "--net", "--mount",
                       "--wd", program};
    spawn.arguments.insert(spawn.arguments.end(), arguments.begin(),
                           arguments.end());
    return spawn;
  }
  bool Run(const std::string& command) const {
    SpawnOptions spawn = Inside("/bin/sh", {"-c", command});
    spawn.die_with_parent = false;
    absl::StatusOr<ChildProcess> child = ChildProcess::Spawn(spawn);
    return child.ok() && child->Wait(kStartTimeout).value_or(-1) == 0;
  }

 private:
  Namespace(ChildProcess holder, bool has_sysfs)
      : holder_(std::move(holder)), has_sysfs_(has_sysfs) {}
  ChildProcess holder_;
  bool has_sysfs_;
};

constexpr char kLeft[] = "10.77.0.1";
constexpr char kRight[] = "10.77.0.2";

// Two machines, as far as the network is concerned.
class NamespacesTest : public TransportsTest {
 protected:
  void SetUp() override {
    absl::StatusOr<Namespace> left = Namespace::Create();
    absl::StatusOr<Namespace> right = Namespace::Create();
    if (!left.ok() || !right.ok() ||
        !left->Run(absl::StrCat("ip link add veth0 type veth peer name veth1 "
                                "netns ",
                                right->pid(), " && ip addr add ", kLeft,
                                "/24 dev veth0 && ip link set veth0 up")) ||
        !right->Run(absl::StrCat("ip addr add ", kRight,
                                 "/24 dev veth1 && ip link set veth1 up"))) {
      GTEST_SKIP() << "this machine does not let us make network namespaces "
                      "(needs root and iproute2)";
    }
    left_.emplace(*std::move(left));
    right_.emplace(*std::move(right));
    AwaitLink(*left_, "veth0");
    AwaitLink(*right_, "veth1");
  }

  // The kernel tells some time after it has happened that a link is up.
  static void AwaitLink(const Namespace& where, const std::string& name) {
    ASSERT_TRUE(where.Run(absl::StrCat(
        "for i in $(seq 200); do ip -brief link show ", name,
        " | grep -q LOWER_UP && exit 0; sleep 0.05; done; exit 1")));
  }

  // TLS, with certificates for both machines.
  void UseTls() {
    certificates_ = folder_.path() + "/certificates";
    ASSERT_TRUE(MakeCertificates(certificates_, {kLeft, kRight, "user"}));
  }
  // What a program on the machine needs beside its own flags.
  std::vector<std::string> Security(const std::string& machine) const {
    if (certificates_.empty()) return {"--allow-plaintext"};
    return TlsFlags(certificates_, machine);
  }

  ChildProcess Start(const Namespace& where, const std::string& program,
                     std::vector<std::string> arguments,
                     const std::string& log) const {
    const std::vector<std::string> security =
        Security(&where == &*left_ ? kLeft : kRight);
    arguments.insert(arguments.end(), security.begin(), security.end());
    SpawnOptions spawn = where.Inside(program, arguments);
    spawn.pipe_stdout = true;
    spawn.stderr_file = absl::StrCat(folder_.path(), "/", log);
    return ChildProcess::Spawn(spawn).value();
  }

  // The document of a job on a worker in each, started with `arguments` too.
  nlohmann::json Run(const std::vector<std::string>& arguments) {
    ChildProcess coordinator =
        Start(*left_, CoordinatorBinary(),
              {"--listen", absl::StrCat(kLeft, ":0")}, "coordinator");
    const std::string line = coordinator.ReadLine(kStartTimeout).value();
    const std::string address(absl::StripPrefix(line, "listening on "));
    const auto start_worker = [&](const Namespace& where,
                                  const std::string& name,
                                  const std::string& machine) {
      std::vector<std::string> all = {
          "--coordinator", address, "--name", name, "--listen", machine + ":0"};
      all.insert(all.end(), arguments.begin(), arguments.end());
      return Start(where, WorkerBinary(), all, name);
    };
    ChildProcess w0 = start_worker(*left_, "w0", kLeft);
    ChildProcess w1 = start_worker(*right_, "w1", kRight);
    std::vector<std::string> words;
    if (!certificates_.empty()) words = Security("user");
    words.insert(words.end(),
                 {"--endpoint", address, "-o", "json", "run", Spec(2)});
    SpawnOptions client = left_->Inside(ClientBinary(), words);
    client.die_with_parent = false;
    client.pipe_stdout = true;
    client.stderr_file = folder_.path() + "/client";
    ChildProcess run = ChildProcess::Spawn(client).value();
    std::string document;
    for (auto text = run.ReadLine(absl::Minutes(3)); text.ok();
         text = run.ReadLine(absl::Minutes(3))) {
      absl::StrAppend(&document, *text, "\n");
    }
    EXPECT_EQ(run.Wait(kStartTimeout).value(), 0)
        << document << Log("w0") << Log("w1");
    return nlohmann::json::parse(document, nullptr, false);
  }

  std::string Log(const std::string& name) const {
    std::ifstream file(absl::StrCat(folder_.path(), "/", name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  // Over `transport` because of the namespaces, with the bits of one machine.
  void ExpectBitsOfOneMachine(const nlohmann::json& apart,
                              const std::string& transport) {
    ASSERT_TRUE(apart.is_object());
    ASSERT_EQ(apart.value("state", ""), "SUCCEEDED") << apart.dump(1);
    EXPECT_EQ(apart["transport"], transport);
    EXPECT_NE(apart["edges"][0]["why"].get<std::string>().find("namespace"),
              std::string::npos);
    std::cout << apart["edges"].dump(1) << std::endl;
    const CommandResult here =
        RunClient({"-o", "json", "run", Spec(2), "--local"});
    ASSERT_EQ(here.exit_code, 0) << here.err;
    EXPECT_EQ(here.json["transport"], "shm");
    EXPECT_EQ(BitsOf(apart), BitsOf(here.json));
    std::cout << "parameters over " << transport << ": "
              << apart.value("parameters_sha256", "") << "\n"
              << "parameters with --local: "
              << here.json.value("parameters_sha256", "") << std::endl;
  }

  std::optional<Namespace> left_;
  std::optional<Namespace> right_;
  std::string certificates_;  // folder; empty: no TLS
};

TEST_F(NamespacesTest, TwoNetworkNamespacesTalkOverTcp) {
  ExpectBitsOfOneMachine(Run({}), "tcp");
}

TEST_F(NamespacesTest, TwoNetworkNamespacesTalkOverTcpWithTls) {
  UseTls();
  ExpectBitsOfOneMachine(Run({}), "tcp");
  EXPECT_FALSE(absl::StrContains(Log("w0"), "without encryption"));
  EXPECT_FALSE(absl::StrContains(Log("coordinator"), "without encryption"));
}

#if STAGECOACH_HAVE_UCX_HEADERS
// Workers that were told of UCX take it before tcp.
TEST_F(NamespacesTest, TwoNetworkNamespacesTalkOverUcx) {
  if (!left_->has_sysfs() || !right_->has_sysfs()) {
    GTEST_SKIP() << "UCX finds no network device: this machine does not let us "
                    "mount /sys";
  }
  ExpectBitsOfOneMachine(Run({"--ucx-library", "libucp.so.0"}), "ucx");
}
#endif

}  // namespace
}  // namespace stagecoach::testing

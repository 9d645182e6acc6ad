#include "tests/cluster/cluster.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status.h"

namespace stagecoach::testing {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);

// Test programs find what they test beside themselves in Bazel's runfiles.
std::string InRunfiles(const std::string& path) {
  return std::filesystem::absolute(path).string();
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

Environment WithBinaries(const Environment& environment) {
  Environment all = {{"STAGECOACH_COORDINATOR_BINARY", CoordinatorBinary()},
                     {"STAGECOACH_WORKER_BINARY", WorkerBinary()}};
  all.insert(all.end(), environment.begin(), environment.end());
  return all;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  const char* base = getenv("TEST_TMPDIR");
  std::string pattern =
      absl::StrCat(base == nullptr ? "/tmp" : base, "/cluster-XXXXXX");
  path_ = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::Write(const std::string& name,
                                   const std::string& contents) const {
  std::string path = absl::StrCat(path_, "/", name);
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::string ClientBinary() { return InRunfiles("client/stagecoach"); }
std::string CoordinatorBinary() {
  return InRunfiles("coordinator/stagecoach-coordinator");
}
std::string WorkerBinary() {
  return InRunfiles("stage_worker/stagecoach-worker");
}
std::string FaultyWorkerBinary() {
  return InRunfiles("tests/cluster/faulty_worker");
}

absl::StatusOr<ChildProcess> StartClient(
    const std::vector<std::string>& arguments, const std::string& stderr_file,
    const Environment& environment) {
  SpawnOptions spawn;
  spawn.program = ClientBinary();
  spawn.arguments = arguments;
  spawn.environment = WithBinaries(environment);
  spawn.stderr_file = stderr_file;
  spawn.pipe_stdout = true;
  spawn.die_with_parent = false;
  return ChildProcess::Spawn(spawn);
}

CommandResult RunClient(const std::vector<std::string>& arguments,
                        const Environment& environment,
                        absl::Duration timeout) {
  TemporaryFolder folder;
  const std::string stderr_file = absl::StrCat(folder.path(), "/stderr");
  CommandResult result;
  auto child = StartClient(arguments, stderr_file, environment);
  if (!child.ok()) {
    result.err = std::string(child.status().message());
    return result;
  }
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    auto line = child->ReadLine(deadline - absl::Now());
    if (!line.ok()) break;
    absl::StrAppend(&result.out, *line, "\n");
  }
  auto ended = child->Wait(deadline - absl::Now());
  result.exit_code = ended.ok() ? *ended : child->Stop(absl::ZeroDuration());
  result.err = ReadFile(stderr_file);
  result.json = nlohmann::json::parse(result.out, nullptr, false);
  if (result.json.is_discarded()) result.json = nullptr;
  return result;
}

absl::Status Cluster::SpawnCoordinator(const Environment& environment) {
  SpawnOptions spawn;
  spawn.program = CoordinatorBinary();
  spawn.arguments = {"--listen", address_.empty() ? "127.0.0.1:0" : address_};
  if (durable_) {
    spawn.arguments.push_back("--data-directory");
    spawn.arguments.push_back(data_directory());
  }
  spawn.arguments.insert(spawn.arguments.end(), coordinator_arguments_.begin(),
                         coordinator_arguments_.end());
  spawn.environment = environment;
  spawn.stderr_file = folder_.path() + "/coordinator";
  spawn.pipe_stdout = true;
  SC_ASSIGN_OR_RETURN(coordinator_, ChildProcess::Spawn(spawn));
  SC_ASSIGN_OR_RETURN(const std::string line,
                      coordinator_->ReadLine(kStartTimeout));
  absl::string_view address = line;
  if (!absl::ConsumePrefix(&address, "listening on ")) {
    return absl::InternalError(absl::StrCat("the coordinator said ", line));
  }
  address_ = std::string(address);
  return absl::OkStatus();
}

int Cluster::KillCoordinator() {
  return coordinator_->Stop(absl::ZeroDuration());
}

absl::Status Cluster::RestartCoordinator() { return SpawnCoordinator({}); }

absl::StatusOr<ChildProcess> Cluster::SpawnWorker(size_t index) const {
  const WorkerSpec& worker = specs_[index];
  SpawnOptions options;
  options.program = worker.binary.empty() ? WorkerBinary() : worker.binary;
  options.arguments = {"--coordinator", address_, "--name",
                       absl::StrCat("w", index)};
  options.arguments.insert(options.arguments.end(), worker.arguments.begin(),
                           worker.arguments.end());
  options.environment = worker.environment;
  options.stderr_file = absl::StrCat(folder_.path(), "/w", index);
  return ChildProcess::Spawn(options);
}

absl::Status Cluster::SpawnWorkers(const std::vector<WorkerSpec>& workers) {
  specs_ = workers;
  for (size_t i = 0; i < workers.size(); ++i) {
    SC_ASSIGN_OR_RETURN(ChildProcess child, SpawnWorker(i));
    workers_.push_back(std::move(child));
  }
  return absl::OkStatus();
}

void Cluster::KillWorker(int index) {
  // Fails only if it has ended already.
  worker(index).Signal(SIGKILL).IgnoreError();
  worker(index).Stop(kStartTimeout);
}

absl::Status Cluster::RestartWorker(int index) {
  Environment& environment = specs_[static_cast<size_t>(index)].environment;
  environment.erase(std::remove_if(environment.begin(), environment.end(),
                                   [](const auto& variable) {
                                     return variable.first ==
                                            "STAGECOACH_FAILPOINT";
                                   }),
                    environment.end());
  SC_ASSIGN_OR_RETURN(worker(index), SpawnWorker(static_cast<size_t>(index)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Start(
    const std::vector<WorkerSpec>& workers) {
  auto cluster = std::unique_ptr<Cluster>(new Cluster);
  SC_RETURN_IF_ERROR(cluster->SpawnCoordinator({}));
  SC_RETURN_IF_ERROR(cluster->SpawnWorkers(workers));
  return cluster;
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::StartDurable(
    const std::vector<WorkerSpec>& workers, const Environment& coordinator,
    const std::vector<std::string>& arguments) {
  auto cluster = std::unique_ptr<Cluster>(new Cluster);
  cluster->durable_ = true;
  cluster->coordinator_arguments_ = arguments;
  SC_RETURN_IF_ERROR(cluster->SpawnCoordinator(coordinator));
  SC_RETURN_IF_ERROR(cluster->SpawnWorkers(workers));
  return cluster;
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Start(int count) {
  return Start(std::vector<WorkerSpec>(static_cast<size_t>(count)));
}

Cluster::~Cluster() {
  for (ChildProcess& worker : workers_) {
    worker.Signal(SIGTERM).IgnoreError();
  }
  for (ChildProcess& worker : workers_) worker.Stop(absl::Seconds(10));
  if (coordinator_) coordinator_->Stop(absl::Seconds(10));
}

std::string Cluster::Logs() const {
  std::string logs;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path())) {
    absl::StrAppend(&logs, "---- ", entry.path().filename().string(), "\n",
                    ReadFile(entry.path().string()));
  }
  return logs;
}

CommandResult Cluster::Command(std::vector<std::string> arguments,
                               absl::Duration timeout) const {
  arguments.insert(arguments.begin(), {"--endpoint", address_, "-o", "json"});
  return RunClient(arguments, {}, timeout);
}

std::string Cluster::Submit(const std::string& spec_file,
                            const std::vector<std::string>& settings) const {
  std::vector<std::string> arguments = {"job", "submit", spec_file};
  for (const std::string& setting : settings) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  const CommandResult submitted = Command(arguments);
  if (submitted.exit_code != 0 || !submitted.json.is_object()) {
    std::cerr << "submit failed: " << submitted.err << submitted.out << "\n";
    return "";
  }
  return submitted.json.value("job_id", "");
}

nlohmann::json Cluster::RunJob(const std::string& spec_file,
                               const std::vector<std::string>& settings) const {
  const std::string id = Submit(spec_file, settings);
  if (id.empty()) return nullptr;
  Command({"job", "wait", id});
  return Command({"job", "show", id}).json;
}

bool MakeCertificates(const std::string& folder,
                      const std::vector<std::string>& names) {
  SpawnOptions spawn;
  spawn.program = InRunfiles("scripts/make_certificates.sh");
  spawn.arguments = {folder};
  spawn.arguments.insert(spawn.arguments.end(), names.begin(), names.end());
  spawn.die_with_parent = false;
  absl::StatusOr<ChildProcess> made = ChildProcess::Spawn(spawn);
  return made.ok() && made->Wait(absl::Seconds(60)).value_or(-1) == 0;
}

std::vector<std::string> TlsFlags(const std::string& folder,
                                  const std::string& name) {
  return {"--tls-authority",   folder + "/authority.pem",
          "--tls-certificate", absl::StrCat(folder, "/", name, ".pem"),
          "--tls-key",         absl::StrCat(folder, "/", name, ".key")};
}

std::string BitsOf(const nlohmann::json& job, int64_t first_step) {
  std::string bits = job.at("parameters_sha256").get<std::string>();
  for (const nlohmann::json& step : job.at("steps")) {
    if (step.at("step").get<int64_t>() < first_step) continue;
    absl::StrAppend(&bits, "\n", step.at("step").dump(), " ",
                    step.at("loss").dump(), " ", step.at("grad_norm").dump());
  }
  return bits;
}

std::string TinyJob::EvenSplit() const {
  const int stages = workers * stages_per_worker;
  std::vector<int> counts(static_cast<size_t>(stages), layers / stages);
  for (int i = 0; i < layers % stages; ++i) ++counts[static_cast<size_t>(i)];
  return absl::StrCat("[", absl::StrJoin(counts, ", "), "]");
}

std::string TinyJob::ToToml(const std::string& data_path) const {
  return absl::StrCat(
      "name = \"tiny\"\n[model]\nlayers = ", layers, "\nhidden = ", hidden,
      "\nheads = ", heads, "\ntie_embeddings = ", tied ? "true" : "false",
      "\n[data]\npath = \"", data_path, "\"\nsequence_length = ", sequence,
      "\n[training]\nsteps = ", steps, "\nmicrobatches = ", microbatches,
      "\nmicrobatch_size = ", microbatch_size, "\nlearning_rate = 1e-3",
      "\n[pipeline]\nworkers = ", workers,
      "\nstages_per_worker = ", stages_per_worker, "\nsplit = ", split,
      "\nschedule = \"", schedule, "\"\nrelease = \"", release,
      "\"\nsend_budget = ", send_budget,
      "\n[recovery]\nmax_failures = ", max_failures, "\n");
}

std::string SampleText() {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&text, "The coach number ", i % 37, " leaves stage ",
                    i % 11, " with ", i % 5, " passengers and arrives at ",
                    (i * 7) % 24, " o'clock.\n");
  }
  return text;
}

}  // namespace stagecoach::testing

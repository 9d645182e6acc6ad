#include "tests/cluster/disturbed_job.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace stagecoach::testing {
namespace {

using nlohmann::json;

bool Within2Minutes(const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + absl::Minutes(2);
  while (absl::Now() < deadline) {
    if (done()) return true;
  }
  return false;
}

}  // namespace

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  int value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

std::vector<Cluster::WorkerSpec> SlowWorkers(int count, int milliseconds) {
  Cluster::WorkerSpec worker;
  worker.binary = FaultyWorkerBinary();
  worker.environment = {{"SLOW_ACTION_MS", absl::StrCat(milliseconds)}};
  return std::vector<Cluster::WorkerSpec>(static_cast<size_t>(count), worker);
}

TinyJob TwoStageJob(int steps) {
  TinyJob job;
  job.layers = 2;
  job.hidden = 16;
  job.heads = 2;
  job.sequence = 8;
  job.microbatches = 4;
  job.microbatch_size = 1;
  job.workers = 2;
  job.steps = steps;
  return job;
}

TinyJob ThreeStageJob(int steps) {
  TinyJob job = TwoStageJob(steps);
  job.layers = 3;
  job.workers = 3;
  job.split = job.EvenSplit();
  return job;
}

DisturbedJobTest::DisturbedJobTest() {
  folder_.Write("text.txt", SampleText());
}

std::string DisturbedJobTest::WriteSpec(const TinyJob& job) const {
  return folder_.Write("job.toml", job.ToToml("text.txt"));
}

std::vector<std::string> DisturbedJobTest::Checkpoints(int every_steps) const {
  return {absl::StrCat("checkpoint.directory=\"", folder(), "/checkpoints\""),
          absl::StrCat("checkpoint.every_steps=", every_steps)};
}

std::string DisturbedJobTest::ReadFile(const std::string& name) const {
  std::ifstream file(absl::StrCat(folder(), "/", name));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

json DisturbedJobTest::Undisturbed(const std::string& spec) {
  auto cluster = Cluster::Start(2).value();
  return cluster->RunJob(spec);
}

json DisturbedJobTest::Show(const Cluster& cluster, const std::string& id) {
  return cluster.Command({"job", "show", id}).json;
}

json DisturbedJobTest::Finished(const Cluster& cluster, const std::string& id) {
  cluster.Command({"job", "wait", id});
  return Show(cluster, id);
}

json DisturbedJobTest::WaitUntil(const Cluster& cluster, const std::string& id,
                                 const std::function<bool(const json&)>& done) {
  json job;
  const bool in_time = Within2Minutes([&] {
    job = Show(cluster, id);
    // Not so the error of a job that is not there yet.
    return job.is_object() && job.contains("steps") && done(job);
  });
  return in_time ? job : nullptr;
}

bool DisturbedJobTest::WaitForStep(const Cluster& cluster,
                                   const std::string& id, size_t steps) {
  return !WaitUntil(cluster, id, [steps](const json& job) {
            return job["steps"].size() >= steps;
          }).is_null();
}

bool DisturbedJobTest::WaitForIdle(const Cluster& cluster, int count) {
  return Within2Minutes([&] {
    const json list = cluster.Command({"worker", "list"}).json;
    if (!list.is_object()) return false;
    const json& workers = list["workers"];
    return std::count_if(workers.begin(), workers.end(),
                         [](const json& worker) {
                           return worker["state"] == "IDLE";
                         }) == count;
  });
}

void DisturbedJobTest::ExpectSame(const json& job, const json& expected) {
  ASSERT_TRUE(job.is_object());
  ASSERT_EQ(expected["state"], "SUCCEEDED") << expected.dump(1);
  ASSERT_EQ(job["state"], "SUCCEEDED") << job.dump(1);
  ASSERT_EQ(job["steps"].size(), expected["steps"].size());
  for (size_t i = 0; i < job["steps"].size(); ++i) {
    for (const char* key :
         {"step", "loss", "grad_norm", "learning_rate", "skipped"}) {
      EXPECT_EQ(job["steps"][i][key], expected["steps"][i][key])
          << key << " of step " << i;
    }
  }
  EXPECT_EQ(job["parameters_sha256"], expected["parameters_sha256"]);
}

}  // namespace stagecoach::testing

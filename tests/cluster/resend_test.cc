// A job whose TCP connections break again and again in the middle of transfers:
// what had not arrived is sent again, once, and the result has the same bits.
//
//   RESEND_CUTS=N RESEND_SEED=N   in the environment: others than 50 and 1

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cluster/cluster.h"

namespace stagecoach::testing {
namespace {

constexpr int kWorkers = 2;
// Of one transfer: microbatch_size * sequence * hidden floats are 4 KiB.
constexpr int kLongestBytes = 20'000;

int Setting(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

TEST(ResendTest, FiftyCutsLeaveNoTraceInTheResult) {
  const int cuts = Setting("RESEND_CUTS", 50);
  const int seed = Setting("RESEND_SEED", 1);
  TemporaryFolder folder;
  folder.Write("text.txt", SampleText());
  TinyJob job;
  job.workers = kWorkers;
  job.tied = false;  // its gradient is larger than what one connection carries
  // A worker sends 32 KiB in a step, three cuts' worth: enough for twice as
  // many as there are.
  job.steps = 8 + cuts / 3;
  const std::string spec =
      folder.Write("job.toml", job.ToToml(folder.path() + "/text.txt"));
  std::vector<Cluster::WorkerSpec> workers(kWorkers);
  for (int i = 0; i < kWorkers; ++i) {
    Cluster::WorkerSpec& worker = workers[static_cast<size_t>(i)];
    worker.binary = FaultyWorkerBinary();
    const int share = cuts / kWorkers + (i < cuts % kWorkers ? 1 : 0);
    worker.environment = {
        {"CUT_TCP", absl::StrCat(seed + i, " ", share, " ", kLongestBytes)}};
  }
  const auto cluster = Cluster::Start(workers).value();

  const nlohmann::json whole =
      cluster->RunJob(spec, {"pipeline.transport=shm"});
  ASSERT_EQ(whole.value("state", ""), "SUCCEEDED")
      << whole.dump(1) << cluster->Logs();
  const nlohmann::json cut = cluster->RunJob(spec, {"pipeline.transport=tcp"});
  ASSERT_EQ(cut.value("state", ""), "SUCCEEDED")
      << "seed " << seed << cut.dump(1) << cluster->Logs();
  EXPECT_EQ(cut["transport"], "tcp");
  EXPECT_EQ(BitsOf(cut), BitsOf(whole)) << "seed " << seed;

  // As the workers' logs have it, which are whole once they have ended.
  for (int i = 0; i < kWorkers; ++i) cluster->worker(i).Stop(absl::Seconds(60));
  const std::string logs = cluster->Logs();
  static const std::regex line(
      "(\\d+) connections were made again: (\\d+) transfers resent, (\\d+) "
      "arrived a second time");
  int64_t reconnections = 0;
  int64_t resent = 0;
  int64_t duplicates = 0;
  for (std::sregex_iterator it(logs.begin(), logs.end(), line), end; it != end;
       ++it) {
    reconnections += std::stoll((*it)[1]);
    resent += std::stoll((*it)[2]);
    duplicates += std::stoll((*it)[3]);
  }
  std::cout << absl::StrCat("seed ", seed, ": ", cuts, " cuts, ", reconnections,
                            " connections made again, ", resent,
                            " transfers resent, ", duplicates,
                            " duplicates dropped: equal")
            << std::endl;
  // Both ends of a connection count it.
  EXPECT_GE(reconnections, cuts) << "seed " << seed;
  EXPECT_GT(resent, 0) << "seed " << seed;
  // Only what was sent again can have been there already.
  EXPECT_LE(duplicates, resent) << "seed " << seed;
}

}  // namespace
}  // namespace stagecoach::testing

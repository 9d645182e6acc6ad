#include "coordinator/placement_policy.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace stagecoach::coordinator {
namespace {

using Names = std::vector<std::string>;

class ChooseWorkersTest : public ::testing::Test {
 protected:
  WorkerRecord& Add(const std::string& name,
                    const std::string& torch = "2.11") {
    WorkerRecord& worker = workers_[name];
    worker.name = name;
    worker.torch_version = torch;
    return worker;
  }

  std::map<std::string, WorkerRecord, NaturalOrder> workers_;
};

TEST_F(ChooseWorkersTest, TakesIdleWorkersInTheOrderOfTheirNames) {
  for (const char* name : {"w10", "w2", "w1", "w0", "w3"}) Add(name);
  workers_["w1"].job_id = "job-1";
  EXPECT_EQ(ChooseWorkers(workers_, {}, 3).workers, Names({"w0", "w2", "w3"}));
  EXPECT_EQ(ChooseWorkers(workers_, {}, 4).workers,
            Names({"w0", "w2", "w3", "w10"}));
}

TEST_F(ChooseWorkersTest, SaysHowManyAreMissing) {
  Add("w0");
  Add("w1");
  EXPECT_EQ(ChooseWorkers(workers_, {}, 4).reason,
            "waiting for 4 idle workers, 2 registered");
  EXPECT_TRUE(ChooseWorkers(workers_, {}, 4).workers.empty());
  workers_["w1"].job_id = "job-1";
  EXPECT_EQ(ChooseWorkers(workers_, {}, 2).reason,
            "waiting for 2 idle workers, 2 registered, 1 idle");
}

TEST_F(ChooseWorkersTest, DeadAndSuspectWorkersAreNotChosen) {
  Add("w0").dead = true;
  Add("w1").suspect = true;
  Add("w2");
  EXPECT_EQ(ChooseWorkers(workers_, {}, 1).workers, Names({"w2"}));
  EXPECT_EQ(ChooseWorkers(workers_, {}, 2).reason,
            "waiting for 2 idle workers, 2 registered, 1 idle");
}

TEST_F(ChooseWorkersTest, WorkersThatAreToEndGetNothingNew) {
  Add("w0");
  Add("w1");
  EXPECT_EQ(ChooseWorkers(workers_, {"w0"}, 1).workers, Names({"w1"}));
  EXPECT_TRUE(ChooseWorkers(workers_, {"w0"}, 2).workers.empty());
}

TEST_F(ChooseWorkersTest, NeverMixesVersionsOfLibtorch) {
  Add("w0", "2.10");
  Add("w1", "2.11");
  Add("w2", "2.11");
  EXPECT_EQ(ChooseWorkers(workers_, {}, 2).workers, Names({"w1", "w2"}));
  EXPECT_EQ(ChooseWorkers(workers_, {}, 1).workers, Names({"w0"}));
  EXPECT_EQ(ChooseWorkers(workers_, {}, 3).reason,
            "waiting for 3 idle workers, 3 registered, but not of one "
            "libtorch: 1 with 2.10, 2 with 2.11");
}

}  // namespace
}  // namespace stagecoach::coordinator

#include "client/output/cluster_output.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "client/testing/sample_messages.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

TEST(WorkerListTest, Json) {
  const Json json = WorkerListJson(SampleWorkers());
  ASSERT_EQ(json["workers"].size(), 2u);
  EXPECT_EQ(json["workers"][0].dump(),
            R"({"id":"w0","state":"IDLE","reason":"",)"
            R"("incarnation":"fedcba9876543210","host":"box",)"
            R"("process_id":4242,"device":"cpu","version":"0.1.0",)"
            R"("torch_version":"2.11.0","job_id":null,"stages":[],)"
            R"("seconds_since_heartbeat":0.25})");
  EXPECT_EQ(json["workers"][1]["job_id"], "j-1");
  EXPECT_EQ(json["workers"][1]["stages"].dump(), "[1,3]");
  EXPECT_EQ(json["workers"][1]["state"], "SUSPECT");
}

TEST(WorkerListTest, SaysHowManyMessagesWereRefused) {
  v1::ListWorkersResponse response;
  response.mutable_refused()->set_other_epoch(3);
  response.mutable_refused()->set_no_session(1);
  EXPECT_EQ(WorkerListJson(response)["refused_messages"].dump(),
            R"({"old_term":0,"other_epoch":3,"other_incarnation":0,)"
            R"("no_session":1})");
}

TEST(WorkerListTest, Text) {
  EXPECT_EQ(
      WorkerListText(SampleWorkers()),
      "id  state    device  host   pid  job  stages  heartbeat  version  "
      "reason\n"
      "w0  IDLE     cpu     box   4242                  0.25 s  0.1.0\n"
      "w1  SUSPECT  cpu     box   4242  j-1  1, 3       0.25 s  0.1.0    no "
      "heartbeat for 2 s\n");
  EXPECT_EQ(WorkerListText(v1::ListWorkersResponse()), "no workers\n");
}

TEST(WorkerShowTest, TellsWhichWaysItHasAndWhichItsEdgesTake) {
  const v1::WorkerInfo worker = SampleWorkers().workers(1);
  v1::Job job = SucceededJob();
  job.add_edges("activation 2->3: tcp (another host)");
  EXPECT_EQ(WorkerText(worker, &job),
            "id        w1\n"
            "state     SUSPECT\n"
            "reason    no heartbeat for 2 s\n"
            "device    cpu\n"
            "host      box\n"
            "pid       4242\n"
            "version   0.1.0\n"
            "torch     2.11.0\n"
            "job       j-1\n"
            "stages    1, 3\n"
            "heartbeat 0.25 s\n"
            "paths     nccl: not here: no GPU\n"
            "          shm\n"
            "edges     activation 0->1: shm (same host)\n"
            "          gradient 1->0: shm (same host)\n");
  const Json json = WorkerJson(worker, &job);
  EXPECT_EQ(json["id"], "w1");
  EXPECT_EQ(json["paths"].dump(),
            R"([{"transport":"nccl","available":false,"reason":"no GPU"},)"
            R"({"transport":"shm","available":true,"reason":""}])");
  ASSERT_EQ(json["edges"].size(), 2u);
  EXPECT_EQ(json["edges"][1]["edge"], "gradient 1->0");
  EXPECT_EQ(json["edges"][1]["why"], "same host");
}

TEST(WorkerShowTest, AnIdleWorkerHasNoEdges) {
  const Json json = WorkerJson(SampleWorkers().workers(0), nullptr);
  EXPECT_EQ(json["paths"].dump(), "[]");
  EXPECT_EQ(json["edges"].dump(), "[]");
}

TEST(VersionTest, WithAndWithoutACoordinator) {
  EXPECT_TRUE(VersionJson(nullptr)["coordinator"].is_null());
  EXPECT_EQ(VersionJson(nullptr)["version"], std::string(kVersion));
  EXPECT_EQ(VersionJson(nullptr)["protocol"], kProtocolVersion);
  v1::GetCoordinatorResponse coordinator;
  coordinator.set_version("9.8.7");
  coordinator.set_protocol(4);
  coordinator.set_term(3);
  EXPECT_EQ(VersionJson(&coordinator)["coordinator"].dump(),
            R"({"version":"9.8.7","protocol":4,"term":3})");
  const std::string own = absl::StrCat("stagecoach ", kVersion, " (protocol ",
                                       kProtocolVersion, ")\n");
  EXPECT_EQ(VersionText(nullptr), own);
  EXPECT_EQ(VersionText(&coordinator),
            own + "coordinator 9.8.7 (protocol 4)\n");
}

}  // namespace
}  // namespace stagecoach::client

#include "client/output/edge_output.h"

#include "client/testing/sample_messages.h"
#include "gtest/gtest.h"

namespace stagecoach::client {
namespace {

v1::Job JobWithTraffic() {
  v1::Job job = SucceededJob();
  v1::EdgeTraffic* there = job.mutable_workers(0)->add_edges();
  there->set_edge("activation 0->1");
  there->set_transport("shm");
  there->set_transfers(16);
  there->set_in_place(14);
  v1::EdgeTraffic* back = job.mutable_workers(1)->add_edges();
  back->set_edge("gradient 1->0");
  back->set_transport("shm");
  back->set_transfers(16);
  back->set_in_place(15);
  return job;
}

TEST(EdgeOutputTest, AnEdgeSaysWhatItHasCarried) {
  EXPECT_EQ(EdgeJson(JobWithTraffic(), "gradient 1->0: shm (same host)").dump(),
            R"({"edge":"gradient 1->0","transport":"shm","why":"same host",)"
            R"("transfers":16,"in_place":15})");
}

TEST(EdgeOutputTest, TheTransportsLineCountsWhatWasProducedInPlace) {
  EXPECT_EQ(TransportLine(JobWithTraffic()),
            "shm (same host)\n"
            "              29 of 32 transfers produced in place");
}

TEST(EdgeOutputTest, BrokenConnectionsAreAddedUpOverTheWorkers) {
  v1::Job job = JobWithTraffic();
  job.mutable_workers(0)->clear_edges();
  job.mutable_workers(1)->clear_edges();
  for (v1::JobWorker& worker : *job.mutable_workers()) {
    worker.mutable_link()->set_reconnections(25);
    worker.mutable_link()->set_resent_transfers(3);
    worker.mutable_link()->set_duplicate_transfers(1);
    worker.mutable_link()->set_refused(1);
  }
  EXPECT_EQ(TransportLine(job),
            "shm (same host)\n"
            "              50 connections made again: 6 transfers resent, 2 of "
            "them had arrived already\n"
            "              2 connections or frames of strangers refused");
  EXPECT_EQ(LinkJson(job.workers(0).link()).dump(),
            R"({"reconnections":25,"resent_transfers":3,)"
            R"("duplicate_transfers":1,"duplicate_acknowledgements":0,)"
            R"("refused":1})");
}

}  // namespace
}  // namespace stagecoach::client

// Edges over UCX between this process and one it starts, which may be killed.
#include "gtest/gtest.h"
#include "transport/testing/two_processes.h"
#include "transport/ucx/testing/endpoints.h"

namespace stagecoach::transport {
namespace {

const PathOfTwo kUcx = {"ucx", "ucx_test_peer", ucx::testing::NewTestEndpoint};

INSTANTIATE_TEST_SUITE_P(Ucx, TransportTwoProcesses, ::testing::Values(kUcx));

}  // namespace
}  // namespace stagecoach::transport

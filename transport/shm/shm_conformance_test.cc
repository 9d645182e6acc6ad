#include "transport/shm/shm.h"
#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

const TransportUnderTest kShm = {"shm", [] { return NewShmEndpoint; }};

INSTANTIATE_TEST_SUITE_P(Shm, TransportConformance, ::testing::Values(kShm));
INSTANTIATE_TEST_SUITE_P(Shm, TransportThreads, ::testing::Values(kShm));

}  // namespace
}  // namespace stagecoach::transport

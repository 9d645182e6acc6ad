// The other process of shm_two_process_test.
#include <string>
#include <vector>

#include "transport/shm/shm.h"
#include "transport/testing/test_peer.h"

int main(int argc, char** argv) {
  return stagecoach::transport::testing::RunTestPeer(
      stagecoach::transport::NewShmEndpoint,
      std::vector<std::string>(argv + 1, argv + argc));
}

#ifndef STAGECOACH_TRANSPORT_TESTING_TWO_PROCESSES_H_
#define STAGECOACH_TRANSPORT_TESTING_TWO_PROCESSES_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/process.h"
#include "gtest/gtest.h"
#include "transport/testing/harness.h"
#include "transport/transport.h"

// What every transport must do between this process and one that may be killed.
// A backend joins with
//
//   INSTANTIATE_TEST_SUITE_P(Shm, TransportTwoProcesses,
//                            ::testing::Values(PathOfTwo{...}));
//
// and writes down what only it does on a fixture of its own:
//
//   class ShmTwoProcessTest : public TwoProcessTest { ... };
namespace stagecoach::transport {

struct PathOfTwo {
  std::string name;
  // Calls RunTestPeer; lies in the test's folder.
  std::string peer_program;
  EndpointFactory new_endpoint;

  friend std::ostream& operator<<(std::ostream& out, const PathOfTwo& path) {
    return out << path.name;
  }
};

// One end of the edge "e", whose other end is a process of RunTestPeer.
class TwoProcessTest : public ::testing::Test {
 protected:
  explicit TwoProcessTest(const PathOfTwo& path);

  ChildProcess Spawn(std::vector<std::string> arguments);
  // Returns when it stands still.
  static void Stop(ChildProcess* child);
  std::unique_ptr<SendEdge> OpenSend(const std::string& peer);
  bool Until(const std::function<bool()>& done);
  // Waits for the report of the one edge, and wants no other.
  void ExpectLost();

  const PathOfTwo path_;
  std::vector<TransferHeader> acknowledged_;
  testing::LostEdges lost_;
  std::unique_ptr<Doorbell> bell_ = Doorbell::Create().value();
  std::unique_ptr<Endpoint> endpoint_;
};

class TransportTwoProcesses : public TwoProcessTest,
                              public ::testing::WithParamInterface<PathOfTwo> {
 protected:
  TransportTwoProcesses() : TwoProcessTest(GetParam()) {}
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_TESTING_TWO_PROCESSES_H_

#ifndef STAGECOACH_TRANSPORT_TESTING_CONFORMANCE_H_
#define STAGECOACH_TRANSPORT_TESTING_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "transport/testing/harness.h"
#include "transport/transport.h"

// What every transport must do. A backend joins with one small file:
//
//   INSTANTIATE_TEST_SUITE_P(Loopback, TransportConformance,
//                            ::testing::Values(TransportUnderTest{...}));
//   INSTANTIATE_TEST_SUITE_P(Loopback, TransportThreads, ... the same ...);
namespace stagecoach::transport {

struct TransportUnderTest {
  std::string name;
  // A maker of endpoints that can reach each other; called once per test.
  std::function<EndpointFactory()> make;

  friend std::ostream& operator<<(std::ostream& out,
                                  const TransportUnderTest& transport) {
    return out << transport.name;
  }
};

// Two endpoints on one bell, both driven by the test's thread.
class TransportConformance
    : public ::testing::TestWithParam<TransportUnderTest> {
 protected:
  TransportConformance();

  std::unique_ptr<Endpoint> NewEndpoint(Doorbell* bell,
                                        testing::LostEdges* lost);
  // "e" from a_ to b_, unless said otherwise.
  std::unique_ptr<ReceiveEdge> OpenReceive(const EdgeOptions& options);
  std::unique_ptr<SendEdge> OpenSend(const std::string& name = "e");
  bool Until(const std::function<bool()>& done);
  // Until nothing more happens on either side.
  void Settle();

  std::unique_ptr<Doorbell> bell_;
  testing::LostEdges lost_a_;
  testing::LostEdges lost_b_;
  std::vector<TransferHeader> acknowledged_;  // by b_, to a_'s edges
  EndpointFactory factory_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
};

// Two endpoints, each with its own bell, driven by several threads.
class TransportThreads : public ::testing::TestWithParam<TransportUnderTest> {
 protected:
  TransportThreads();

  std::unique_ptr<Doorbell> bell_a_;
  std::unique_ptr<Doorbell> bell_b_;
  testing::LostEdges lost_a_;
  testing::LostEdges lost_b_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
};

}  // namespace stagecoach::transport

#endif  // STAGECOACH_TRANSPORT_TESTING_CONFORMANCE_H_

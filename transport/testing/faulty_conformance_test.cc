// With an empty plan the wrapper is not to be noticed.
#include <memory>

#include "transport/loopback/loopback.h"
#include "transport/shm/shm.h"
#include "transport/testing/conformance.h"
#include "transport/testing/faulty_endpoint.h"

namespace stagecoach::transport {
namespace {

EndpointFactory Wrap(EndpointFactory factory, const FaultPlan& plan) {
  return [factory, plan](const EndpointOptions& options)
             -> absl::StatusOr<std::unique_ptr<Endpoint>> {
    absl::StatusOr<std::unique_ptr<Endpoint>> real = factory(options);
    if (!real.ok()) return real.status();
    return MakeFaultyEndpoint(*std::move(real), options, plan);
  };
}

TransportUnderTest FaultyLoopback() {
  return {"loopback", [] {
            auto hub = std::make_shared<LoopbackHub>();
            return Wrap(
                [hub](const EndpointOptions& options) {
                  return hub->NewEndpoint(options);
                },
                FaultPlan());
          }};
}

TransportUnderTest FaultyShm() {
  return {"shm", [] { return Wrap(NewShmEndpoint, FaultPlan()); }};
}

// Delays change when things happen, never what.
TransportUnderTest SlowLoopback() {
  return {"slow", [] {
            auto hub = std::make_shared<LoopbackHub>();
            FaultPlan plan;
            plan.delay_receive_polls = 3;
            plan.delay_ack_polls = 2;
            return Wrap(
                [hub](const EndpointOptions& options) {
                  return hub->NewEndpoint(options);
                },
                plan);
          }};
}

INSTANTIATE_TEST_SUITE_P(Faulty, TransportConformance,
                         ::testing::Values(FaultyLoopback(), FaultyShm()));
INSTANTIATE_TEST_SUITE_P(Faulty, TransportThreads,
                         ::testing::Values(FaultyLoopback(), FaultyShm(),
                                           SlowLoopback()));

}  // namespace
}  // namespace stagecoach::transport

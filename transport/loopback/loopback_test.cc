#include "transport/loopback/loopback.h"

#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

const TransportUnderTest kLoopback = {
    "loopback", [] {
      return [hub = std::make_shared<LoopbackHub>()](
                 const EndpointOptions& options) {
        return hub->NewEndpoint(options);
      };
    }};

INSTANTIATE_TEST_SUITE_P(Loopback, TransportConformance,
                         ::testing::Values(kLoopback));
INSTANTIATE_TEST_SUITE_P(Loopback, TransportThreads,
                         ::testing::Values(kLoopback));

TEST(LoopbackTest, AnotherHubIsOutOfReach) {
  const auto bell = Doorbell::Create().value();
  LoopbackHub here;
  LoopbackHub there;
  testing::LostEdges lost;
  const auto a =
      here.NewEndpoint(testing::OptionsFor(bell.get(), &lost)).value();
  const auto b =
      there.NewEndpoint(testing::OptionsFor(bell.get(), &lost)).value();
  EXPECT_EQ(a->IsViable(b->Describe()).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace stagecoach::transport

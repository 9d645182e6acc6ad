// The host emulator in place of NCCL and CUDA.
#include <atomic>
#include <memory>

#include "transport/nccl/testing/emulator.h"
#include "transport/nccl/testing/no_misuse.h"
#include "transport/testing/conformance.h"

namespace stagecoach::transport {
namespace {

constexpr int kGpus = 8;

// Each endpoint has a GPU of its own.
EndpointFactory MakeFactory() {
  auto next = std::make_shared<std::atomic<int>>(0);
  return [next](const EndpointOptions& options) {
    return nccl::testing::NewEmulatedEndpoint(
        options, nccl::testing::EmulatorSettings((*next)++ % kGpus));
  };
}

::testing::Environment* const kNoMisuse =
    ::testing::AddGlobalTestEnvironment(new nccl::testing::NoMisuse);

const TransportUnderTest kNccl = {"nccl", MakeFactory};

INSTANTIATE_TEST_SUITE_P(Nccl, TransportConformance, ::testing::Values(kNccl));
INSTANTIATE_TEST_SUITE_P(Nccl, TransportThreads, ::testing::Values(kNccl));

TEST(NcclRefusalTest, AnUnknownEdgeIsCounted) {
  const auto bell = Doorbell::Create().value();
  testing::LostEdges lost;
  const EndpointFactory factory = MakeFactory();
  const auto a = factory(testing::OptionsFor(bell.get(), &lost)).value();
  const auto b = factory(testing::OptionsFor(bell.get(), &lost)).value();
  EXPECT_EQ(b->counters().refused(), 0);
  const auto send = a->OpenSend(testing::EdgeNamed("e"), b->Describe(), nullptr,
                                testing::kTestDeadline);
  EXPECT_TRUE(absl::IsNotFound(send.status())) << send.status();
  const LinkCounters counters = b->counters();
  EXPECT_EQ(counters.refused_by[static_cast<size_t>(Refusal::kUnknownEdge)], 1);
  EXPECT_EQ(counters.refused(), 1);
}

}  // namespace
}  // namespace stagecoach::transport

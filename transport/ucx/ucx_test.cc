// What keeps UCX from being used, and what a worker says of it.
#include "transport/ucx/ucx.h"

#include <csignal>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stagecoach::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ObstacleOf(const ucx::UcxSettings& settings) {
  const auto description = DescribeUcx(settings);
  EXPECT_TRUE(absl::IsFailedPrecondition(description.status()))
      << description.status();
  return std::string(description.status().message());
}

TEST(UcxTest, DescribesItselfWhereItWorks) {
  const std::string here = DescribeUcx(ucx::UcxSettings()).value();
  EXPECT_THAT(here, StartsWith("ucx/1;1."));
  EXPECT_THAT(here, HasSubstr(";loopback;"));
  EXPECT_TRUE(CheckUcxPair(here, here).ok());
}

TEST(UcxTest, AnAbsentLibraryIsNamed) {
  ucx::UcxSettings settings;
  settings.library = "/nowhere/libucp.so.0";
  EXPECT_THAT(ObstacleOf(settings),
              HasSubstr("cannot open /nowhere/libucp.so.0"));
}

TEST(UcxTest, AnotherLibraryIsFoundOut) {
  ucx::UcxSettings settings;
  settings.library = "libm.so.6";
  EXPECT_THAT(ObstacleOf(settings),
              HasSubstr("libm.so.6 has no function ucp_get_version"));
}

TEST(UcxTest, TransportsThatAreNotThereAreNamed) {
  ucx::UcxSettings settings;
  settings.configuration["TLS"] = "carrier_pigeon";
  EXPECT_THAT(ObstacleOf(settings), HasSubstr("ucp_init failed"));
}

struct sigaction HandlerOfCrashes() {
  struct sigaction action {};
  (void)sigaction(SIGSEGV, nullptr, &action);
  return action;
}
// Before UCX is loaded.
const struct sigaction kHandlerBefore = HandlerOfCrashes();

// What a crash looks like is the worker's business.
TEST(UcxTest, LeavesTheWorkersSignalsAlone) {
  ASSERT_TRUE(DescribeUcx(ucx::UcxSettings()).ok());
  EXPECT_EQ(HandlerOfCrashes().sa_handler, kHandlerBefore.sa_handler);
}

TEST(UcxTest, NeedsAControlChannel) {
  const auto endpoint = NewUcxEndpoint(EndpointOptions(), ucx::UcxSettings());
  EXPECT_TRUE(absl::IsFailedPrecondition(endpoint.status()));
}

}  // namespace
}  // namespace stagecoach::transport

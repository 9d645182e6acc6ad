#ifndef STAGECOACH_TRANSPORT_NCCL_TESTING_NO_MISUSE_H_
#define STAGECOACH_TRANSPORT_NCCL_TESTING_NO_MISUSE_H_

#include "gtest/gtest.h"
#include "transport/nccl/testing/emulator.h"

namespace stagecoach::transport::nccl::testing {

// At the end of a test program: NCCL was called as it wants to be, in all
// tests. Register with AddGlobalTestEnvironment, which owns it.
class NoMisuse : public ::testing::Environment {
 public:
  void TearDown() override { EXPECT_EQ(Emulator().TakeMisuses(), ""); }
};

}  // namespace stagecoach::transport::nccl::testing

#endif  // STAGECOACH_TRANSPORT_NCCL_TESTING_NO_MISUSE_H_

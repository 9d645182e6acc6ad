#include "stage_worker/engine/torch/device_hook.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace stagecoach::worker {
namespace {

TEST(DeviceHookTest, WithoutTheLibrariesThereIsNothingToObserve) {
  const auto account = ObserveDevice(at::Device(at::kCUDA, 0));
  EXPECT_TRUE(absl::IsUnavailable(account.status())) << account.status();
}

}  // namespace
}  // namespace stagecoach::worker
